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
	timer          timer
	partition      *partition

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
func (m *Machine) newAck(p *partition, r *mail.Request) *ack {
	a := m.pools.ack()
	a.partition, a.conn, a.id, a.reactor, a.acks = p, r.Conn, r.ID, r.Reactor, r.Acks
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
		p.machine.wheel.arm(&a.timer, a, max(r.Received, p.machine.now-wait)+wait)
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
	p.machine.wheel.disarm(&a.timer)
	p.machine.pools.putAck(a)
}

func (p *partition) answerProduce(a *ack, level core.Durability) {
	m := p.machine
	if a.received != 0 {
		m.stats.Total.record(m.now - a.received)
	}
	m.answer = mail.Answer{
		Kind: mail.AnswerProduce, Durability: level, Duplicate: a.duplicate,
		Conn: a.conn, ID: a.id, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: a.base, Timestamp: a.appendTime,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(),
		Received: a.received,
	}
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

// expire answers a produce whose time has passed. What was asked for may still
// happen, so the ack keeps its place.
func (a *ack) expire() {
	a.answered = true
	a.partition.machine.refuse(a.reactor, a.conn, a.id, a.partition.id, a.received, errTimedOut)
}

// refuse answers a request with an error.
func (m *Machine) refuse(reactor uint8, conn mail.ConnRef, id uint64, partition core.PartitionID, received int64, err *proto.Error) {
	m.answer = mail.Answer{Kind: mail.AnswerError, Conn: conn, ID: id, Partition: partition, Received: received, Err: err,
		Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	m.send(reactor)
}

func (m *Machine) refuseRequest(r *mail.Request, err *proto.Error) {
	m.refuse(r.Reactor, r.Conn, r.ID, r.Partition, r.Received, err)
}
