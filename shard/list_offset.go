package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// lookup is one look-up by time on its way through the store and a worker.
type lookup struct {
	patience
	partition *partition
}

// listOffset looks one offset up. Earliest and latest are known; times are read.
func (m *Machine) listOffset(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	switch r.Lookup {
	case mail.LookupEarliest:
		p.answerLookup(r, p.log.StartOffset(), -1)
	case mail.LookupLatest:
		p.answerLookup(r, p.highWatermark(), -1)
	case mail.LookupTime, mail.LookupMaxTimestamp:
		if m.lookups >= lookupsMax {
			m.refuseRequest(r, errOverloadedLook)
			return
		}
		m.lookups++
		l := &lookup{partition: p}
		m.await(&l.patience, r)
		if r.Lookup == mail.LookupTime {
			m.store.LookupTime(p.log, r.Timestamp, l)
		} else {
			m.store.LookupMaxTimestamp(p.log, l)
		}
	default:
		m.refuseRequest(r, proto.CodeInvalidRequest.Errorf("offset kind %d: allowed are 0 (earliest) to 3 (max timestamp)", r.Lookup))
	}
}

// LookupDone takes what the store found. A record that consumers may not see yet
// is as good as none.
func (l *lookup) LookupDone(found segment.Lookup, err error) {
	p, r := l.partition, &l.request
	m := p.machine
	m.lookups--
	switch {
	case !l.end():
	case p.gone:
		m.refuseRequest(r, proto.CodeUnknownTopic.Errorf("topic %s was deleted", p.topic.Name))
	case err != nil:
		m.refuseRequest(r, storageError(err))
	case found.Offset < 0 || found.Offset >= p.highWatermark():
		p.answerLookup(r, -1, -1)
	default:
		p.answerLookup(r, found.Offset, found.Timestamp)
	}
}

// answerLookup answers with an offset, the time of its record and its leader
// epoch: that of the record, or the current one when there is no record yet.
func (p *partition) answerLookup(r *mail.Request, offset core.Offset, timestamp int64) {
	m := p.machine
	epoch := core.LeaderEpoch(-1)
	if offset >= 0 {
		epoch = p.epochAt(offset)
	}
	m.answer = mail.Answer{
		Kind: mail.AnswerListOffset, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: epoch,
		Offset: offset, Timestamp: timestamp, LogStartOffset: p.log.StartOffset(),
		HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(), Received: r.Received,
	}
	m.send(r.Reactor)
}

// epochAt is the leader epoch of the record at an offset.
func (p *partition) epochAt(offset core.Offset) core.LeaderEpoch {
	if term, ok := p.log.Epochs().TermAt(offset); ok && offset < p.log.EndOffset() {
		return core.LeaderEpoch(term)
	}
	return p.leaderEpoch()
}
