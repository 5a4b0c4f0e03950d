package segment

import (
	"path"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// segment is one file of a log.
//
// Invariants: frames with an index in [header.BaseIndex, the next segment's base)
// and no others count; position is a multiple of core.DiskAlignment.
type segment struct {
	log    *Log
	header FileHeader
	path   string

	position  int64 // end of what was written, or is being written
	allocated int64 // up to where the file has been reserved
	lastIndex core.Index
	next      core.Offset // after its last frame
	createdAt int64       // wall clock, for rolls by age

	index       *Index // nil while it is not loaded
	indexFrom   int64  // of the active segment: below this position the index has not been built
	indexPieced bool   // put together from pieces: right, but its entries lie elsewhere than those of one pass
	indexJob    *indexJob
	indexUsed   int64 // monotonic
	appendLast  int64 // wall clock of its newest frame; 0 unknown
	// maxTimestamp is the greatest of its records and cursorBytes what its cursors take, when
	// learned: what a whole index said outlives it.
	maxTimestamp int64
	cursorBytes  int64
	learned      bool

	stateName     string     // what StateFresh makes, once a state was written
	statePoint    core.Index // of its .state file; 0 none
	stateVerified bool       // written and read back by this process, or found valid
	ended         bool       // nothing is written to it any more
	returning     bool       // what is reserved behind its end is being given back: no writes
	idleExtent    bool       // that was given back: the next extent is a small one
	removing      bool
	removed       bool
	readers       int // reads in flight; the file is not removed under them

	file    core.FileID
	opening bool
	users   int
	waiters []fileWaiter
	older   *segment // in the list of open files without a user
	newer   *segment
	listed  bool
}

// stem is the path of the segment's files without their extensions.
func (g *segment) stem() string { return strings.TrimSuffix(g.path, LogExtension) }

// dir is the partition's folder.
func (g *segment) dir() string { return path.Dir(g.path) }

// stateFresh is the name under which its state file is written; each has many, in turn.
func (g *segment) stateFresh() string {
	if g.stateName == "" {
		g.stateName = StateFresh(g.stem())
	}
	return g.stateName
}

func (g *segment) empty() bool { return g.position <= FileHeaderBytes }

// end is the point up to which the segment is written.
func (g *segment) end() SealedPoint {
	return SealedPoint{Segment: g.header.Segment, Position: g.position, Index: g.lastIndex, NextOffset: g.next}
}

// past is the first index that does not count in the segment. A write that was taken
// back in part leaves whole frames behind the last one that counts, in its block, and
// a block that holds durable bytes is not written again.
func (g *segment) past() core.Index {
	for _, after := range g.log.segments {
		if after.header.BaseIndex > g.header.BaseIndex {
			return after.header.BaseIndex
		}
	}
	return g.lastIndex + 1
}

func (l *Log) newSegment(number core.SegmentNumber, base core.Offset, index core.Index, salt uint64) *segment {
	g := &segment{log: l, header: FileHeader{
		Kind: FileSegment, Incarnation: l.store.folder.Incarnation, Topic: l.id.Topic, Partition: l.id.Partition,
		Number: l.id.Number, Segment: number, BaseOffset: base, BaseIndex: index, Salt: salt,
	}}
	g.path = l.segmentPath(base, number)
	g.position, g.lastIndex, g.next = FileHeaderBytes, index-1, base
	g.createdAt = l.store.wall
	return g
}

// statePath is the path of its state file.
func (g *segment) statePath() string { return strings.TrimSuffix(g.stateFresh(), newSuffix) }

// segmentPath is the path of a segment's file.
func (l *Log) segmentPath(base core.Offset, number core.SegmentNumber) string {
	dir := ""
	if g := l.active(); g != nil {
		dir = g.dir()
	} else {
		dir = l.id.dir()
	}
	var room [128]byte
	b := append(append(room[:0], dir...), '/')
	return string(append(appendSegmentName(b, base, number), LogExtension...))
}

// active is the segment that is written to, or nil.
func (l *Log) active() *segment {
	if n := len(l.segments); n > 0 {
		return l.segments[n-1]
	}
	return nil
}

// segmentReady says that nothing has to wait until a segment is made, which costs some syncs
// of folders: the active one takes all that waits for it. When the last try to make one
// has failed, large batches wait for the next: the journal, which all partitions share,
// would keep them until it succeeds.
func (l *Log) segmentReady() bool {
	g := l.active()
	return l.makeFailed || g != nil && !g.ended && !l.rollWanted && (g.empty() || g.position+l.dirtyBytes <= l.options.SegmentBytes)
}
