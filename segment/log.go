package segment

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// LogIdentity says which partition a log belongs to. It is checked against
// every file of the log.
type LogIdentity struct {
	Partition core.PartitionID
	Topic     core.TopicID
	Number    core.PartitionNumber
	// Name is the topic's, for people who read the log; no file holds it.
	Name string
}

func (id LogIdentity) String() string {
	if id.Name != "" {
		return fmt.Sprintf("topic %s partition %d (id %d, topic id %s)", id.Name, id.Number, id.Partition, id.Topic)
	}
	return fmt.Sprintf("partition %d (topic %s, number %d)", id.Partition, id.Topic, id.Number)
}

func (id LogIdentity) dir() string { return PartitionDir(id.Topic, id.Number) }

// LogOwner is the shard's partition behind a log. The store calls it from its
// own methods and completions only, on the shard's thread; the owner may call
// Append and Read from within.
type LogOwner interface {
	// Advanced tells that the written or durable offset, the log start or what
	// ReachedOffset says moved.
	Advanced(l *Log)
	// RolledBack tells that every frame from next on that was not durable is gone.
	// Their offsets will be used again under the log's new, higher term. The owner
	// answers what waited for them with err and takes its derived state back to next.
	RolledBack(l *Log, next core.Offset, err error)
	// Snapshot appends the derived state at exactly the log's current end to b.
	Snapshot(b []byte) []byte
	// Restore sets the derived state; nil is that of an empty log.
	Restore(state []byte) error
	// Excerpt appends to b what Replay needs of a frame's payload, which is a view that is
	// good during the call. It is asked before Restore, of frames that may turn out not to
	// be the log's, and on other threads than the shard's: it may use nothing that changes.
	Excerpt(b []byte, h *FrameHeader, payload []byte) []byte
	// Replay hands on each frame behind the restored state, in order, with its Excerpt, which
	// is good during the call. Of the header only what says what the frame holds is set.
	Replay(h *FrameHeader, excerpt []byte)
}

type logState uint8

const (
	logServing logState = iota
	// logFailing: a segment write or sync failed; waits until nothing is in flight.
	logFailing
	logDropped
)

// Log is one partition's log on this shard.
//
// Invariants: start <= end and durable <= written <= end. The written and durable
// offsets follow the prefix rule: every frame below has reached that level,
// whichever way it was written.
type Log struct {
	store   *Store
	id      LogIdentity
	options LogOptions
	owner   LogOwner
	state   logState

	start   core.Offset // log start
	end     core.Offset // next offset to append
	written core.Offset
	durable core.Offset

	index        core.Index // of the last frame appended; 0 none
	writtenIndex core.Index
	durableIndex core.Index

	term            core.Term
	generation      core.Generation
	generationStart core.Index
	epochs          EpochTable
	damaged         []DamageRange
	blemishes       []blemish // damage of the log's files that took no record

	// openNeeded: the next append first opens the term with a generation record and a
	// no-op. recordNeeded: the generation record has not been put in a group yet.
	// opening is that no-op's index until it is durable, else 0: no frame from there on
	// goes to a segment before.
	openNeeded   bool
	recordNeeded bool
	opening      core.Index

	pending pendingRing // frames appended and not yet durable

	// chunks are the frames in memory, oldest first: sealed ones kept for readers,
	// then those written, then those that the segment does not have yet.
	chunks    chunkDeque
	issued    int        // how many of chunks have been handed to the writer
	placed    core.Index // frames up to here went to the journal or wait for the writer
	placeSync bool       // of the frames behind placed, one wants a sync
	// reserveIndex is the last frame that may use the journal's reserve, and those before
	// it with it: a log's frames go in order.
	reserveIndex core.Index
	largeBytes   int        // of frames behind placed that lie in direct chunks
	dirtyBytes   int64      // of closed chunks not yet handed to the writer
	tailSlab     *core.Slab // where the next tail chunk begins, with a reference of its own
	tailAt       int
	tailBytes    int   // size of the next tail slab
	tailCharged  int64 // of the tail slab's bytes, those that the cache counts

	writer      *writer    // nil while idle
	flushIndex  core.Index // chunks up to here are wanted in the segment
	syncIndex   core.Index // and durable in it up to here
	makeFailed  bool       // the last try to make a segment's file failed
	extentLeast bool       // a file may not become as large as an extent makes it
	rollWanted  bool
	retryAt     int64 // monotonic; the writer waits until then after a failure

	segments    []*segment // ascending; the last one is written to
	sealed      SealedPoint
	nextSegment core.SegmentNumber

	unsynced      int64 // bytes appended and not durable
	unsyncedSince int64 // monotonic; 0 none
	usedAt        int64 // monotonic, of the last append or read

	stateIndex   core.Index // of the newest .state written, or on its way
	stateBytes   int64      // of frames appended since
	stateBusy    bool
	stopState    bool // a state was taken for the stop
	stateRetryAt int64
	stateFailing bool // the last write of one failed, and was told

	retainAt       int64       // monotonic, of the next look for old segments
	verifiedAt     int64       // wall clock: what was sealed then has been read again since; 0 unknown
	verifyAsked    bool        // somebody wants it read again, ahead of the others
	compactAt      int64       // monotonic, before which no compaction begins
	compactDropped core.Offset // below it tombstones were dropped, or looked for

	journalFile  *journalFile // where the newest record of this log lies
	journalTouch int          // its entry there
	inGroups     int          // parts of this log in groups in flight

	inPlaceList, inUnsyncedList, inJournalList, inFailedList, inActiveList, inKickList bool

	failure    error // why the log is failing
	appendLast int64 // wall clock of the newest frame
	dropped    func()
	trims      []trim
}

// Identity says which partition this is.
func (l *Log) Identity() LogIdentity { return l.id }

// Options are the settings in force.
func (l *Log) Options() LogOptions { return l.options }

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() core.Offset { return l.start }

// EndOffset is the offset of the next record to append.
func (l *Log) EndOffset() core.Offset { return l.end }

// WrittenOffset is below which everything has been written (journal or segment).
func (l *Log) WrittenOffset() core.Offset { return l.written }

// DurableOffset is below which everything has been synced.
func (l *Log) DurableOffset() core.Offset { return l.durable }

// ReachedOffset is below which everything has reached a level, by the prefix
// rule. For none that is the end, except while the first frame of a term is not
// durable: nothing of a term is acked or shown before that.
func (l *Log) ReachedOffset(level core.Durability) core.Offset {
	switch {
	case level == core.DurabilitySync:
		return l.durable
	case level == core.DurabilityBatch || l.opening != 0 || l.openNeeded:
		return l.written
	}
	return l.end
}

// LastIndex is the index of the last frame appended.
func (l *Log) LastIndex() core.Index { return l.index }

// WrittenIndex is the index up to which everything has been written.
func (l *Log) WrittenIndex() core.Index { return l.writtenIndex }

// DurableIndex is the index up to which everything has been synced.
func (l *Log) DurableIndex() core.Index { return l.durableIndex }

// Term is that of the next frame; clients see it as the leader epoch.
func (l *Log) Term() core.Term { return l.term }

// Generation is that of the next frame.
func (l *Log) Generation() core.Generation { return l.generation }

// Epochs is the table of terms. It is read-only.
func (l *Log) Epochs() *EpochTable { return &l.epochs }

// SizeBytes is what the log's segments and unwritten chunks hold.
func (l *Log) SizeBytes() int64 {
	n := l.dirtyBytes
	if c := l.chunks.last(); c != nil && c.state == chunkOpen { // dirtyBytes counts closed ones
		n += int64(c.used - c.start)
	}
	for _, g := range l.segments {
		n += g.position - FileHeaderBytes
	}
	return n
}

// RiskBytes is how many appended bytes are not durable yet, and RiskSince since
// when (monotonic; 0 when there are none).
func (l *Log) RiskBytes() int64 { return l.unsynced }

// RiskSince is when the oldest byte at risk was appended, on the monotonic clock.
func (l *Log) RiskSince() int64 { return l.unsyncedSince }
