package netio

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/VictoriaMetrics/metrics"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Metrics writes the metrics page from what its sources last left.
type Metrics struct {
	options   MetricsOptions
	latencies latencies
	// own are the metrics of the admin port itself.
	own     *metrics.Set
	scrapes *metrics.Counter
	seconds *metrics.FloatCounter
}

// MetricsOptions makes Metrics. Sources may be nil.
type MetricsOptions struct {
	Server *Server
	Shards []ShardSource
	Node   NodeSource
	// PerTopic adds series per topic and partition.
	PerTopic bool
}

// NewMetrics returns the page's writer.
func NewMetrics(o MetricsOptions) *Metrics {
	m := &Metrics{options: o, own: metrics.NewSet()}
	m.scrapes = m.own.NewCounter("pulsemq_admin_scrapes_total")
	m.seconds = m.own.NewFloatCounter("pulsemq_admin_scrape_seconds_total")
	return m
}

// Write writes the page in the Prometheus text format.
func (m *Metrics) Write(w io.Writer) error {
	start := time.Now()
	p := newPage()
	defer p.release()
	p.gauge("pulsemq_info", "The build that runs.", 1, label{"version", core.Version})
	p.counter("pulsemq_heap_objects_total", "Objects put on the Go heap by the whole process. Requests of producers and consumers put none there.", heapObjects())
	if m.options.Server != nil {
		m.server(p, start)
	}
	m.shards(p, start)
	if m.options.Node != nil {
		m.node(p)
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	if err := p.write(buffered); err != nil {
		return err
	}
	m.scrapes.Inc()
	m.seconds.Add(time.Since(start).Seconds())
	m.own.WritePrometheus(buffered)
	metrics.WriteProcessMetrics(buffered)
	return buffered.Flush()
}

// server writes what the reactors count.
func (m *Metrics) server(p *page, now time.Time) {
	var sum Stats
	var produce, fetch, other []*hdrhistogram.Histogram
	for i, s := range m.options.Server.Stats() {
		p.gauge("pulsemq_reactor_connections", "Client connections by reactor.", float64(s.Connections), label{"reactor", strconv.Itoa(i)})
		sum.add(s)
		produce, fetch, other = append(produce, s.Produce), append(fetch, s.Fetch), append(other, s.Other)
	}
	p.gauge("pulsemq_connections", "Client connections.", float64(sum.Connections))
	p.counter("pulsemq_connections_opened_total", "Client connections accepted.", float64(sum.ConnectionsOpened))
	p.counter("pulsemq_connections_refused_total", "Connections above a limit.", float64(m.options.Server.limits.Refused()))
	p.counter("pulsemq_accept_failures_total", "Times that taking a new connection failed, as without file descriptors.", float64(m.options.Server.acceptFailures.Load()))
	p.gauge("pulsemq_producers", "Connections that have produced.", float64(sum.Producers))
	p.gauge("pulsemq_consumers", "Connections that have fetched or subscribed.", float64(sum.Consumers))
	p.gauge("pulsemq_subscriptions", "Open subscriptions.", float64(sum.Subscriptions))
	p.counter("pulsemq_network_bytes_received_total", "Bytes received from clients.", float64(sum.BytesReceived))
	p.counter("pulsemq_network_bytes_sent_total", "Bytes sent to clients.", float64(sum.BytesSent))
	p.counter("pulsemq_frames_received_total", "Frames received from clients.", float64(sum.FramesReceived))
	p.counter("pulsemq_frames_sent_total", "Frames sent to clients.", float64(sum.FramesSent))
	p.counter("pulsemq_slabs_refused_total", "Batches refused because their arena was full.", float64(sum.SlabsRefused))
	p.counter("pulsemq_writes_failed_total", "Writes to clients that failed.", float64(sum.WritesFailed))
	p.gauge("pulsemq_window_bytes", "Windows granted to connections.", float64(sum.WindowBytesGranted))
	for code, n := range sum.Failures {
		// INTERNAL is always there: an alert on it must not miss its first occurrence.
		if n > 0 || proto.Code(code) == proto.CodeInternal {
			p.counter("pulsemq_request_failures_total", "Errors sent to clients by code.", float64(n), label{"code", proto.Code(code).String()})
		}
	}
	m.latencies.write(p, "produce", now, produce...)
	m.latencies.write(p, "fetch", now, fetch...)
	m.latencies.write(p, "other", now, other...)
}

// shards writes what the shards count.
func (m *Metrics) shards(p *page, now time.Time) {
	var ring, write, sync, total []*hdrhistogram.Histogram
	var partitions []PartitionSample
	var groups groupSums
	for _, source := range m.options.Shards {
		s := source.ShardSample()
		if s == nil {
			continue
		}
		m.shard(p, s)
		ring, write, sync, total = append(ring, s.Ring), append(write, s.Write), append(sync, s.Sync), append(total, s.Total)
		partitions = append(partitions, s.Partitions...)
		groups.add(s)
	}
	m.latencies.write(p, "ring", now, ring...)
	m.latencies.write(p, "write", now, write...)
	m.latencies.write(p, "sync", now, sync...)
	m.latencies.write(p, "shard", now, total...)
	p.gauge("pulsemq_partitions", "Partitions of this node.", float64(len(partitions)))
	if m.options.PerTopic {
		m.topics(p, partitions)
		groups.write(p)
	}
}

func (m *Metrics) shard(p *page, s *ShardSample) {
	at := label{"shard", strconv.Itoa(int(s.Shard))}
	count := func(name, help string, value float64) { p.counter(name, help, value, at) }
	level := func(name, help string, value float64) { p.gauge(name, help, value, at) }

	count("pulsemq_messages_produced_total", "Records stored.", float64(s.MessagesIn))
	count("pulsemq_bytes_produced_total", "Bytes of record batches stored.", float64(s.BytesIn))
	count("pulsemq_messages_consumed_total", "Records handed to consumers.", float64(s.MessagesOut))
	count("pulsemq_bytes_consumed_total", "Bytes of record batches handed to consumers.", float64(s.BytesOut))
	count("pulsemq_duplicates_total", "Retried batches that had been stored before.", float64(s.Duplicates))
	count("pulsemq_rollbacks_total", "Times that a partition went back to its durable point.", float64(s.RolledBack))
	count("pulsemq_corrupt_reads_total", "Reads that met damaged records.", float64(s.Corrupt))
	count("pulsemq_starved_answers_total", "Answers that waited for memory.", float64(s.Starved))
	level("pulsemq_groups", "Consumer groups that the shard coordinates.", float64(s.Groups))
	level("pulsemq_group_members", "Their members.", float64(s.GroupMembers))
	level("pulsemq_groups_moving", "Of them, those with partitions on their way from one member to another.", float64(s.GroupsMoving))
	level("pulsemq_group_topics_left_out", "Topics, or new partitions of topics, that groups want and have no room for.", float64(s.GroupTopicsLeftOut))
	count("pulsemq_group_rebalances_total", "Times that a group was shared out anew, until everything was where it was meant to be.", float64(s.Rebalances))
	count("pulsemq_group_rebalance_seconds_total", "How long they took together.", float64(s.RebalanceNanos)/1e9)
	count("pulsemq_offset_commits_total", "Offsets committed by groups.", float64(s.Commits))
	count("pulsemq_cursor_frames_total", "Frames that commits and take-overs were stored in.", float64(s.CursorFrames))
	m.queueShard(p, s, at)
	count("pulsemq_internal_errors_total", "Errors without a code: bugs.", float64(s.Internal))
	level("pulsemq_shard_pending_bytes", "Batches that wait for their acknowledgement.", float64(s.MemoryPendingBytes))
	level("pulsemq_shard_parcel_bytes", "Answers that have not left for their sockets.", float64(s.MemoryParcelBytes))
	level("pulsemq_shard_memory_limit_bytes", "What both may add up to.", float64(s.MemoryLimitBytes))
	level("pulsemq_waiters", "Requests that wait for data, durability or their time.", float64(s.Waiters))

	d := &s.Storage
	count("pulsemq_disk_written_bytes_total", "Bytes written to journal and segments, with padding.", float64(d.JournalBytes+d.SegmentBytes))
	count("pulsemq_disk_read_bytes_total", "Bytes read from segments.", float64(d.ReadBytes))
	count("pulsemq_journal_bytes_total", "Bytes written to the journal.", float64(d.JournalBytes))
	count("pulsemq_journal_groups_total", "Groups written to the journal.", float64(d.JournalGroups))
	count("pulsemq_journal_syncs_total", "Syncs of the journal.", float64(d.JournalSyncs))
	count("pulsemq_journal_recycles_total", "Journal files used again.", float64(d.JournalRecycles))
	count("pulsemq_journal_copied_bytes_total", "Bytes copied forward when a journal file was used again.", float64(d.JournalCopiedBytes))
	level("pulsemq_journal_files_free", "Journal files that hold nothing needed.", float64(d.JournalFree))
	level("pulsemq_journal_files_live", "Journal files that hold something needed.", float64(d.JournalLive))
	count("pulsemq_segment_bytes_total", "Bytes written to segments.", float64(d.SegmentBytes))
	count("pulsemq_segment_syncs_total", "Syncs of segments.", float64(d.SegmentSyncs))
	count("pulsemq_segments_removed_total", "Segments removed by retention, trim and deletion.", float64(d.SegmentsRemoved))
	count("pulsemq_appended_bytes_total", "Bytes of batches handed to the disk.", float64(d.AppendBytes))
	count("pulsemq_direct_frames_total", "Large batches written past the journal.", float64(d.DirectFrames))
	count("pulsemq_store_busy_total", "Batches refused because the disk's queues were full.", float64(d.Busy))
	count("pulsemq_storage_failures_total", "Writes and syncs that failed.", float64(d.Failures))
	amplification := 0.0
	if d.AppendBytes > 0 {
		amplification = float64(d.JournalBytes+d.SegmentBytes) / float64(d.AppendBytes)
	}
	level("pulsemq_write_amplification", "Bytes written to disk per byte of batch, since the start.", amplification)
	count("pulsemq_reads_cached_total", "Reads answered from memory.", float64(d.ReadsCached))
	count("pulsemq_reads_disk_total", "Reads that went to the disk.", float64(d.ReadsDisk))
	count("pulsemq_tails_cut_total", "Torn tails cut at the start.", float64(d.TailsCut))
	count("pulsemq_damages_total", "Damaged ranges found.", float64(d.Damages))
	count("pulsemq_quarantined_total", "Partitions and files kept aside because nothing is known of them.", float64(d.Quarantined))
	count("pulsemq_indexes_rebuilt_total", "Indexes made again from their segments.", float64(d.IndexesRebuilt))
	count("pulsemq_scrub_bytes_total", "Bytes of stored records read again to find damage.", float64(d.ScrubBytes))
	count("pulsemq_scrub_passes_total", "Times that all stored records have been read again.", float64(d.ScrubPasses))
	damages := func(kind string, n uint64) {
		p.counter("pulsemq_scrub_damages_total", "Damages found by reading again, by what is hurt: records, a file but none of its records, an index, a state.",
			float64(n), at, label{"kind", kind})
	}
	damages("records", d.ScrubRecords)
	damages("file", d.ScrubFiles)
	damages("index", d.ScrubIndexes)
	damages("state", d.ScrubStates)
	level("pulsemq_scrub_age_seconds", "All that was stored so long ago has been read again since; 0 before the first pass has ended.", float64(d.ScrubAgeNanos)/1e9)
	level("pulsemq_scrub_left_bytes", "What the pass under way has still to read.", float64(d.ScrubLeftBytes))
	count("pulsemq_compactions_total", "Compaction passes ended.", float64(d.Compactions))
	count("pulsemq_compaction_failures_total", "Compaction passes that failed and changed nothing.", float64(d.CompactFailures))
	count("pulsemq_compaction_read_bytes_total", "Bytes read by compaction.", float64(d.CompactReadBytes))
	count("pulsemq_compaction_written_bytes_total", "Bytes written by compaction.", float64(d.CompactWrittenBytes))
	count("pulsemq_compaction_removed_total", "Records that compaction left out.", float64(d.CompactRemoved))
	level("pulsemq_cache_bytes", "Tail cache.", float64(d.CacheBytes))
	level("pulsemq_open_files", "Open segment and index files.", float64(d.OpenFiles))
	level("pulsemq_at_risk_bytes", "Bytes accepted that a power cut now would lose.", float64(d.RiskBytes))
	level("pulsemq_at_risk_seconds", "Age of the oldest of them.", float64(d.RiskNanos)/1e9)
	level("pulsemq_storage_full", "1 while the disk has too little space to produce.", number(d.Full))
	level("pulsemq_clock_jumped", "1 while the clock is not trusted for retention by age.", number(d.ClockJumped))
	level("pulsemq_disk_io_uring", "1 with io_uring, 0 with worker threads and ordinary system calls.", number(d.DriverUring))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *Metrics) node(p *page) {
	n := m.options.Node.NodeSample()
	p.gauge("pulsemq_memory_limit_bytes", "Memory that the broker may use (memory.limit).", float64(n.MemoryLimitBytes))
	p.gauge("pulsemq_arena_reserved_bytes", "Budget of the arenas for payload.", float64(n.ArenaReservedBytes))
	p.gauge("pulsemq_arena_in_use_bytes", "Payload memory that is in use.", float64(n.ArenaInUseBytes))
	p.gauge("pulsemq_arena_touched_bytes", "Payload memory that may be resident.", float64(n.ArenaTouchedBytes))
	p.gauge("pulsemq_disk_total_bytes", "Size of the data folder's file system.", float64(n.DiskTotalBytes))
	p.gauge("pulsemq_disk_free_bytes", "What is free of it.", float64(n.DiskFreeBytes))
}
