package shard

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// settlement is one SETTLE that waits until its outcomes are durable.
type settlement struct {
	patience
	queue   *queueGroup
	results []proto.SettledResult
}

var errOverloadedSettle = overloaded("too many outcomes of this partition wait for the disk")

// settleQueue takes one SETTLE.
func (m *Machine) settleQueue(r *mail.Request) {
	b := r.Body.(*mail.Settle)
	q, err := m.queueOf(r, b.Group)
	if err == nil && q.partition.cursors.settles+len(b.Ranges) > settleRangesWaitMax {
		err = errOverloadedSettle
	}
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	results := make([]proto.SettledResult, len(b.Ranges))
	written := false
	for i := range b.Ranges {
		n, wrote := q.settle(b.Member, &b.Ranges[i])
		written = written || wrote
		q.result(&results[i], &b.Ranges[i], n)
	}
	if !written {
		m.answerSettle(r, results)
		return
	}
	st := m.pools.settlement()
	st.queue, st.results = q, results
	m.await(&st.patience, r)
	q.settles = append(q.settles, st)
	q.partition.cursors.settles += len(results)
	q.list()
}

// queueOf finds the group of a request in its partition.
func (m *Machine) queueOf(r *mail.Request, group string) (*queueGroup, *proto.Error) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err != nil {
		return nil, err
	}
	if p.cursors != nil {
		if q := p.cursors.queues[group]; q != nil && q.window != nil {
			return q, nil
		}
		if _, ok := p.cursors.table.Get(group); ok {
			return nil, proto.CodeGroupKindMismatch.Errorf("group %s has offsets in partition %d of topic %s and has leased nothing: it is a stream group, or has not begun here", core.Quote(group), p.number, p.topic.Name)
		}
	}
	return nil, proto.CodeUnknownGroup.Errorf("group %s has leased nothing from partition %d of topic %s", core.Quote(group), p.number, p.topic.Name)
}

func (q *queueGroup) result(result *proto.SettledResult, r *proto.SettledRange, n int64) {
	result.Settled = uint32(n)
	if lost := r.NextOffset - r.BaseOffset - n; lost > 0 && r.Outcome != proto.SettlementDiscard {
		result.Error = *proto.CodeLeaseLost.Errorf("%d of the records %d up to but not including %d are not leased to the member in attempt %d any more", lost, r.BaseOffset, r.NextOffset, r.Attempt)
	}
}

// settle takes one range. It returns for how many records the outcome takes effect, and whether that takes a frame.
func (q *queueGroup) settle(member string, r *proto.SettledRange) (records int64, written bool) {
	if r.Outcome == proto.SettlementDiscard {
		for from := r.BaseOffset; ; {
			base, end := q.window.TakeDead(from, r.NextOffset)
			if base >= end {
				return records, records > 0
			}
			q.add(queue.Op{Kind: queue.Settle, Base: base, Next: end})
			records += end - base
			from = end
		}
	}
	if r.Attempt > queue.AttemptsMax {
		return 0, false
	}
	for s := q.members[member]; s != nil; s = s.older {
		if r.Outcome == proto.SettlementExtend {
			records += s.extend(r)
			continue
		}
		for from := r.BaseOffset; ; {
			base, end := q.window.Take(s.holder, uint16(r.Attempt), from, r.NextOffset)
			if base >= end {
				break
			}
			q.end(base, end, r)
			records += end - base
			from = end
		}
	}
	return records, records > 0 && r.Outcome != proto.SettlementExtend
}

// end adds the op that an outcome makes.
func (q *queueGroup) end(base, end int64, r *proto.SettledRange) {
	attempts := uint16(r.Attempt)
	op := queue.Op{Kind: queue.Settle, Base: base, Next: end}
	m := q.machine()
	switch r.Outcome {
	case proto.SettlementAck:
		q.count(QueueCounts{Acked: uint64(end - base)})
	case proto.SettlementReject:
		q.die(base, end, attempts, queue.Rejected, r.Reason)
		return
	case proto.SettlementRelease:
		op.Kind, op.Attempts = queue.Retry, attempts-1
	case proto.SettlementNack:
		if most := q.attemptsMax(); most > 0 && attempts >= most {
			q.die(base, end, attempts, queue.Nacked, r.Reason)
			return
		}
		q.count(QueueCounts{Nacked: uint64(end - base)})
		op.Kind, op.Attempts = queue.Retry, attempts
		delay := int64(r.DelayMs)
		if delay == 0 {
			config := q.config()
			delay = config.Backoff.After(int(attempts)).Milliseconds()
		}
		if delay > 0 {
			op.Time = m.steadyWall() + delay + 1 // what has passed of this millisecond is not counted: none comes early
		}
	}
	q.add(op)
}

// extend begins leases anew.
func (s *leaseShare) extend(r *proto.SettledRange) int64 {
	q := s.queue
	timeout := int64(r.DelayMs) * int64(time.Millisecond)
	if timeout == 0 {
		timeout = s.timeout
	}
	if timeout == 0 {
		timeout = int64(q.config().AckTimeout)
	}
	deadline := q.machine().now + timeout
	n := q.window.Extend(s.holder, uint16(r.Attempt), r.BaseOffset, r.NextOffset, deadline)
	if n > 0 {
		s.until = max(s.until, deadline)
		q.arm()
	}
	return int64(n)
}

func (m *Machine) answerSettle(r *mail.Request, results []proto.SettledResult) {
	m.answer = mail.Answer{Kind: mail.AnswerSettle, Conn: r.Conn, ID: r.ID, Partition: r.Partition, LeaderEpoch: -1, Offset: -1, Timestamp: -1,
		Received: r.Received, Body: &proto.SettleResponse{Ranges: results}}
	m.send(r.Reactor)
}

// stored answers: the outcomes are durable, or the window was set to another offset before they were.
func (st *settlement) stored(stale bool) {
	m := st.machine
	if stale {
		for i := range st.results {
			st.results[i] = proto.SettledResult{Error: *proto.CodeLeaseLost.Errorf("the group was set to another offset, or deleted; nothing is leased any more")}
		}
	}
	if st.end() {
		m.answerSettle(&st.request, st.results)
	}
	st.done()
}

// lost answers: the outcomes did not reach the disk.
func (st *settlement) lost(err *proto.Error) {
	if st.end() {
		st.machine.refuseRequest(&st.request, err)
	}
	st.done()
}

func (st *settlement) done() {
	st.queue.partition.cursors.settles -= len(st.results)
	st.machine.pools.putSettlement(st)
}
