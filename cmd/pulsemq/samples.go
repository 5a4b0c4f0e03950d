package main

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/netio"
	"github.com/pulsemq/pulsemq/segment/disk"
	"github.com/pulsemq/pulsemq/shard"
	"github.com/pulsemq/pulsemq/shard/reactor"
)

// shardSamples turns a shard's snapshots into what the metrics page shows. The
// page and the shard know nothing of each other.
type shardSamples struct {
	node   *reactor.Node
	shard  int
	choice disk.Choice
	clock  core.Clock
}

const (
	// sampleFresh is the age up to which a snapshot is shown as it is; a shard
	// makes no more than one in that time.
	sampleFresh = time.Second

	// sampleWait is how long a page waits for a newer one. A shard leaves it at the
	// end of its turn, so it takes this long only when the shard hangs, and then the
	// old one is shown.
	sampleWait = 50 * time.Millisecond
	samplePoll = time.Millisecond
)

// newest asks the shard for a snapshot and waits a moment for it: else each page
// would show what was true when the page before it was read.
func (s shardSamples) newest() *shard.Snapshot {
	old := s.node.Snapshot(s.shard)
	if old != nil && s.clock.Monotonic()-old.Taken < int64(sampleFresh) {
		return old
	}
	for began := time.Now(); time.Since(began) < sampleWait; {
		time.Sleep(samplePoll)
		if newer := s.node.Snapshot(s.shard); newer != old {
			return newer
		}
	}
	return old
}

// ShardSample is nil while the shard has left no snapshot.
func (s shardSamples) ShardSample() *netio.ShardSample {
	snapshot := s.newest()
	if snapshot == nil {
		return nil
	}
	sample := &netio.ShardSample{
		Shard:      snapshot.Shard,
		MessagesIn: snapshot.MessagesIn, BytesIn: snapshot.BytesIn,
		MessagesOut: snapshot.MessagesOut, BytesOut: snapshot.BytesOut,
		Groups: snapshot.Groups, GroupMembers: snapshot.GroupMembers, GroupsMoving: snapshot.GroupsMoving, GroupTopicsLeftOut: snapshot.GroupTopicsLeftOut,
		LagOthers: netio.GroupLagSample(snapshot.LagOthers),
		Queue:     netio.QueueCountsSample(snapshot.Queue), QueueOthers: queueSample(&snapshot.QueueOthers),
		Buried: snapshot.Buried, BurialsFailed: snapshot.BurialsFailed,
		Commits: snapshot.Commits, CursorFrames: snapshot.CursorFrames, Rebalances: snapshot.Rebalances, RebalanceNanos: snapshot.RebalanceNanos,
		Duplicates: snapshot.Duplicates, RolledBack: snapshot.RolledBack, Corrupt: snapshot.Corrupt,
		Starved: snapshot.Starved, Internal: snapshot.Internal,
		Ring: snapshot.Ring.Histogram, Write: snapshot.Write.Histogram, Sync: snapshot.Sync.Histogram, Total: snapshot.Total.Histogram,
		MemoryPendingBytes: snapshot.MemoryPending, MemoryParcelBytes: snapshot.MemoryParcels, MemoryLimitBytes: snapshot.MemoryLimit,
		Waiters: snapshot.Waiters,
		Storage: s.storage(snapshot),
	}
	for _, g := range snapshot.Members {
		sample.Members = append(sample.Members, netio.GroupMembersSample(g))
	}
	for _, g := range snapshot.Lags {
		sample.Lags = append(sample.Lags, netio.GroupLagSample(g))
	}
	for i := range snapshot.Queues {
		sample.Queues = append(sample.Queues, queueSample(&snapshot.Queues[i]))
	}
	for i := range snapshot.Partitions {
		p := &snapshot.Partitions[i]
		sample.Partitions = append(sample.Partitions, netio.PartitionSample{
			Topic: p.Topic, Number: p.Number,
			MessagesIn: p.MessagesIn, BytesIn: p.BytesIn, MessagesOut: p.MessagesOut, BytesOut: p.BytesOut,
			LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, LogEndOffset: p.LogEndOffset,
			SizeBytes: p.SizeBytes, RiskBytes: p.RiskBytes, RiskNanos: p.RiskNanos,
			Producers: p.Producers, Damages: p.Damages, Unavailable: p.Unavailable,
		})
	}
	return sample
}

func queueSample(g *shard.GroupQueue) netio.GroupQueueSample {
	return netio.GroupQueueSample{
		Group: g.Group, QueueCountsSample: netio.QueueCountsSample(g.QueueCounts), Windows: g.Windows, WindowsFull: g.WindowsFull,
		Records: g.Records, Leased: g.Leased, Delayed: g.Delayed, DyingNow: g.DyingNow, DeadNow: g.DeadNow,
	}
}

func (s shardSamples) storage(snapshot *shard.Snapshot) netio.StorageSample {
	st := &snapshot.Store
	sample := netio.StorageSample{
		JournalBytes: st.JournalBytes, JournalSyncs: st.JournalSyncs, JournalGroups: st.JournalGroups,
		JournalRecycles: st.JournalRecycles, JournalCopiedBytes: st.JournalCopied,
		SegmentBytes: st.SegmentBytes, SegmentSyncs: st.SegmentSyncs,
		AppendBytes: st.AppendBytes, DirectFrames: st.DirectFrames, Busy: st.Busy, Failures: st.Failures,
		ReadBytes: st.ReadBytes, ReadsCached: st.ReadsCached, ReadsDisk: st.ReadsDisk,
		SegmentsRemoved: st.Retained, TailsCut: st.TailsCut, Damages: st.Damages + st.JournalDamages, Quarantined: st.Quarantined,
		CacheBytes: st.CacheBytes, OpenFiles: st.OpenFiles, JournalFree: st.JournalFree, JournalLive: st.JournalLive,
		RiskBytes: st.RiskBytes, Full: st.Full, ClockJumped: st.ClockJumped,
		DriverUring:    s.choice.Driver == core.DiskUring,
		IndexesRebuilt: st.IndexesRebuilt,
		ScrubBytes:     st.ScrubBytes, ScrubPasses: st.ScrubPasses, ScrubLeftBytes: st.ScrubLeft,
		ScrubRecords: st.ScrubRecords, ScrubFiles: st.ScrubFiles, ScrubIndexes: st.ScrubIndexes, ScrubStates: st.ScrubStates,
		Compactions: st.Compactions, CompactFailures: st.CompactFailures, CompactRemoved: st.CompactRemoved,
		CompactReadBytes: st.CompactRead, CompactWrittenBytes: st.CompactWritten,
	}
	if st.ScrubBegan != 0 {
		sample.ScrubAgeNanos = max(s.clock.Now()-st.ScrubBegan, 0)
	}
	if st.RiskSince != 0 {
		sample.RiskNanos = snapshot.Taken - st.RiskSince
	}
	if s.choice.Refused != nil {
		sample.DriverReason = s.choice.Refused.Error()
	}
	return sample
}

// nodeSamples tells about the process.
type nodeSamples struct {
	config *core.Config
	node   *reactor.Node
	files  core.FS
}

// NodeSample asks the file system, which may take a while on a stalled disk; the
// shards do not wait for it.
func (s nodeSamples) NodeSample() netio.NodeSample {
	gauges := s.node.Memory()
	sample := netio.NodeSample{
		MemoryLimitBytes:   int64(s.config.Memory.Limit),
		ArenaReservedBytes: gauges.ReservedBytes, ArenaInUseBytes: gauges.InUseBytes, ArenaTouchedBytes: gauges.TouchedBytes,
	}
	if total, free, err := s.files.Space(); err == nil {
		sample.DiskTotalBytes, sample.DiskFreeBytes = total, free
	}
	return sample
}
