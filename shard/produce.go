package shard

import (
	"errors"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// produce takes one batch. Requests of one connection for one partition take
// effect in the order in which they were sent: while compressed records of an
// earlier one are being checked, later ones are held.
func (m *Machine) produce(r *mail.Request) {
	m.stats.Produces++
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err == nil && p.inspect != nil {
		err = p.hold(r)
		if err == nil {
			return
		}
	}
	if err == nil {
		var needed bool
		if needed, err = p.inspectionNeeded(r); err == nil && needed {
			if err = p.startInspection(r); err == nil {
				return
			}
		}
	}
	if err == nil {
		err = p.appendBatch(r)
	}
	if err != nil {
		r.Slab.Release()
		m.refuseRequest(r, err)
	}
}

func requestBatch(r *mail.Request) proto.Batch {
	return proto.Batch(r.Slab.Bytes[r.Start : r.Start+r.Bytes])
}

// appendBatch checks the batch against the topic and the producer's state and
// hands it to the log. After an error the slab is still the caller's.
func (p *partition) appendBatch(r *mail.Request) *proto.Error {
	m, batch := p.machine, requestBatch(r)
	if err := p.allowed(batch); err != nil {
		return err
	}
	last := producedBatchOf(batch)
	if last.id >= core.BurialProducerMin {
		return errBurialProducer
	}
	idempotent := batch.ProducerID() != proto.ProducerIDNone
	if idempotent {
		verdict, original, err := p.producers.check(last)
		switch verdict {
		case producerRefuse:
			return err
		case producerDuplicate:
			p.joinOriginal(r, original, core.Offset(last.span))
			return nil
		}
	}
	if err := m.admit(p, int64(len(batch))); err != nil {
		return err
	}

	config := &p.topic.Config
	appendTime, maxTimestamp := int64(-1), batch.MaxTimestamp()
	if config.Timestamp == core.TimestampAppend {
		appendTime = m.wall / int64(time.Millisecond)
		maxTimestamp = appendTime
		batch.SetAppendTime(appendTime)
	}
	base, span := p.log.EndOffset(), last.span
	batch.SetBaseOffset(int64(base))
	batch.SetLeaderEpoch(int32(p.leaderEpoch()))

	a := m.newAck(r)
	a.base, a.nextOffset, a.appendTime, a.bytes = base, base+core.Offset(span), appendTime, int64(len(batch))
	records := int64(batch.Count())
	if err := m.store.Append(p.log, m.entry(r, config.Durability, base, uint32(span), maxTimestamp)); err != nil {
		m.pools.putAck(a)
		return p.appendError(err)
	}
	// The slab is the store's now, and the batch with it.
	if idempotent {
		p.producers.note(last.id, base)
		p.producers.append(last, base, m.wall)
	}
	p.stats.MessagesIn += records
	p.stats.BytesIn += a.bytes
	m.stats.MessagesIn += records
	m.stats.BytesIn += a.bytes
	p.appendedBytes += a.bytes
	p.wait(a, r)
	if config.Durability == core.DurabilityNone {
		p.Advanced(p.log)
	}
	return nil
}

// allowed checks what the topic's configuration says about a batch.
func (p *partition) allowed(batch proto.Batch) *proto.Error {
	m, config := p.machine, &p.topic.Config
	if p.coordinator != nil {
		return errGroupsTopic
	}
	if limit := config.MessageBytesMax; int64(len(batch)) > int64(limit) {
		err := proto.CodeBatchTooLarge.Errorf("the batch has %d bytes; topic %s allows %d (max.message.bytes)", len(batch), p.topic.Name, limit)
		err.Limit = uint64(limit)
		return err
	}
	if count := int(batch.Count()); count > m.options.BatchRecordsMax {
		return proto.CodeInvalidRequest.Errorf("the batch has %d records; the broker allows %d (producer.max-batch-size)", count, m.options.BatchRecordsMax)
	}
	if config.Timestamp == core.TimestampCreate {
		newest := batch.MaxTimestamp()
		ahead := int64(config.TimestampAheadMax / time.Millisecond)
		if now := m.wall / int64(time.Millisecond); newest > now && newest-now > ahead {
			err := proto.CodeInvalidTimestamp.Errorf(
				"the batch has a record of time %d ms, %d ms ahead of the broker's clock (%d ms); topic %s allows %d ms (message.timestamp.ahead.max.ms)",
				newest, newest-now, now, p.topic.Name, ahead)
			err.Limit = uint64(ahead)
			return err
		}
		if newest < 0 || batch.BaseTimestamp() < 0 {
			return proto.CodeInvalidTimestamp.Errorf("the batch has a negative time (base %d, largest %d)", batch.BaseTimestamp(), newest)
		}
	}
	return nil
}

// entry fills the machine's entry: one is in use at a time. Each field is set where it
// lies: a literal would be made elsewhere, and to copy it waits for the stores to the batch.
func (m *Machine) entry(r *mail.Request, level core.Durability, base core.Offset, span uint32, maxTimestamp int64) *segment.Entry {
	e := &m.pools.entry
	e.Slab, e.Start, e.Bytes = r.Slab, r.Start, r.Bytes
	e.BaseOffset, e.Span, e.MaxTimestamp, e.RecordsCRC = base, span, maxTimestamp, r.RecordsCRC
	e.Level, e.AppendTime, e.Reserve = level, m.wall, false
	return e
}

// appendError is the answer to what the store refused.
func (p *partition) appendError(err error) *proto.Error {
	if errors.Is(err, segment.ErrEntryTooLarge) {
		e := proto.CodeBatchTooLarge.Errorf("the batch is larger than any that can be stored: allowed are %d bytes", core.BatchBytesMax)
		e.Limit = core.BatchBytesMax
		return e
	}
	return storageError(err)
}

// joinOriginal answers a duplicate with the first offset of its original, when
// the original has reached the topic's durability and not before.
func (p *partition) joinOriginal(r *mail.Request, original, span core.Offset) {
	p.machine.stats.Duplicates++
	r.Slab.Release()
	a := p.machine.newAck(r)
	a.base, a.nextOffset, a.duplicate = original, original+span, true
	p.wait(a, r)
	p.Advanced(p.log) // the original may be safe already
}
