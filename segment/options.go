package segment

import (
	"log/slog"

	"github.com/pulsemq/pulsemq/core"
)

// Ports is how a store reaches the world.
type Ports struct {
	Disk    core.Disk       // all I/O of the serving store
	FS      core.FS         // OpenStore and OpenLog, and jobs on workers
	Clock   core.Clock      // read at OpenStore and OpenLog; Flush and Tick are told the time
	Workers core.Workers    // index rebuilds, time look-ups, compaction, free space
	Slabs   core.SlabSource // tail chunks, journal groups, read buffers: the shard's own
	// ReadSlabs is for reads alone, when Slabs has nothing left; nil: there is no such.
	ReadSlabs core.SlabSource
	Log       *slog.Logger // nil discards
}

// Options are what an operator may choose for a shard's store. Zero fields take their default.
type Options struct {
	// CacheBytes bounds the slabs that keep written frames for readers.
	CacheBytes int64
	// OpenFiles bounds the segment files held open.
	OpenFiles int
	// FreeBytesLow is the free space below which appends answer core.ErrDiskFull;
	// they are accepted again above FreeBytesHigh.
	FreeBytesLow, FreeBytesHigh int64
	// IdleNanos is after how long without use a partition gives up its memory and files.
	IdleNanos int64
	// ScrubBytesPerSecond is how much of its sealed segments a shard reads again at most
	// to find damage.
	ScrubBytesPerSecond int64
	// ScrubNanos is the least time between the beginnings of two passes over all sealed
	// segments; -1 begins none by itself.
	ScrubNanos int64
	// FlushBytes is how much of a partition's tail gathers before it goes to its segment.
	FlushBytes int64
	// RetainNanos is the time between two looks for segments past their retention.
	RetainNanos int64
	// CompactNanos is the least time between two passes over one compacted log.
	CompactNanos int64
	// ClockJumpNanos is by how much wall clock and monotonic clock may part before ages
	// mean nothing.
	ClockJumpNanos int64
	// Together calls do with 0 to n-1, each once, and returns when all have returned. A start
	// has its logs looked at and its files synced by it: threads are the business of who runs
	// the store.
	// nil is one after the other.
	Together func(n int, do func(i int))
	// StateBytes is how many bytes of frames may lie behind the last .state before a new one is written.
	StateBytes int64
}

// Defaults and bounds of Options.
const (
	cacheBytesDefault     = 256 << 20
	openFilesDefault      = 512
	openFilesMin          = 4 // kept open even when descriptors have run out
	filesWarnNanos        = 60e9
	freeBytesLowDefault   = 256 << 20
	freeBytesHighDefault  = 512 << 20
	idleNanosDefault      = 60e9
	stateBytesDefault     = 64 << 20
	flushBytesTailDefault = 256 << 10
	retainNanosDefault    = 1e9
	compactNanosDefault   = 15e9
	clockJumpDefault      = 3600e9
	scrubNanosDefault     = 24 * 3600e9
)

func (o Options) withDefaults() Options {
	if o.CacheBytes <= 0 {
		o.CacheBytes = cacheBytesDefault
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = openFilesDefault
	}
	if o.FreeBytesLow <= 0 {
		o.FreeBytesLow = freeBytesLowDefault
	}
	if o.FreeBytesHigh <= o.FreeBytesLow {
		o.FreeBytesHigh = max(freeBytesHighDefault, o.FreeBytesLow+o.FreeBytesLow/4)
	}
	if o.IdleNanos <= 0 {
		o.IdleNanos = idleNanosDefault
	}
	if o.ScrubBytesPerSecond <= 0 {
		o.ScrubBytesPerSecond = scrubBytesPerSecondDefault
	}
	if o.ScrubNanos == 0 {
		o.ScrubNanos = scrubNanosDefault
	}
	if o.FlushBytes <= 0 {
		o.FlushBytes = flushBytesTailDefault
	}
	o.FlushBytes = min(o.FlushBytes, logDirtyBytesMax/2) // a log that is refused must have begun to flush
	if o.RetainNanos <= 0 {
		o.RetainNanos = retainNanosDefault
	}
	if o.CompactNanos <= 0 {
		o.CompactNanos = compactNanosDefault
	}
	if o.ClockJumpNanos <= 0 {
		o.ClockJumpNanos = clockJumpDefault
	}
	if o.Together == nil {
		o.Together = func(n int, do func(i int)) {
			for i := range n {
				do(i)
			}
		}
	}
	if o.StateBytes <= 0 {
		o.StateBytes = stateBytesDefault
	}
	return o
}

// LogOptions are the settings of one partition that storage acts on. A zero
// field takes its default; -1 means no bound where that is allowed.
type LogOptions struct {
	Durability core.Durability
	// FlushNanos and FlushBytes bound what a batch or none topic has at risk.
	FlushNanos int64
	FlushBytes int64
	// RetentionNanos and RetentionBytes bound the log; -1 keeps everything.
	RetentionNanos int64
	RetentionBytes int64
	// SegmentBytes and SegmentNanos say when a segment is closed and the next begun.
	SegmentBytes int64
	SegmentNanos int64
	// Compact keeps the last record of each key instead of deleting by age and size.
	Compact bool
}

const (
	flushNanosDefault   = 1e9
	flushBytesDefault   = 16 << 20
	segmentBytesDefault = 1 << 30
	segmentNanosDefault = 7 * 24 * 3600e9

	// SegmentBytesMin is the smallest segment size: a header and one largest batch fit.
	SegmentBytesMin = 64 << 10
)

func (o LogOptions) withDefaults() LogOptions {
	if o.FlushNanos <= 0 {
		o.FlushNanos = flushNanosDefault
	}
	if o.FlushBytes <= 0 {
		o.FlushBytes = flushBytesDefault
	}
	if o.RetentionNanos == 0 {
		o.RetentionNanos = -1
	}
	if o.RetentionBytes == 0 {
		o.RetentionBytes = -1
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = segmentBytesDefault
	}
	o.SegmentBytes = max(o.SegmentBytes, SegmentBytesMin)
	if o.SegmentNanos <= 0 {
		o.SegmentNanos = segmentNanosDefault
	}
	return o
}
