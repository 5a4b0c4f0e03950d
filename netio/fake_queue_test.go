package netio

import (
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// fakeLeasing is a leasing as a fake shard has it: each of its partitions leases every record once, in order.
type fakeLeasing struct {
	reactor  uint8
	conn     mail.ConnRef
	id       uint64
	credit   uint32
	recalled bool
	told     bool // More has been said, and no credit has come since
	parts    []core.PartitionID
}

func (f *fakeShard) leasing(reactor uint8, q *mail.Request) *fakeLeasing {
	for _, l := range f.leasings {
		if l.reactor == reactor && l.conn == q.Conn && l.id == q.ID {
			return l
		}
	}
	return nil
}

// serveQueue serves requests of queue groups.
func (f *fakeShard) serveQueue(reactor uint8, q *mail.Request, a mail.Answer) {
	l := f.leasing(reactor, q)
	switch q.Kind {
	case mail.RequestLease:
		body := q.Body.(*mail.Lease)
		a.Kind = mail.AnswerLease
		if body.Start < 0 && !f.begun[q.Partition] {
			a.Err = proto.CodeOffsetOutOfRange.Errorf("the group has not begun")
			break
		}
		f.begun[q.Partition] = true
		if l == nil {
			l = &fakeLeasing{reactor: reactor, conn: q.Conn, id: q.ID}
			f.leasings = append(f.leasings, l)
		}
		l.parts = append(l.parts, q.Partition)
	case mail.RequestUnlease:
		if l == nil {
			return
		}
		if q.Partition == 0 {
			f.leasings = slices.DeleteFunc(f.leasings, func(other *fakeLeasing) bool { return other == l })
		}
		l.parts = slices.DeleteFunc(l.parts, func(id core.PartitionID) bool { return id == q.Partition })
		return
	case mail.RequestLeaseCredit:
		if l != nil {
			l.credit += q.Records
			l.told = false
		}
		return
	case mail.RequestLeaseRecall:
		if l != nil {
			l.recalled = true
			return
		}
		a.Kind, a.Recalled = mail.AnswerLeaseCredit, true
	case mail.RequestSettle:
		a.Kind, a.Body = mail.AnswerSettle, &proto.SettleResponse{Ranges: make([]proto.SettledResult, len(q.Body.(*mail.Settle).Ranges))}
	case mail.RequestQueue:
		a.Kind, a.Body = mail.AnswerQueue, &proto.QueuePartition{TopicID: topicA, Partition: uint32(q.Partition - 16), HighWatermark: int64(f.log(q.Partition).next)}
	case mail.RequestQueues:
		var list []proto.QueuePartition
		for id := range f.begun {
			list = append(list, proto.QueuePartition{TopicID: topicA, Partition: uint32(id - 16), HighWatermark: int64(f.log(id).next)})
		}
		a.Kind, a.Body = mail.AnswerQueues, list
	}
	f.answer(reactor, a)
}

// pushLeased leases batch by batch, of each leasing's partitions in turn.
func (f *fakeShard) pushLeased() {
	for _, l := range f.leasings {
		for _, id := range l.parts {
			log := f.log(id)
			for l.credit > 0 && f.next[id] < log.next {
				list := log.from(f.next[id], 1)
				batch := proto.Batch(list[0])
				next := min(core.Offset(batch.NextOffset()), f.next[id]+core.Offset(l.credit))
				n := uint32(next - f.next[id])
				l.credit -= n
				f.answer(l.reactor, mail.Answer{
					Kind: mail.AnswerLeased, Conn: l.conn, ID: l.id, Partition: id, LeaderEpoch: 7, Parcel: f.parcel(list),
					Body: &mail.Leased{Topic: topicA, Number: core.PartitionNumber(id - 16), Records: n, TimeoutMillis: 30_000,
						Ranges: []proto.LeasedRange{{BaseOffset: int64(f.next[id]), NextOffset: int64(next), Attempt: 1}}},
				})
				f.next[id] = next
			}
			if l.credit == 0 && !l.told && f.next[id] < log.next {
				l.told = true
				f.answer(l.reactor, mail.Answer{Kind: mail.AnswerLeaseCredit, Conn: l.conn, ID: l.id, More: true})
			}
		}
		if l.recalled {
			f.answer(l.reactor, mail.Answer{Kind: mail.AnswerLeaseCredit, Conn: l.conn, ID: l.id, Records: l.credit, Recalled: true})
			l.recalled, l.credit = false, 0
		}
	}
}
