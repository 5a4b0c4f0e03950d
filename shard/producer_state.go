package shard

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// producerTable is what a partition remembers of idempotent producers. All of it
// follows from the log: batches and the append times of their frames. So a
// replay, and every replica, comes to the same table.
//
// Invariants: byID and the list from oldest to newest hold the same producers;
// the list is in the order of their last appends; there are at most
// core.ProducersPerPartitionMax.
type producerTable struct {
	byID           map[core.ProducerID]*producer // nil while no producer was seen
	oldest, newest *producer
	expiry         int64 // nanoseconds of silence after which a producer may be forgotten

	undo      core.Queue[producerUndo] // of batches that are not durable, in the order of their offsets
	undoFloor core.Offset              // notes below it are missing; 0 none are
}

// producer is one producer's last batches in this partition.
type producer struct {
	id             core.ProducerID
	previous, next *producer
	producerLast
}

// producerLast is what can change of a producer.
type producerLast struct {
	appended int64 // append time of the newest batch, nanoseconds since the Unix epoch
	epoch    int16
	count    uint8 // of batches in use, the last one is the newest
	batches  [core.ProducerBatchesRemembered]producerBatch
}

// producerBatch is one batch of a producer.
type producerBatch struct {
	sequence int32 // of the first record
	span     int32 // records
	offset   core.Offset
}

// producedBatch is what a batch says of its producer, read out of it before its
// memory is given away.
type producedBatch struct {
	id       core.ProducerID
	epoch    int16
	sequence int32
	span     int32
}

func producedBatchOf(b proto.Batch) producedBatch {
	return producedBatch{core.ProducerID(b.ProducerID()), b.ProducerEpoch(), b.BaseSequence(), b.LastOffsetDelta() + 1}
}

func (b producerBatch) sequenceNext() int32 { return proto.SequenceAdd(b.sequence, b.span) }

// producerVerdict says what to do with a batch.
type producerVerdict uint8

const (
	producerAppend producerVerdict = iota
	producerDuplicate
	producerRefuse
)

// check compares a batch with what the partition remembers. For a duplicate it
// returns the offset of the original. The batch has a producer id.
func (t *producerTable) check(b producedBatch) (producerVerdict, core.Offset, *proto.Error) {
	id, epoch, sequence, span := b.id, b.epoch, b.sequence, b.span
	p := t.byID[id]
	if p == nil {
		if sequence != 0 {
			return producerRefuse, 0, proto.CodeUnknownProducer.Errorf(
				"the partition knows nothing of producer %d and its sequence is %d, not 0: ask for a new producer id", id, sequence)
		}
		return producerAppend, 0, nil
	}
	if epoch < p.epoch {
		return producerRefuse, 0, proto.CodeInvalidProducerEpoch.Errorf(
			"producer %d sent epoch %d, and epoch %d has taken over", id, epoch, p.epoch)
	}
	if epoch > p.epoch {
		if sequence != 0 {
			return producerRefuse, 0, proto.CodeOutOfOrderSequence.Errorf(
				"producer %d begins epoch %d with sequence %d; an epoch begins with 0", id, epoch, sequence)
		}
		return producerAppend, 0, nil
	}
	core.Assert(p.count > 0, "a remembered producer has a batch")
	for i := int(p.count) - 1; i >= 0; i-- {
		if p.batches[i].sequence == sequence && p.batches[i].span == span {
			return producerDuplicate, p.batches[i].offset, nil
		}
	}
	expected := p.batches[p.count-1].sequenceNext()
	switch ahead := uint32(sequence-expected) & 0x7fffffff; { // sequences are a circle of 2^31
	case ahead == 0:
		return producerAppend, 0, nil
	case ahead >= 1<<30:
		return producerRefuse, 0, proto.CodeDuplicateSequence.Errorf(
			"producer %d sent sequence %d again, and only its last %d batches are remembered (next is %d)",
			id, sequence, core.ProducerBatchesRemembered, expected)
	}
	return producerRefuse, 0, proto.CodeOutOfOrderSequence.Errorf(
		"producer %d sent sequence %d where %d is next: a batch before it was lost or refused", id, sequence, expected)
}

// append remembers a batch that was appended at offset. now is the append time
// of its frame.
func (t *producerTable) append(b producedBatch, offset core.Offset, now int64) {
	if t.newest != nil {
		if gap := now - t.newest.appended; gap > producerGapMax || gap < -producerGapMax {
			t.shift(gap)
		}
	}
	p := t.byID[b.id]
	if p == nil {
		p = t.add(b.id, now)
	} else {
		t.unlink(p)
	}
	t.link(p)
	if b.epoch != p.epoch {
		p.epoch, p.count = b.epoch, 0
	}
	if int(p.count) == len(p.batches) {
		copy(p.batches[:], p.batches[1:])
		p.count--
	}
	p.batches[p.count] = producerBatch{b.sequence, b.span, offset}
	p.count++
	p.appended = now
}

// producerGapMax is the longest time between two appends that counts as silence of
// the producers. A longer one is that of the whole partition, or of a clock that
// jumped, and neither says that a producer is gone: its retries must be recognised.
const producerGapMax = int64(time.Hour)

// shift moves all times, so that a gap in which nobody appended ages nobody.
func (t *producerTable) shift(by int64) {
	for p := t.oldest; p != nil; p = p.next {
		p.appended += by
	}
	for i := range t.undo.Len() {
		t.undo.At(i).before.appended += by
	}
}

// add makes room for one more producer: the silent ones beyond their time go, and
// when that is not enough the one that has been silent longest.
func (t *producerTable) add(id core.ProducerID, now int64) *producer {
	if t.byID == nil {
		t.byID = make(map[core.ProducerID]*producer)
	}
	for t.oldest != nil && (len(t.byID) >= core.ProducersPerPartitionMax || t.expiry > 0 && now-t.oldest.appended > t.expiry) {
		t.remove(t.oldest)
	}
	p := &producer{id: id, producerLast: producerLast{epoch: -1}}
	t.byID[id] = p
	return p
}

func (t *producerTable) link(p *producer) {
	p.previous, p.next = t.newest, nil
	if t.newest == nil {
		t.oldest = p
	} else {
		t.newest.next = p
	}
	t.newest = p
}

func (t *producerTable) unlink(p *producer) {
	if p.previous == nil {
		t.oldest = p.next
	} else {
		p.previous.next = p.next
	}
	if p.next == nil {
		t.newest = p.previous
	} else {
		p.next.previous = p.previous
	}
	p.previous, p.next = nil, nil
}

// reset forgets everything.
func (t *producerTable) reset() { *t = producerTable{expiry: t.expiry} }

// producerStateVersion is the version of the snapshot's layout:
//
//	version u16 | producers u32 | from the one longest silent on:
//	    id i64 | appended i64 | epoch i16 | batches u8 | (sequence u32, span u32, offset u64)...
const producerStateVersion = 1

const (
	producerStateBytes      = 8 + 8 + 2 + 1
	producerStateBatchBytes = 4 + 4 + 8
)

// appendState appends the table to b; nothing when it is empty.
func (t *producerTable) appendState(b []byte) []byte {
	if len(t.byID) == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, producerStateVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.byID)))
	for p := t.oldest; p != nil; p = p.next {
		b = binary.BigEndian.AppendUint64(b, uint64(p.id))
		b = binary.BigEndian.AppendUint64(b, uint64(p.appended))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = append(b, p.count)
		for _, batch := range p.batches[:p.count] {
			b = binary.BigEndian.AppendUint32(b, uint32(batch.sequence))
			b = binary.BigEndian.AppendUint32(b, uint32(batch.span))
			b = binary.BigEndian.AppendUint64(b, uint64(batch.offset))
		}
	}
	return b
}

// restore replaces the table by what appendState wrote; after an error it is empty.
func (t *producerTable) restore(state []byte) error {
	t.reset()
	if len(state) == 0 {
		return nil
	}
	if len(state) < 6 || binary.BigEndian.Uint16(state) != producerStateVersion {
		return fmt.Errorf("producer state of %d bytes: not of version %d, which this build reads", len(state), producerStateVersion)
	}
	count := binary.BigEndian.Uint32(state[2:])
	rest := state[6:]
	for range count {
		if len(rest) < producerStateBytes {
			t.reset()
			return fmt.Errorf("producer state of %d bytes is cut short", len(state))
		}
		id := core.ProducerID(binary.BigEndian.Uint64(rest))
		appended := int64(binary.BigEndian.Uint64(rest[8:]))
		epoch, batches := int16(binary.BigEndian.Uint16(rest[16:])), rest[18]
		rest = rest[producerStateBytes:]
		if batches < 1 || int(batches) > core.ProducerBatchesRemembered || len(rest) < int(batches)*producerStateBatchBytes ||
			t.byID[id] != nil || len(t.byID) == core.ProducersPerPartitionMax {
			t.reset()
			return fmt.Errorf("producer state of %d bytes: producer %d is malformed", len(state), id)
		}
		if t.byID == nil {
			t.byID = make(map[core.ProducerID]*producer, count)
		}
		p := &producer{id: id, producerLast: producerLast{appended: appended, epoch: epoch, count: batches}}
		for i := range p.batches[:batches] {
			p.batches[i] = producerBatch{
				sequence: int32(binary.BigEndian.Uint32(rest)),
				span:     int32(binary.BigEndian.Uint32(rest[4:])),
				offset:   core.Offset(binary.BigEndian.Uint64(rest[8:])),
			}
			rest = rest[producerStateBatchBytes:]
		}
		t.byID[id] = p
		t.link(p)
	}
	if len(rest) != 0 {
		t.reset()
		return fmt.Errorf("producer state of %d bytes: %d bytes behind its end", len(state), len(rest))
	}
	return nil
}
