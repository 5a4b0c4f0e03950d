package netio

// QueueCountsSample is what queue groups have been given, and what became of it.
type QueueCountsSample struct {
	Delivered   uint64 // records, each time that one is leased
	Redelivered uint64 // of them, those that were not a record's first
	Acked       uint64
	Nacked      uint64 // and to be delivered again
	TimedOut    uint64 // leases that were over before their outcome
	Dying       uint64 // records that went on their way to a dead-letter topic
	Dead        uint64 // records that stayed, dead
	Trimmed     uint64 // records that were gone from the log before they were settled
}

// GroupQueueSample is how a queue group stands in the partitions of a shard.
type GroupQueueSample struct {
	Group string
	QueueCountsSample
	Windows, WindowsFull                        int
	Records, Leased, Delayed, DyingNow, DeadNow int64
}

// queueShard writes what a shard counts of all its queue groups.
func (m *Metrics) queueShard(p *page, s *ShardSample, at label) {
	count := func(name, help string, value uint64) { p.counter(name, help, float64(value), at) }
	q := &s.Queue
	count("pulsemq_queue_delivered_total", "Records leased to members of queue groups, each time.", q.Delivered)
	count("pulsemq_queue_redelivered_total", "Of them, those that had been delivered before.", q.Redelivered)
	count("pulsemq_queue_acked_total", "Records that members have acknowledged.", q.Acked)
	count("pulsemq_queue_nacked_total", "Records that members gave back to be delivered again.", q.Nacked)
	count("pulsemq_queue_timed_out_total", "Leases that were over before their outcome.", q.TimedOut)
	count("pulsemq_queue_dying_total", "Records that queue groups gave up, and that went on their way to a dead-letter topic.", q.Dying)
	count("pulsemq_queue_dead_total", "Records that queue groups gave up in topics without a dead-letter topic.", q.Dead)
	count("pulsemq_queue_trimmed_total", "Records that retention, trim or deletion took from the log before they were settled.", q.Trimmed)
	count("pulsemq_dead_letters_total", "Records stored in a dead-letter topic.", s.Buried)
	count("pulsemq_dead_letter_failures_total", "Tries to store some that failed, and are made again.", s.BurialsFailed)
}

// queueSum adds up over shards what is known of a queue group.
type queueSum struct {
	GroupQueueSample
	any bool // it is a queue group, or some are among the others
}

func (q *queueSum) add(o *GroupQueueSample) {
	q.any = q.any || o.Windows > 0
	q.Delivered += o.Delivered
	q.Redelivered += o.Redelivered
	q.Acked += o.Acked
	q.Windows += o.Windows
	q.WindowsFull += o.WindowsFull
	q.Records += o.Records
	q.Leased += o.Leased
	q.Delayed += o.Delayed
	q.DyingNow += o.DyingNow
	q.DeadNow += o.DeadNow
}

func (q *queueSum) write(p *page, at label) {
	if !q.any {
		return
	}
	p.counter("pulsemq_group_queue_delivered_total", "Records leased to members of a queue group, each time, since the start or since it began.", float64(q.Delivered), at)
	p.counter("pulsemq_group_queue_redelivered_total", "Of them, those that had been delivered before.", float64(q.Redelivered), at)
	p.counter("pulsemq_group_queue_acked_total", "Records that members of a queue group have acknowledged.", float64(q.Acked), at)
	p.gauge("pulsemq_group_queue_window_records", "Records between the oldest that a queue group has not settled and the newest that it has leased, summed over partitions.", float64(q.Records), at)
	p.gauge("pulsemq_group_queue_windows_full", "Partitions in which a queue group is given nothing new until the oldest is settled.", float64(q.WindowsFull), at)
	p.gauge("pulsemq_group_queue_leased_records", "Records that members have and have not settled.", float64(q.Leased), at)
	p.gauge("pulsemq_group_queue_delayed_records", "Records that wait for the delay after a failed delivery.", float64(q.Delayed), at)
	p.gauge("pulsemq_group_queue_dying_records", "Records on their way to the dead-letter topic.", float64(q.DyingNow), at)
	p.gauge("pulsemq_group_queue_dead_records", "Records that the group has given up and that are in no dead-letter topic.", float64(q.DeadNow), at)
}
