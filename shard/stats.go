package shard

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment"
)

// Stats are a shard's counters since its start. They belong to its thread; the
// loop publishes copies (Snapshot) for the metrics page.
type Stats struct {
	Requests, Produces, Fetches uint64

	MessagesIn, BytesIn   int64
	MessagesOut, BytesOut int64

	Duplicates uint64 // batches that were stored before
	RolledBack uint64 // times that a partition returned to its durable point
	Corrupt    uint64 // reads that met damage
	Starved    uint64 // times that an answer waited for memory
	Internal   uint64 // answers INTERNAL: bugs

	Buried        uint64 // records that queue groups gave up, stored in a dead-letter topic
	BurialsFailed uint64 // tries to store some that failed, and are made again

	Commits      uint64 // of offsets, that took effect or were repetitions
	CursorFrames uint64 // that they took

	Queue QueueCounts // of all queue groups

	Rebalances     uint64 // of groups, that ended
	RebalanceNanos int64  // how long they took together

	// Failed counts answers by error code.
	Failed map[proto.Code]uint64

	Ring  Histogram // from the reactor to the shard
	Write Histogram // of a batch: until written, in topics of durability batch and none
	Sync  Histogram // of a batch: until durable, in sync topics
	Total Histogram // of a produce: from the reactor until its answer leaves the shard
}

// Histogram is an HdrHistogram of nanoseconds, up to a minute with two digits.
type Histogram struct{ *hdrhistogram.Histogram }

const (
	histogramMin    = 1_000
	histogramMax    = 60_000_000_000
	histogramDigits = 2
)

func newHistogram() Histogram {
	return Histogram{hdrhistogram.New(histogramMin, histogramMax, histogramDigits)}
}

// record counts one value; what lies outside is counted at the end it lies beyond.
func (h Histogram) record(nanos int64) {
	_ = h.RecordValue(min(max(nanos, histogramMin), histogramMax))
}

func (h Histogram) copied() Histogram {
	c := newHistogram()
	c.Merge(h.Histogram)
	return c
}

func (s *Stats) init() {
	s.Failed = make(map[proto.Code]uint64)
	s.Ring, s.Write, s.Sync, s.Total = newHistogram(), newHistogram(), newHistogram(), newHistogram()
}

// stage is the histogram of a durability.
func (s *Stats) stage(level core.Durability) Histogram {
	if level == core.DurabilitySync {
		return s.Sync
	}
	return s.Write
}

func (s *Stats) failed(err *proto.Error) {
	s.Failed[err.Code]++
	if err.Code == proto.CodeInternal {
		s.Internal++
	}
}

// PartitionStats are a partition's counters since the start.
type PartitionStats struct {
	MessagesIn, BytesIn   int64
	MessagesOut, BytesOut int64
}

// PartitionSnapshot is one partition at a moment.
type PartitionSnapshot struct {
	PartitionStats
	Topic          string
	Number         core.PartitionNumber
	LogStartOffset core.Offset
	HighWatermark  core.Offset
	LogEndOffset   core.Offset
	SizeBytes      int64
	RiskBytes      int64 // acked or not, not durable
	RiskNanos      int64 // since when
	Producers      int
	Damages        int
	Unavailable    bool
}

// Snapshot is a picture of a shard for other threads. It is never changed.
type Snapshot struct {
	Stats
	Shard      core.ShardID
	Taken      int64 // monotonic clock at that moment
	Store      segment.Stats
	Partitions []PartitionSnapshot // in the order of ids

	Groups, GroupMembers, GroupsMoving int            // that this shard coordinates
	GroupTopicsLeftOut                 int            // of them together
	Members                            []GroupMembers // of the first GroupsShownMax by name
	Lags                               []GroupLag     // of the first GroupsShownMax by name that have committed here
	LagOthers                          GroupLag       // of those behind them, together
	Queues                             []GroupQueue   // the queue groups among those in Lags
	QueueOthers                        GroupQueue     // and those among the others, together

	MemoryPending, MemoryParcels, MemoryLimit int64
	Connections                               int // with something waiting here
	Waiters                                   int
}

// Snapshot copies the counters. It allocates: the loop calls it when somebody
// asked for it, at most once a second.
func (m *Machine) Snapshot() *Snapshot {
	s := &Snapshot{
		Stats: m.stats, Shard: m.options.Shard, Taken: m.now, Store: m.store.Stats(),
		MemoryPending: m.memory.pending, MemoryParcels: m.memory.parcels, MemoryLimit: m.options.MemoryBytes,
		Connections: len(m.peers), Waiters: m.wheel.armed,
	}
	s.Failed = make(map[proto.Code]uint64, len(m.stats.Failed))
	for code, n := range m.stats.Failed {
		s.Failed[code] = n
	}
	s.Ring, s.Write, s.Sync, s.Total = s.Ring.copied(), s.Write.copied(), s.Sync.copied(), s.Total.copied()
	s.Partitions = make([]PartitionSnapshot, 0, len(m.partitions))
	var coordinators []*coordinator
	for _, p := range m.partitionsSorted() {
		s.Partitions = append(s.Partitions, p.snapshot(m.now))
		if p.patience.timer.armed {
			s.Waiters += p.acks.count - 1 // all acks of a partition have one timer
		}
		if c := p.coordinator; c != nil {
			coordinators = append(coordinators, c)
			s.Groups += len(c.byName)
			s.GroupMembers += c.tally.members
			s.GroupsMoving += c.tally.moving
			s.GroupTopicsLeftOut += c.tally.leftOut
		}
	}
	s.Members = groupMembers(coordinators)
	s.Lags, s.LagOthers = m.lags()
	s.Queues, s.QueueOthers = m.lag.doneQueues, m.lag.doneQueueOthers
	return s
}

func (p *partition) snapshot(now int64) PartitionSnapshot {
	s := PartitionSnapshot{PartitionStats: p.stats, Topic: p.topic.Name, Number: p.number, Producers: len(p.producers.byID)}
	if p.log == nil {
		s.Unavailable = true
		return s
	}
	s.LogStartOffset, s.HighWatermark, s.LogEndOffset = p.log.StartOffset(), p.highWatermark(), p.log.EndOffset()
	s.SizeBytes, s.RiskBytes, s.Damages = p.log.SizeBytes(), p.log.RiskBytes(), len(p.log.Damaged())
	if since := p.log.RiskSince(); since != 0 {
		s.RiskNanos = now - since
	}
	return s
}
