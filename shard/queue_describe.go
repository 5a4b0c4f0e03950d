package shard

import (
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// queueBlockersMax is how many of the oldest records that are not settled DESCRIBE_QUEUE tells.
const queueBlockersMax = 10

// describeQueue answers how a group stands in one partition.
func (m *Machine) describeQueue(r *mail.Request) {
	q, err := m.queueOf(r, r.Body.(string))
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	body := q.describe()
	m.answer = mail.Answer{Kind: mail.AnswerQueue, Conn: r.Conn, ID: r.ID, Partition: r.Partition, LeaderEpoch: -1, Offset: -1, Timestamp: -1, Received: r.Received, Body: &body}
	m.send(r.Reactor)
}

// describeQueues answers the same for all partitions of this shard that the group has begun in.
func (m *Machine) describeQueues(r *mail.Request) {
	if m.stopping {
		m.refuseRequest(r, errShuttingDown)
		return
	}
	group := r.Body.(string)
	var found []proto.QueuePartition
	for _, p := range m.cursorPartitions {
		if q := p.cursors.queues[group]; q != nil && q.window != nil && !p.gone {
			found = append(found, q.describe())
		}
	}
	slices.SortFunc(found, func(a, b proto.QueuePartition) int {
		if c := slices.Compare(a.TopicID[:], b.TopicID[:]); c != 0 {
			return c
		}
		return int(int64(a.Partition) - int64(b.Partition))
	})
	m.answer = mail.Answer{Kind: mail.AnswerQueues, Conn: r.Conn, ID: r.ID, LeaderEpoch: -1, Offset: -1, Timestamp: -1, Received: r.Received, Body: found}
	m.send(r.Reactor)
}

func (q *queueGroup) describe() proto.QueuePartition {
	p, w := q.partition, q.window
	end := int64(p.highWatermark())
	wish := q.wish(1)
	fresh := max(0, min(end-w.High(), int64(wish.WindowMax-w.Records())))
	d := proto.QueuePartition{
		TopicID: p.topic.ID, Partition: uint32(p.number), LowOffset: w.Low(), HighOffset: w.High(), HighWatermark: end,
		Available: uint64(int64(w.Ready()) + fresh), Leased: uint64(w.Leased()), Delayed: uint64(w.Delayed()), Dying: uint64(w.Dying()), Dead: uint64(w.Dead()),
		WindowRecords: uint64(w.Records()), WindowRecordsMax: uint64(wish.WindowMax),
	}
	for from := w.Low(); len(d.Blockers) < queueBlockersMax; {
		look, ok := w.Blocker(from)
		if !ok {
			break
		}
		d.Blockers = append(d.Blockers, q.blocker(&look))
		from = look.Offset + 1
	}
	return d
}

func (q *queueGroup) blocker(look *queue.Look) proto.QueueBlocker {
	m := q.machine()
	b := proto.QueueBlocker{Offset: look.Offset, Attempt: uint32(look.Attempts), UntilMs: -1, Reason: look.Text}
	if b.Reason == "" {
		b.Reason = look.Reason.String()
	}
	switch look.State {
	case queue.Dying:
		b.State = proto.QueueRecordStateDying
	case queue.Dead:
		b.State = proto.QueueRecordStateDead
	case queue.Delayed:
		b.State, b.UntilMs = proto.QueueRecordStateDelayed, m.wall/int64(time.Millisecond)+look.Delay-m.steadyWall()
	default:
		b.State = proto.QueueRecordStateAvailable
	}
	if look.Leased {
		b.State, b.UntilMs, b.MemberID = proto.QueueRecordStateLeased, (m.wall+look.Lease-m.now)/int64(time.Millisecond), q.holderOf(look.Holder)
	}
	return b
}

// holderOf is the member that a holder's id is of.
func (q *queueGroup) holderOf(holder uint32) string {
	for _, list := range [][]*leaseShare{q.shares, q.left} {
		for _, s := range list {
			if s.holder == holder {
				return s.member
			}
		}
	}
	return ""
}
