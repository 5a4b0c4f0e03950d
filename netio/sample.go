package netio

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/core"
)

// ShardSource hands over pictures of one shard. It is called by the admin port's
// goroutines and must not make the shard's thread wait: it returns the newest
// picture that the shard has left, nil before the first, and asks for a newer
// one. A picture is never changed after it was handed over.
type ShardSource interface {
	ShardSample() *ShardSample
}

// ShardSample is a picture of one shard. Counters count since the start.
type ShardSample struct {
	Shard core.ShardID

	MessagesIn, BytesIn   int64 // produced
	MessagesOut, BytesOut int64 // consumed

	Duplicates uint64 // batches that were stored before
	RolledBack uint64 // times that a partition went back to its durable point
	Corrupt    uint64 // reads that met damage
	Starved    uint64 // times that an answer waited for memory
	Internal   uint64 // answers INTERNAL: bugs

	// Of consumer groups.
	Groups, GroupMembers, GroupsMoving int
	GroupTopicsLeftOut                 int
	Members                            []GroupMembersSample // of some groups: those with series of their own are among them
	Lags                               []GroupLagSample     // likewise
	LagOthers                          GroupLagSample       // of the groups that are not in Lags
	Commits, CursorFrames, Rebalances  uint64
	RebalanceNanos                     int64 // how long they took together

	// Of queue groups.
	Queue                 QueueCountsSample  // of all together
	Queues                []GroupQueueSample // of those in Lags
	QueueOthers           GroupQueueSample   // of the others, together
	Buried, BurialsFailed uint64             // records stored in a dead-letter topic, and tries that failed

	// Stages in nanoseconds; nil when not measured.
	Ring, Write, Sync, Total *hdrhistogram.Histogram

	MemoryPendingBytes int64 // batches that wait for their acknowledgement
	MemoryParcelBytes  int64 // answers that have not left for their sockets
	MemoryLimitBytes   int64
	Waiters            int

	Storage    StorageSample
	Partitions []PartitionSample // in the order of their topic and number
}

// StorageSample is what a shard did with its disk.
type StorageSample struct {
	JournalBytes, JournalSyncs, JournalGroups, JournalRecycles, JournalCopiedBytes uint64
	SegmentBytes, SegmentSyncs                                                     uint64
	AppendBytes, DirectFrames, Busy, Failures                                      uint64
	ReadBytes, ReadsCached, ReadsDisk                                              uint64
	SegmentsRemoved, TailsCut, Damages, Quarantined, IndexesRebuilt                uint64

	// What was read again to find damage, and what it found.
	ScrubBytes, ScrubPasses                             uint64
	ScrubRecords, ScrubFiles, ScrubIndexes, ScrubStates uint64
	ScrubAgeNanos                                       int64 // since the last ended pass began; 0: none has ended
	ScrubLeftBytes                                      int64 // of the pass under way
	Compactions, CompactFailures, CompactRemoved        uint64
	CompactReadBytes, CompactWrittenBytes               uint64

	CacheBytes   int64
	OpenFiles    int
	JournalFree  int
	JournalLive  int
	RiskBytes    int64 // appended and not durable
	RiskNanos    int64 // age of the oldest of them
	Full         bool
	ClockJumped  bool
	DriverUring  bool // else worker threads and ordinary system calls
	DriverReason string
}

// PartitionSample is one partition of a shard.
type PartitionSample struct {
	Topic                                       string
	Number                                      core.PartitionNumber
	MessagesIn, BytesIn, MessagesOut, BytesOut  int64
	LogStartOffset, HighWatermark, LogEndOffset core.Offset
	SizeBytes, RiskBytes, RiskNanos             int64
	Producers, Damages                          int
	Unavailable                                 bool
}

// GroupLagSample is how far a group is behind in the partitions of a shard.
type GroupLagSample struct {
	Group          string
	Partitions     int
	Records, Nanos int64
}

// GroupMembersSample is how many members a group has that the shard coordinates.
type GroupMembersSample struct {
	Group   string
	Members int
}

// NodeSource tells about the process and its machine.
type NodeSource interface {
	NodeSample() NodeSample
}

// NodeSample is a picture of the process.
type NodeSample struct {
	MemoryLimitBytes   int64
	ArenaReservedBytes int64
	ArenaInUseBytes    int64
	ArenaTouchedBytes  int64
	DiskTotalBytes     int64
	DiskFreeBytes      int64
}
