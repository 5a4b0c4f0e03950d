package pulsemq

import (
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// batch is records of one partition that share their fate, from the first record to the last result.
//
// Everything but the results is guarded by its queue's lock. Invariants:
//
//	len(done) == len(times) == the number of records
//	numbered: id, epoch and sequence are in wire, and no other records will ever carry them
//	over is set once, and whoever sets it hands the batch to the deliverer
//	holds counts those outside the queue's lock who read wire; it is used again only when holds is 0 and the
//	results have been given
type batch struct {
	builder proto.BatchBuilder
	wire    proto.Batch // built; nil while records are added
	done    []func(Result, error)
	times   []int64 // Unix milliseconds, as the messages have them
	bytes   int64   // of the producer's buffer

	opened   time.Time
	deadline time.Time
	flush    bool // do not linger
	flushes  []*flush

	numbered bool
	id       int64
	epoch    int16
	sequence int32

	attempts    int
	sentTo      [16]byte // the topic's id in the last attempt
	retry       bool     // in flight, and its last attempt has failed: it waits for the others to return
	maybeStored bool     // an attempt ended without the broker's word that nothing was stored
	cause       error    // what ended the last attempt
	over        bool
	holds       int
	given       bool // results have been given

	result     Result // of the first record
	appendTime bool   // the broker's time replaces the records' own
	err        error
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// newBatch opens a batch. Its buffers have been used before.
func newBatch(codec Compression, now, deadline time.Time) *batch {
	b := batches.Get().(*batch)
	b.builder.Reset(codec)
	b.opened, b.deadline = now, deadline
	return b
}

// recycle gives the buffers back. Nothing may point to the batch any more.
func (b *batch) recycle() {
	clear(b.done)
	clear(b.flushes)
	*b = batch{builder: b.builder, done: b.done[:0], times: b.times[:0], flushes: b.flushes[:0]}
	batches.Put(b)
}

func (b *batch) count() int { return len(b.done) }

// build makes the wire form. Nothing is added afterwards.
func (b *batch) build() error {
	wire, err := b.builder.Build()
	b.wire = wire
	return err
}

// number gives the records their sequences.
func (b *batch) number(id int64, epoch int16, sequence int32) {
	b.wire.SetProducer(id, epoch, sequence)
	b.numbered, b.id, b.epoch, b.sequence = true, id, epoch, sequence
}

// split makes two batches of one that the broker found too large. The first half keeps the sequence and the second goes
// on from there, so that the records behind them keep theirs. It is not used again: the halves have its callbacks.
func (b *batch) split(codec Compression) (first, second *batch, err error) {
	n := b.count() / 2
	first, second = newBatch(codec, b.opened, b.deadline), newBatch(codec, b.opened, b.deadline)
	var it proto.RecordIterator
	i := 0
	for it.Reset(b.wire, 1<<31-1); it.Next(); i++ {
		half := first
		if i >= n {
			half = second
		}
		if err := half.builder.Append(it.Record()); err != nil {
			return nil, nil, err
		}
		half.done = append(half.done, b.done[i])
		half.times = append(half.times, b.times[i])
	}
	if err := it.Err(); err != nil {
		return nil, nil, err
	}
	first.bytes = b.bytes * int64(n) / int64(b.count())
	second.bytes = b.bytes - first.bytes
	for _, half := range []*batch{first, second} {
		half.flush, half.attempts, half.cause = b.flush, b.attempts, b.cause
		if err := half.build(); err != nil {
			return nil, nil, err
		}
	}
	if b.numbered {
		first.number(b.id, b.epoch, b.sequence)
		second.number(b.id, b.epoch, proto.SequenceAdd(b.sequence, int32(n)))
	}
	for _, f := range b.flushes {
		f.add() // one more than before: two halves instead of the whole
	}
	first.flushes = append(first.flushes, b.flushes...)
	second.flushes = append(second.flushes, b.flushes...)
	return first, second, nil
}

// give calls every callback of the batch, in the order of its records.
func (b *batch) give() {
	r := b.result
	for i, done := range b.done {
		if done == nil {
			continue
		}
		if b.err != nil {
			done(Result{Topic: r.Topic, Partition: r.Partition, Offset: OffsetUnknown}, b.err)
			continue
		}
		one := r
		if r.Offset >= 0 {
			one.Offset = r.Offset + int64(i)
		}
		if !b.appendTime {
			one.Timestamp = time.UnixMilli(b.times[i])
		}
		done(one, nil)
	}
}
