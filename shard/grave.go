package shard

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// A dead-letter topic's side of a burial: the partition stores what another shard,
// or this one, has given up, once. Every window of a queue group is a producer of
// its own here, whose sequences are the numbers of its burials. Unlike those of
// clients they may leave numbers out, for records that could not be buried; what is
// behind the newest has been stored, by whatever batches. So a shard that does not
// know how far it came, after a crash, sends what it has and is told.

// grave is a batch that waits until it is durable.
type grave struct {
	next   core.Offset // after the batch
	bytes  int64       // that count against the shard's memory
	buried int         // what the answer says
	letter mail.Letter
}

// bury takes a batch for a partition of a dead-letter topic.
func (m *Machine) bury(l *mail.Letter) {
	p, err := m.serve(l.Partition, -1)
	if err == nil {
		err = p.dig(l)
	}
	if err != nil {
		m.sendBuried(l, 0, err)
	}
}

// dig appends the batch of a letter, unless a part of it is there already.
func (p *partition) dig(l *mail.Letter) *proto.Error {
	m, batch := p.machine, proto.Batch(l.Burial.Batch)
	b := producedBatchOf(batch)
	core.Assert(b.id >= core.BurialProducerMin && p.coordinator == nil, "burials have producers of their own, and go to topics of users")
	if limit := p.topic.Config.MessageBytesMax; int64(len(batch)) > int64(limit) { // lowered meanwhile
		err := proto.CodeBatchTooLarge.Errorf("the batch has %d bytes; topic %s allows %d (max.message.bytes)", len(batch), p.topic.Name, limit)
		err.Limit = uint64(limit)
		return err
	}
	if stored, next := p.producers.stored(b); stored > 0 {
		m.stats.Duplicates++
		p.graves = append(p.graves, grave{next: next, buried: stored, letter: *l})
		p.Advanced(p.log) // it may be durable already
		return nil
	}
	bytes := int64(len(batch))
	if err := m.admit(p, bytes); err != nil {
		return err
	}
	// Behind the batch there is room for its padding.
	room := core.BatchRoomBytes + len(batch) + core.DiskAlignment
	slab := m.ports.Slabs.Get(room)
	if slab == nil { // what is kept for readers alone makes room, now or for the next try
		m.Relieve()
		if slab = m.ports.Slabs.Get(room); slab == nil {
			return errOverloadedTotal
		}
	}
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	batch = proto.Batch(slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+len(batch)])
	if p.topic.Config.Timestamp == core.TimestampAppend {
		batch.SetAppendTime(m.wall / int64(time.Millisecond))
	}
	base, records, maxTimestamp := p.log.EndOffset(), int64(batch.Count()), batch.MaxTimestamp()
	batch.SetBaseOffset(int64(base))
	batch.SetLeaderEpoch(int32(p.leaderEpoch()))
	e := &m.pools.entry
	e.Slab, e.Start, e.Bytes = slab, core.BatchRoomBytes, uint32(len(batch))
	e.BaseOffset, e.Span, e.MaxTimestamp, e.RecordsCRC = base, uint32(b.span), maxTimestamp, batch.RecordsCRC()
	// Its only other copy is let go of when this one is durable, whatever the topic promises to others.
	e.Level, e.AppendTime, e.Reserve = core.DurabilitySync, m.wall, false
	if err := m.store.Append(p.log, e); err != nil {
		slab.Release()
		return p.appendError(err)
	}
	p.producers.note(b.id, base)
	p.producers.append(b, base, m.wall)
	p.stats.MessagesIn += records
	p.stats.BytesIn += bytes
	m.stats.MessagesIn += records
	m.stats.BytesIn += bytes
	p.appendedBytes += bytes
	p.pendingBytes += bytes
	m.memory.pending += bytes
	p.graves = append(p.graves, grave{next: base + core.Offset(b.span), bytes: bytes, buried: int(b.span), letter: *l})
	return nil
}

// stored says how many records of a burial, from its first on, are in the partition,
// and the offset behind the last of them. A producer that is not known has stored
// nothing, as far as can be told.
func (t *producerTable) stored(b producedBatch) (records int, next core.Offset) {
	p := t.byID[b.id]
	if p == nil {
		return 0, 0
	}
	newest := p.batches[p.count-1]
	behind := uint32(newest.sequenceNext()-b.sequence) & 0x7fffffff // sequences are a circle of 2^31
	if behind == 0 || behind >= 1<<30 {
		return 0, 0
	}
	return min(int(behind), int(b.span)), newest.offset + core.Offset(newest.span)
}

// settleGraves answers for what is durable.
func (p *partition) settleGraves() {
	if len(p.graves) == 0 {
		return
	}
	durable := p.log.DurableOffset()
	kept := p.graves[:0]
	var done []grave
	for _, g := range p.graves {
		if g.next > durable {
			kept = append(kept, g)
			continue
		}
		done = append(done, g)
	}
	p.keepGraves(kept)
	for i := range done { // an answer to this shard may bring the next batch
		p.fill(&done[i], nil)
	}
}

// failGraves answers for what lies behind an offset with an error; -1 is all of them.
func (p *partition) failGraves(from core.Offset, err *proto.Error) {
	kept := p.graves[:0]
	var failed []grave
	for _, g := range p.graves {
		if g.next <= from {
			kept = append(kept, g)
			continue
		}
		failed = append(failed, g)
	}
	p.keepGraves(kept)
	for i := range failed {
		p.fill(&failed[i], err)
	}
}

func (p *partition) keepGraves(kept []grave) {
	clear(p.graves[len(kept):])
	if p.graves = kept; len(kept) == 0 {
		p.graves = nil
	}
}

func (p *partition) fill(g *grave, err *proto.Error) {
	p.pendingBytes -= g.bytes
	p.machine.memory.pending -= g.bytes
	p.machine.sendBuried(&g.letter, g.buried, err)
}

// sendBuried answers a letter.
func (m *Machine) sendBuried(l *mail.Letter, records int, err *proto.Error) {
	b := l.Burial
	b.Batch, b.Buried, b.Err = nil, records, err
	answer := mail.Letter{Kind: mail.LetterBuried, From: m.options.Shard, Change: l.Change, Partition: l.Partition, Burial: b}
	if l.From == m.options.Shard {
		m.buried(&answer)
		return
	}
	m.letters.Push(letterOut{l.From, answer})
}
