package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// trim is one DELETE_RECORDS that waits until its log start is durable.
type trim struct {
	timer     timer
	partition *partition
	request   mail.Request
	before    core.Offset
}

// trim moves the log start forward. It is answered when the move is durable.
func (m *Machine) trim(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	before := r.Offset
	if before == -1 {
		before = p.highWatermark()
	}
	if before < 0 || before > p.highWatermark() {
		m.refuseRequest(r, p.outOfRange(before))
		return
	}
	if before <= p.log.StartOffset() {
		p.answerTrim(r)
		return
	}
	if len(p.trims) >= trimsPerPartitionMax {
		m.refuseRequest(r, errOverloadedTrim)
		return
	}
	if err := m.store.Trim(p.log, before); err != nil {
		m.refuseRequest(r, storageError(err))
		return
	}
	t := &trim{partition: p, request: *r, before: before}
	p.trims = append(p.trims, t)
	wait := r.Wait
	if wait <= 0 {
		wait = int64(m.options.RequestTimeout)
	}
	m.wheel.arm(&t.timer, t, m.now+wait)
}

// settleTrims answers the trims that the log start has reached.
func (p *partition) settleTrims() {
	if len(p.trims) == 0 {
		return
	}
	start := p.log.StartOffset()
	kept := p.trims[:0]
	for _, t := range p.trims {
		if t.before > start {
			kept = append(kept, t)
			continue
		}
		p.machine.wheel.disarm(&t.timer)
		p.answerTrim(&t.request)
	}
	clear(p.trims[len(kept):])
	p.trims = kept
}

func (p *partition) answerTrim(r *mail.Request) {
	m := p.machine
	m.answer = mail.Answer{
		Kind: mail.AnswerTrim, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: -1, Timestamp: -1, LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(),
		LogEndOffset: p.log.EndOffset(), SizeBytes: p.log.SizeBytes(), Received: r.Received,
	}
	m.send(r.Reactor)
}

// expire answers a trim whose time has passed; it may still happen.
func (t *trim) expire() {
	p := t.partition
	for i, other := range p.trims {
		if other == t {
			p.trims = append(p.trims[:i], p.trims[i+1:]...)
			break
		}
	}
	p.machine.refuseRequest(&t.request, errTimedOutRequest)
}

func (p *partition) endTrims(err *proto.Error) {
	for _, t := range p.trims {
		p.machine.wheel.disarm(&t.timer)
		p.machine.refuseRequest(&t.request, err)
	}
	p.trims = nil
}
