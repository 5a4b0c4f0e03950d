package shard

import (
	"math"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/queue"
)

const (
	// queueGrantRecordsMax bounds the records of one delivery, queueGrantBytes what is read for
	// it unless the first batch is larger.
	queueGrantRecordsMax = 1024
	queueGrantBytes      = 256 << 10

	// queueShareMin is how many records a delivery takes at least while others wait too: shares
	// below that would send the same batch to many.
	queueShareMin = 16

	// grantsPerLeaserMax bounds the deliveries of one lease subscription on a shard that are
	// being read, wait for their frame or have not left for the socket.
	grantsPerLeaserMax = 16

	// settleRangesWaitMax bounds the outcomes of one partition that wait for the disk, in ranges.
	settleRangesWaitMax = 64 << 10

	// queueLookEvery is how often a window is looked through at most for leases and delays that
	// are over.
	queueLookEvery = 10 * time.Millisecond

	// leftSpare is how many shares that have ended are kept without a look at whether they still
	// have leases.
	leftSpare = 16

	// queuePause is how long a group waits when a read could not begin.
	queuePause = 20 * time.Millisecond
)

// queueGroup is a queue group in one partition: its window, and who leases from it.
//
// Invariants: ops, settles and grants are in no frame yet, and for the window as it is;
// shares are those that have not ended; takers holds each share whose waiting is set once;
// dirty while it is in cursors.queuesDirty, queued while in machine.leasable or .parched.
type queueGroup struct {
	partition *partition
	name      string
	window    *queue.Window // the table's; nil before it is begun, and when it is forgotten

	ops     []queue.Op
	settles []*settlement // to be answered when ops are durable
	grants  []*grant      // to be pushed then

	shares  []*leaseShare
	left    []*leaseShare          // that have ended, and may have leases out
	members map[string]*leaseShare // of both, the newest of each member
	takers  core.Queue[*leaseShare]
	holders uint32 // ids given out

	timer   timer
	due     int64 // of timer, when it is armed; monotonic
	paused  bool  // until timer
	dirty   bool
	queued  bool
	dropped bool
	trimmed core.Offset   // an op that settles what is below is under way
	spent   []queue.Range // used again
	burial  *burial       // nil while nothing was dying
	counts  QueueCounts
	place   int // in cursors.queueList

	leftLook int // as many of left make forgetLeft look at the window
}

// queueFor is a group's part of the partition; it is made when there is none.
func (p *partition) queueFor(group string) *queueGroup {
	cs := p.cursorsFor()
	if q := cs.queues[group]; q != nil {
		return q
	}
	if cs.queues == nil {
		cs.queues = make(map[string]*queueGroup)
	}
	q := &queueGroup{partition: p, name: group, members: make(map[string]*leaseShare), window: cs.table.Window(group), place: len(cs.queueList)}
	cs.queues[group] = q
	cs.queueList = append(cs.queueList, q)
	return q
}

// release forgets a group that is nothing any more.
func (q *queueGroup) release() {
	if q.dropped || q.window != nil || len(q.shares) > 0 || len(q.ops) > 0 || len(q.settles) > 0 || len(q.grants) > 0 {
		return
	}
	q.dropped = true
	m, cs := q.machine(), q.partition.cursors
	m.wheel.disarm(&q.timer)
	delete(cs.queues, q.name)
	cs.queues = core.ShrinkMap(cs.queues, &cs.queuesPeak)
	last := len(cs.queueList) - 1
	cs.queueList[q.place], cs.queueList[last].place = cs.queueList[last], q.place
	cs.queueList[last] = nil
	cs.queueList = core.ShrinkSlice(cs.queueList[:last])
}

func (q *queueGroup) machine() *Machine { return q.partition.machine }

func (q *queueGroup) config() *core.QueueConfig { return &q.partition.topic.Config.Queue }

// attemptsMax is how often a record is delivered; 0 without a limit.
func (q *queueGroup) attemptsMax() uint16 {
	if n := q.config().DeliveriesMax; n < queue.AttemptsMax {
		return uint16(n)
	}
	return 0
}

// beginQueues goes on with the windows that a start has found.
func (p *partition) beginQueues() {
	if p.cursors == nil {
		return
	}
	for _, group := range p.cursors.table.QueueNames() {
		q := p.queueFor(group)
		q.window.Started()
		q.trim()
		q.arm()
		q.bury()
	}
}

// wakeQueues goes on with groups for which there may be new records, or fewer old ones.
func (p *partition) wakeQueues() {
	if p.cursors == nil {
		return
	}
	for _, q := range p.cursors.queueList {
		q.trim()
		q.enqueue()
	}
}

// enqueue puts the group into the machine's round, when somebody waits for records.
func (q *queueGroup) enqueue() {
	if !q.queued && !q.paused && !q.dropped && q.window != nil && q.takers.Len() > 0 {
		q.queued = true
		q.machine().leasable.Push(q)
	}
}

// wish is what a delivery of so many records may take at most.
func (q *queueGroup) wish(records int64) queue.Wish {
	p := q.partition
	room := q.config().WindowMax
	if grow := p.cursors.table.QueueRoom(); grow < room-q.window.Records() {
		room = q.window.Records() + max(0, grow)
	}
	return queue.Wish{Records: int(min(records, queueGrantRecordsMax)), End: int64(p.highWatermark()), WindowMax: room, AttemptsMax: q.attemptsMax()}
}

// part is how many records the next delivery takes: what there is is shared among those who wait.
func (q *queueGroup) part(credit int64) int64 {
	there := int64(q.window.Ready()) + max(0, int64(q.partition.highWatermark())-q.window.High())
	even := (there + int64(q.takers.Len()) - 1) / int64(q.takers.Len())
	return min(credit, max(even, queueShareMin))
}

// claimable says whether there is something to lease.
func (q *queueGroup) claimable() bool {
	if q.window == nil || q.partition.gone {
		return false
	}
	wish := q.wish(1)
	return q.window.Claimable(&wish)
}

// run begins deliveries to those who wait, in turn. While it does, nothing puts the group into a queue.
func (q *queueGroup) run() {
	m := q.machine()
	to := q.deliver()
	if q.queued = to != nil; !q.queued {
		return
	}
	if to == &m.parched {
		m.stats.Starved++
	}
	to.Push(q)
}

// deliver returns where the group waits to go on; nil when there is nothing to do for it.
func (q *queueGroup) deliver() *core.Queue[*queueGroup] {
	p, m := q.partition, q.machine()
	if p.gone || m.stopping || q.paused || q.window == nil {
		return nil
	}
	q.trim()
	for q.takers.Len() > 0 && q.claimable() && !q.paused {
		s := *q.takers.Front()
		l := s.leaser
		switch {
		case s.ended:
			q.takers.Pop()
			continue
		case !l.able():
			q.takers.Pop()
			s.rest()
			l.tellMore()
			continue
		case p.exhausted():
			return &m.leasable
		case !m.readableFor(l.peer, queueGrantBytes):
			q.takers.Pop()
			s.rest()
			l.parch()
			continue
		case !m.readable(queueGrantBytes):
			return &m.parched
		}
		wish := q.wish(q.part(l.credit))
		span, spent := q.window.Claim(&wish, q.spent[:0])
		q.kill(spent, queue.Spent)
		q.spent = spent[:0]
		if span.Records == 0 {
			if len(spent) == 0 {
				return nil // what could be leased lies above the high watermark
			}
			continue
		}
		q.takers.Push(q.takers.Pop())
		s.begin(span)
		if m.leasable.Len() > 0 {
			return &m.leasable // what credit is left is for the partitions that wait, in turn
		}
	}
	return nil
}

// add puts an op into the turn's frame.
func (q *queueGroup) add(op queue.Op) {
	q.ops = queue.Add(q.ops, op)
	q.list()
}

// list has the partition write a frame in this turn.
func (q *queueGroup) list() {
	if !q.dirty {
		q.dirty = true
		cs := q.partition.cursors
		cs.queuesDirty = append(cs.queuesDirty, q)
	}
	q.partition.listDirty()
}

// kill ends records that nobody shall get any more; they are marked.
func (q *queueGroup) kill(spent []queue.Range, reason queue.Reason) {
	for _, r := range spent {
		for from := r.Base; from < r.Next; {
			end, attempts := q.window.Alike(from, r.Next)
			q.die(from, end, attempts, reason, "")
			from = end
		}
	}
}

// die ends records whose time has come: on the way to the dead-letter topic, or here. How often they were delivered goes
// along where it is not on disk yet.
func (q *queueGroup) die(base, next int64, attempts uint16, reason queue.Reason, text string) {
	if q.config().Attempts == core.QueueAttemptsRelaxed {
		q.add(queue.Op{Kind: queue.Lease, Base: base, Next: next, Attempts: attempts})
	}
	op := queue.Op{Kind: queue.Bury, Base: base, Next: next, Reason: reason, Text: text}
	if q.config().DeadLetterTopic != "" {
		op.Kind = queue.Die
	}
	q.add(op)
}

// trim settles what the log does not hold any more.
func (q *queueGroup) trim() {
	start := q.partition.log.StartOffset()
	if q.window == nil || q.machine().stopping || int64(start) <= q.window.Low() || start <= q.trimmed {
		return
	}
	q.count(QueueCounts{Trimmed: uint64(q.window.Unsettled(int64(start)))})
	q.trimmed = start
	q.add(queue.Op{Kind: queue.Settle, Base: q.window.Low(), Next: int64(start)})
}

// arm sets the timer to when a lease or a delay is over.
func (q *queueGroup) arm() {
	if q.window == nil || q.paused {
		return
	}
	m := q.machine()
	at, delay := q.window.Due()
	if delay != math.MaxInt64 {
		at = min(at, (delay-m.wallBase)*int64(time.Millisecond))
	}
	if at == math.MaxInt64 || q.timer.armed && q.due <= at {
		return
	}
	q.due = at
	m.wheel.arm(&q.timer, q, at)
}

// pause lets the group rest for a moment.
func (q *queueGroup) pause() {
	m := q.machine()
	q.paused = true
	q.due = m.now + int64(queuePause)
	m.wheel.arm(&q.timer, q, q.due)
}

// expire ends what is over.
func (q *queueGroup) expire() {
	q.paused = false
	m := q.machine()
	if q.window == nil || q.partition.gone || m.stopping {
		return
	}
	over, spent := q.window.Expire(m.now, m.steadyWall(), q.attemptsMax(), q.spent[:0])
	q.count(QueueCounts{TimedOut: uint64(over)})
	q.kill(spent, queue.TimedOut)
	q.spent = spent[:0]
	q.forgetLeft()
	q.trim()
	q.bury()
	q.enqueue()
	lease, delay := q.window.Due()
	if delay != math.MaxInt64 {
		lease = min(lease, (delay-m.wallBase)*int64(time.Millisecond))
	}
	if lease != math.MaxInt64 {
		q.due = max(lease, m.now+int64(queueLookEvery))
		m.wheel.arm(&q.timer, q, q.due)
	}
}

// steadyWall is the wall clock as it was at the start and has gone on since, milliseconds: setting the clock moves no
// delay.
func (m *Machine) steadyWall() int64 { return m.wallBase + m.now/int64(time.Millisecond) }
