package segment

import (
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

// IndexEntry is one line of a sparse index: a frame and where it stands.
type IndexEntry struct {
	Offset   core.Offset // the frame's base offset
	Index    core.Index
	Position int64 // of the frame in the segment's file
	// MaxTimestamp is the greatest record timestamp of the segment before this
	// frame, so it never falls from entry to entry although timestamps may.
	MaxTimestamp int64
	Term         core.Term
}

// TimestampNone is the running maximum before any record.
const TimestampNone int64 = math.MinInt64

// Index is the sparse index of one segment, in memory. It is a cache: whatever it
// says can be told from the segment, and it is rebuilt when it does not match.
//
// Invariants: Entries rise strictly in Position and Index, and never fall in
// Offset and MaxTimestamp. The first entry is the segment's first frame.
type Index struct {
	Entries []IndexEntry

	// End is the position behind the last frame that was added, NextOffset and
	// LastIndex what that frame says.
	End        int64
	NextOffset core.Offset
	LastIndex  core.Index

	// MaxTimestamp is the greatest of the whole segment, TimestampNone without
	// records; MaxTimestampOffset is the base offset of the first frame that holds
	// it, -1 when a cut made that unknown.
	MaxTimestamp       int64
	MaxTimestampOffset core.Offset

	// AppendTimeLast is the wall clock of the youngest frame, for retention by age; 0 unknown.
	AppendTimeLast int64

	// CursorBytes is what cursor frames take, each with what lies between it and the frame
	// before it: a write of its own is padded to the disk's unit. Retention by size counts
	// records, not who reads them.
	CursorBytes int64

	lastEntry int64 // position of the last entry
	framed    int64 // the end of the last frame that is not local to the file; 0 none yet
}

const (
	// indexEntriesLeast is the room that an index begins with.
	indexEntriesLeast = 16
	// indexEntriesSteep is up to where its room becomes four times as large each time
	// that it is full, and behind that twice: partitions that fill up evenly grow at
	// the same time, and append would have each of them grow for every few requests.
	indexEntriesSteep = 1024
)

// indexGrowth is how many entries more than n there is to be room for.
func indexGrowth(n int) int {
	if n < indexEntriesSteep {
		return max(3*n, indexEntriesLeast)
	}
	return n
}

// NewIndex makes the empty index of a new segment.
func NewIndex(base core.Offset, index core.Index) *Index {
	x := &Index{}
	x.Reset(base, index)
	return x
}

// Reset empties the index for another segment and keeps its memory.
func (x *Index) Reset(base core.Offset, index core.Index) {
	*x = Index{Entries: x.Entries[:0], End: FileHeaderBytes, NextOffset: base, MaxTimestamp: TimestampNone}
	if index > 0 {
		x.LastIndex = index - 1
	}
}

// Add takes note of a frame at a position. maxTimestamp is that of its records,
// TimestampNone for frames without. Frames that are local to the file (marks,
// generations) only move the end. Frames must be added in order of position.
func (x *Index) Add(h *FrameHeader, position int64, maxTimestamp int64) {
	core.Assert(position >= x.End, "frames are indexed in the order of their positions")
	x.End = position + FrameHeaderBytes + int64(h.Bytes)
	if !frameIndexed(h.Kind) {
		return
	}
	if len(x.Entries) == 0 || x.End-x.lastEntry >= core.IndexIntervalBytes {
		if n := len(x.Entries); n == cap(x.Entries) {
			x.Entries = slices.Grow(x.Entries, indexGrowth(n))
		}
		x.Entries = append(x.Entries, IndexEntry{
			Offset: h.BaseOffset, Index: h.Index, Position: position, MaxTimestamp: x.MaxTimestamp, Term: h.Term,
		})
		x.lastEntry = position
	}
	if h.Kind == FrameCursor {
		before := x.framed
		if before == 0 {
			before = position
		}
		x.CursorBytes += x.End - before
	}
	x.framed = x.End
	x.NextOffset, x.LastIndex = h.Next(), h.Index
	x.AppendTimeLast = max(x.AppendTimeLast, h.AppendTime)
	if maxTimestamp > x.MaxTimestamp {
		x.MaxTimestamp, x.MaxTimestampOffset = maxTimestamp, h.BaseOffset
	}
}

// Find returns the entry from which a scan meets the frame that holds the
// offset: the last one at or below it. False: the offset lies before the segment.
func (x *Index) Find(offset core.Offset) (IndexEntry, bool) {
	// Entries with equal offsets are frames without a span and what follows them:
	// the last of them may be the data frame itself.
	i := sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Offset > offset })
	if i == 0 {
		return IndexEntry{}, false
	}
	return x.Entries[i-1], true
}

// FindIndex returns the last entry at or below a frame's index.
func (x *Index) FindIndex(index core.Index) (IndexEntry, bool) {
	i := sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Index > index })
	if i == 0 {
		return IndexEntry{}, false
	}
	return x.Entries[i-1], true
}

// FindTime returns the entry from which a scan meets the first record with a
// timestamp of at least t. False: the segment holds none.
func (x *Index) FindTime(t int64) (IndexEntry, bool) {
	if len(x.Entries) == 0 || x.MaxTimestamp < t || x.MaxTimestamp == TimestampNone {
		return IndexEntry{}, false
	}
	// Before the first entry whose running maximum reaches t there is such a record;
	// the entry before that one is where to begin.
	i := sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].MaxTimestamp >= t })
	return x.Entries[max(i-1, 0)], true
}

// Cut forgets what stands at and behind a point, after a failed write ended the
// segment there. MaxTimestamp stays as an upper bound: a search may then begin
// here in vain and goes on to the next segment, but misses nothing. So does
// CursorBytes, as far as the segment reaches: retention may keep a little more.
func (x *Index) Cut(p SealedPoint) {
	i := sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Position >= p.Position })
	x.Entries = x.Entries[:i]
	x.End, x.LastIndex, x.NextOffset = p.Position, p.Index, p.NextOffset
	x.CursorBytes = min(x.CursorBytes, max(0, x.End-FileHeaderBytes))
	x.framed = x.End
	x.lastEntry = 0
	if i > 0 {
		x.lastEntry = x.Entries[i-1].Position
	} else {
		x.MaxTimestamp = TimestampNone
	}
	if x.MaxTimestampOffset >= p.NextOffset {
		x.MaxTimestampOffset = -1
	}
}

// ErrIndexStale reports an index that does not describe the segment as it is.
var ErrIndexStale = errors.New("index: does not match its segment")

// RebuildIndex makes the index of an opened scanner's segment from its frames.
// Holes are left out: what lies behind them is indexed.
func RebuildIndex(s *Scanner, x *Index) error {
	x.Reset(s.Header.BaseOffset, s.Header.BaseIndex)
	for s.Next() {
		t := TimestampNone
		if s.Frame.Kind == FrameData {
			t = PayloadMaxTimestamp(s.Payload)
		}
		x.Add(&s.Frame, s.Position, t)
	}
	return s.Err()
}
