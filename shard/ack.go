package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// acksNone is the value of acks in PRODUCE that asks for no answer.
const acksNone = uint8(proto.AcksNone)

// ack is a produce that waits until its batch has reached the topic's
// durability. One without an answer waits too: it holds memory, and a batch that
// is lost later is still reported.
type ack struct {
	previous, next *ack
	deadline       int64 // monotonic; of one that is to be answered

	conn      mail.ConnRef
	id        uint64
	reactor   uint8
	acks      uint8
	duplicate bool
	answered  bool // timed out; it stays for its place and its memory

	base       core.Offset
	nextOffset core.Offset // after the batch
	appendTime int64       // milliseconds; -1 when records keep their own
	bytes      int64       // 0 for a duplicate
	received   int64
	appended   int64 // monotonic
}

// ackQueue is in ascending order of nextOffset.
type ackQueue struct {
	first, last *ack
	count       int
}

// add puts a into its place: behind the last one that does not lie after it.
// Only a duplicate ever has to look further than the end.
func (q *ackQueue) add(a *ack) {
	after := q.last
	for after != nil && after.nextOffset > a.nextOffset {
		after = after.previous
	}
	a.previous = after
	if after == nil {
		a.next, q.first = q.first, a
	} else {
		a.next, after.next = after.next, a
	}
	if a.next == nil {
		q.last = a
	} else {
		a.next.previous = a
	}
	q.count++
}

func (q *ackQueue) remove(a *ack) {
	if a.previous == nil {
		q.first = a.next
	} else {
		a.previous.next = a.next
	}
	if a.next == nil {
		q.last = a.previous
	} else {
		a.next.previous = a.previous
	}
	a.previous, a.next = nil, nil
	q.count--
}

// newAck makes the ack of a request; the caller adds it to the partition's queue.
func (m *Machine) newAck(r *mail.Request) *ack {
	a := m.pools.ack()
	a.conn, a.id, a.reactor, a.acks = r.Conn, r.ID, r.Reactor, r.Acks
	a.received, a.appended, a.appendTime = r.Received, m.now, -1
	return a
}

// wait queues the ack until its durability is reached or its time has passed.
func (p *partition) wait(a *ack, r *mail.Request) {
	p.acks.add(a)
	p.pendingBytes += a.bytes
	p.machine.memory.pending += a.bytes
	if a.acks != acksNone {
		wait := r.Wait
		if wait <= 0 {
			wait = int64(p.machine.options.RequestTimeout)
		}
		a.deadline = max(r.Received, p.machine.now-wait) + wait
		p.patience.cover(a.deadline)
	}
}

// settleAcks answers what has reached the topic's durability.
func (p *partition) settleAcks() {
	level := p.topic.Config.Durability
	reached := p.log.ReachedOffset(level)
	for a := p.acks.first; a != nil && a.nextOffset <= reached; a = p.acks.first {
		if a.acks != acksNone && !a.answered {
			p.machine.stats.stage(level).record(p.machine.now - a.appended)
			p.answerProduce(a, level)
		}
		p.releaseAck(a)
	}
}

func (p *partition) releaseAck(a *ack) {
	p.acks.remove(a)
	p.pendingBytes -= a.bytes
	p.machine.memory.pending -= a.bytes
	if p.acks.count == 0 {
		p.machine.wheel.disarm(&p.patience.timer)
	}
	p.machine.pools.putAck(a)
}

func (p *partition) answerProduce(a *ack, level core.Durability) {
	m := p.machine
	if a.received != 0 {
		m.stats.Total.record(m.now - a.received)
	}
	answer := &m.answer // zero, and filled in where it lies
	answer.Kind, answer.Durability, answer.Duplicate = mail.AnswerProduce, level, a.duplicate
	answer.Conn, answer.ID, answer.Received = a.conn, a.id, a.received
	answer.Partition, answer.LeaderEpoch = p.id, p.leaderEpoch()
	answer.Offset, answer.Timestamp = a.base, a.appendTime
	answer.LogStartOffset, answer.HighWatermark, answer.LogEndOffset = p.log.StartOffset(), p.highWatermark(), p.log.EndOffset()
	m.send(a.reactor)
}

// failAcks answers every ack behind an offset with an error; -1 is all of them.
func (p *partition) failAcks(from core.Offset, err *proto.Error) {
	for a := p.acks.first; a != nil; {
		next := a.next
		if a.nextOffset > from {
			if !a.answered {
				p.machine.refuse(a.reactor, a.conn, a.id, p.id, a.received, err)
			}
			p.releaseAck(a)
		}
		a = next
	}
}

// ackPatience is the time that the produces of a partition are waited for. They have
// one timer together: it is for the one whose time passes first, and nearly all are
// answered long before.
//
// Invariant: while an ack is to be answered the timer is armed, for no later than its deadline.
type ackPatience struct {
	timer     timer
	at        int64 // what the timer is armed for
	partition *partition
}

// cover has the timer end no later than a deadline.
func (w *ackPatience) cover(deadline int64) {
	if !w.timer.armed || deadline < w.at {
		w.at = deadline
		w.partition.machine.wheel.arm(&w.timer, w, deadline)
	}
}

// expire answers the produces whose time has passed. What was asked for may still
// happen, so the acks keep their places.
func (w *ackPatience) expire() {
	m := w.partition.machine
	for a := w.partition.acks.first; a != nil; a = a.next {
		switch {
		case a.acks == acksNone || a.answered:
		case m.wheel.passed(a.deadline):
			a.answered = true
			m.refuse(a.reactor, a.conn, a.id, w.partition.id, a.received, errTimedOut)
		default:
			w.cover(a.deadline)
		}
	}
}

// refuse answers a request with an error.
func (m *Machine) refuse(reactor uint8, conn mail.ConnRef, id uint64, partition core.PartitionID, received int64, err *proto.Error) {
	m.answer = mail.Answer{Kind: mail.AnswerError, Conn: conn, ID: id, Partition: partition, Received: received, Err: err,
		Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	m.send(reactor)
}

func (m *Machine) refuseRequest(r *mail.Request, err *proto.Error) {
	if r.Kind == mail.RequestLease { // one of many of its subscription, which has an answer of its own
		m.answer = mail.Answer{Kind: mail.AnswerLease, Conn: r.Conn, ID: r.ID, Partition: r.Partition, Received: r.Received, Err: err,
			Offset: -1, Timestamp: -1, LeaderEpoch: -1}
		m.send(r.Reactor)
		return
	}
	m.refuse(r.Reactor, r.Conn, r.ID, r.Partition, r.Received, err)
}
