package main

import (
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
}

// ShardSample is nil until the shard has left its first snapshot.
func (s shardSamples) ShardSample() *netio.ShardSample {
	snapshot := s.node.Snapshot(s.shard)
	if snapshot == nil {
		return nil
	}
	sample := &netio.ShardSample{
		Shard:      snapshot.Shard,
		MessagesIn: snapshot.MessagesIn, BytesIn: snapshot.BytesIn,
		MessagesOut: snapshot.MessagesOut, BytesOut: snapshot.BytesOut,
		Duplicates: snapshot.Duplicates, RolledBack: snapshot.RolledBack, Corrupt: snapshot.Corrupt,
		Starved: snapshot.Starved, Internal: snapshot.Internal,
		Ring: snapshot.Ring.Histogram, Write: snapshot.Write.Histogram, Sync: snapshot.Sync.Histogram, Total: snapshot.Total.Histogram,
		MemoryPendingBytes: snapshot.MemoryPending, MemoryParcelBytes: snapshot.MemoryParcels, MemoryLimitBytes: snapshot.MemoryLimit,
		Waiters: snapshot.Waiters,
		Storage: s.storage(snapshot),
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
		DriverUring: s.choice.Driver == core.DiskUring,
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
