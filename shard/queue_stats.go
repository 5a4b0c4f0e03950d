package shard

// QueueCounts are what queue groups have been given, and what became of it, since the start.
type QueueCounts struct {
	Delivered   uint64 // records, each time that one is leased
	Redelivered uint64 // of them, those that were not a record's first
	Acked       uint64
	Nacked      uint64 // and to be delivered again
	TimedOut    uint64 // leases that were over before their outcome
	Dying       uint64 // records that went on their way to a dead-letter topic
	Dead        uint64 // records that stayed, dead
	Trimmed     uint64 // records that were gone from the log before they were settled
}

func (c *QueueCounts) add(o *QueueCounts) {
	c.Delivered += o.Delivered
	c.Redelivered += o.Redelivered
	c.Acked += o.Acked
	c.Nacked += o.Nacked
	c.TimedOut += o.TimedOut
	c.Dying += o.Dying
	c.Dead += o.Dead
	c.Trimmed += o.Trimmed
}

// GroupQueue is how a queue group stands in the partitions of a shard.
type GroupQueue struct {
	Group string
	QueueCounts
	Windows     int   // partitions that it has begun in
	WindowsFull int   // of them, those where nothing new is leased until something is settled
	Records     int64 // in all windows together, also settled ones
	Leased      int64 // of them; the next ones too
	Delayed     int64
	DyingNow    int64
	DeadNow     int64
}

func (g *GroupQueue) add(o *GroupQueue) {
	g.QueueCounts.add(&o.QueueCounts)
	g.Windows += o.Windows
	g.WindowsFull += o.WindowsFull
	g.Records += o.Records
	g.Leased += o.Leased
	g.Delayed += o.Delayed
	g.DyingNow += o.DyingNow
	g.DeadNow += o.DeadNow
}

// count takes down what has happened.
func (q *queueGroup) count(c QueueCounts) {
	q.counts.add(&c)
	q.machine().stats.Queue.add(&c)
}

// stands is how the group stands in the partition.
func (q *queueGroup) stands() GroupQueue {
	w := q.window
	g := GroupQueue{QueueCounts: q.counts, Windows: 1, Records: int64(w.Records()), Leased: int64(w.Leased()), Delayed: int64(w.Delayed()),
		DyingNow: int64(w.Dying()), DeadNow: int64(w.Dead())}
	if w.Ready() == 0 && w.Records() >= q.config().WindowMax && int64(q.partition.highWatermark()) > w.High() {
		g.WindowsFull = 1
	}
	return g
}

// queueSums are the queue groups among those whose lag a pass adds up; those that it shows, by their sum.
type queueSums struct {
	bySum  map[*GroupLag]*GroupQueue
	others GroupQueue
}

// add takes down a group of a partition.
func (l *lagPass) addQueue(p *partition, group string) {
	q := p.cursors.queues[group]
	if q == nil || q.window == nil {
		return
	}
	to, stands := &l.queues.others, q.stands()
	if sum := l.sum(group); sum != &l.others {
		if to = l.queues.bySum[sum]; to == nil {
			if l.queues.bySum == nil {
				l.queues.bySum = make(map[*GroupLag]*GroupQueue)
			}
			to = &GroupQueue{Group: group}
			l.queues.bySum[sum] = to
		}
	}
	to.add(&stands)
}

// pushOut adds a group that is not shown any more to the others.
func (s *queueSums) pushOut(sum *GroupLag) {
	if g := s.bySum[sum]; g != nil {
		s.others.add(g)
		delete(s.bySum, sum)
	}
}

// shown are the groups, in the order of their sums.
func (s *queueSums) shown(sums []*GroupLag) (list []GroupQueue) {
	for _, sum := range sums {
		if g := s.bySum[sum]; g != nil {
			list = append(list, *g)
		}
	}
	return list
}
