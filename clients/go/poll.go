package pulsemq

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Poll waits for records and returns those of one partition, in order and at least one. It returns a PartitionError
// when something is to be told about a partition; ErrEndOfLog with ConsumerStopAtEnd; ErrClosed; or the error of ctx.
func (k *Consumer) Poll(ctx context.Context) ([]Record, error) {
	t, err := k.poll(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.part.generation == t.generation {
		t.part.returned(&t, len(t.records))
	}
	return t.records, nil
}

// Records calls Poll for as long as the loop goes on. It ends by itself at ErrEndOfLog and at ErrClosed; when ctx ends
// its error comes last. A PartitionError is handed to the loop, which goes on if it wants to. A loop that is left early
// loses nothing: the next Poll begins behind the record it had last. Each record may be kept.
func (k *Consumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			t, err := k.poll(ctx)
			var about *PartitionError
			switch {
			case errors.Is(err, ErrEndOfLog) || errors.Is(err, ErrClosed):
				return
			case errors.As(err, &about):
				if !yield(nil, err) {
					return
				}
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			for i := range t.records {
				if !k.handOut(&t, i) {
					break // sought: the rest is of the old place
				}
				if !yield(&t.records[i], nil) {
					k.putBack(&t, i+1)
					return
				}
			}
		}
	}
}

// taken is records on their way to the application.
type taken struct {
	part       *part
	item       *item // that they are from
	generation uint32
	records    []Record
	through    int64 // position after the last of them
	epoch      int32
}

// returned notes that the first n records have been returned.
func (p *part) returned(t *taken, n int) {
	if n == 0 {
		return
	}
	position, epoch := t.records[n-1].Offset+1, t.records[n-1].LeaderEpoch
	if n == len(t.records) {
		position, epoch = t.through, t.epoch
	}
	if position > p.position { // else another Poll was faster
		p.position, p.positionEpoch = position, epoch
	}
}

// handOut notes that record i is returned; false when its place has been left meanwhile.
func (k *Consumer) handOut(t *taken, i int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.part.generation != t.generation {
		return false
	}
	t.part.returned(t, i+1)
	return true
}

// putBack makes records from i on the next ones again.
func (k *Consumer) putBack(t *taken, i int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := t.part
	if p.generation != t.generation || i == len(t.records) {
		return
	}
	rest := &item{decoded: t.records[i:], through: t.through, epoch: t.epoch}
	k.reuse.keep(t.item, rest)
	p.items = append([]*item{rest}, p.items...)
	p.list()
}

// poll takes the next records of the partition whose turn it is.
func (k *Consumer) poll(ctx context.Context) (taken, error) {
	select {
	case <-k.polling:
	case <-ctx.Done():
		return taken{}, ctx.Err()
	}
	defer func() { k.polling <- struct{}{} }()
	k.mu.Lock()
	k.reuse.recycle()
	k.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return taken{}, err
		}
		k.mu.Lock()
		if k.closed {
			k.mu.Unlock()
			return taken{}, ErrClosed
		}
		p := k.turn()
		if p == nil {
			end := k.config.stopAtEnd && k.atEnd()
			some := k.some
			k.mu.Unlock()
			if end {
				return taken{}, ErrEndOfLog
			}
			select {
			case <-some:
			case <-ctx.Done():
			}
			continue
		}
		i := p.items[0]
		if i.err != nil {
			p.pop()
			if !i.err.Stopped {
				p.position = i.err.Next
			}
			k.signal()
			k.mu.Unlock()
			return taken{}, i.err
		}
		t := taken{part: p, item: i, generation: p.generation}
		from, end := p.position, p.end
		if len(i.decoded) == 0 && (i.slab == nil || k.reuse == nil) {
			i.slab = k.reuse.slab() // without reuse the records that lie in the last one are the application's
		}
		k.mu.Unlock()
		// Decompressing takes its time: neither connections nor other calls wait for it. Nobody else reads this item, for
		// only one polls, and whoever discards it forgets it.
		bad := i.decode(p, from, end, k.config.pollRecords, k.config.recordBytesMax)
		k.mu.Lock()
		if p.generation != t.generation {
			k.mu.Unlock()
			continue
		}
		if p.items[0] != i {
			p.list() // a loop that was left early has put records back before these
			k.mu.Unlock()
			continue
		}
		if bad != nil && len(i.decoded) == 0 {
			p.damaged(bad.base, bad.next, bad.err)
			k.mu.Unlock()
			continue
		}
		p.refetches = 0
		n := min(len(i.decoded), k.config.pollRecords)
		t.records, i.decoded = i.decoded[:n:n], i.decoded[n:]
		t.through, t.epoch = i.through, i.epoch
		if len(i.decoded) > 0 {
			t.through, t.epoch = i.decoded[0].Offset, t.records[n-1].LeaderEpoch
		} else if len(i.raw) == 0 {
			p.pop()
			k.reuse.finished(i)
		}
		if n == 0 {
			p.position = t.through // batches that compaction has emptied
			k.signal()
		}
		p.list()
		k.mu.Unlock()
		if n > 0 {
			return t, nil
		}
	}
}

// turn is the partition that has waited longest to return something; nil when none has.
func (k *Consumer) turn() *part {
	for len(k.ready) > 0 {
		p := k.ready[0]
		k.ready[0] = nil
		k.ready = k.ready[1:]
		p.listed = false
		if len(p.items) > 0 && !p.paused && !p.removed {
			return p
		}
	}
	return nil
}

// pop drops the first item, and puts the partition back in line.
func (p *part) pop() {
	p.free(p.items[0])
	p.items[0] = nil
	p.items = p.items[1:]
	p.list()
}

// atEnd reports whether every partition has been returned to its end. Partitions that have stopped are at theirs.
func (k *Consumer) atEnd() bool {
	for _, p := range k.parts {
		if !p.stopped && !p.ended && p.position < p.end || len(p.items) > 0 {
			return false
		}
	}
	return true
}

// badBatch is a batch that does not hold together.
type badBatch struct {
	base, next int64
	err        error
}

// decode unpacks batches until there are enough records. Those before from and behind end are left out. With a bad batch
// it stops before it.
func (i *item) decode(p *part, from, end int64, enough, bytesMax int) *badBatch {
	if len(i.decoded) > 0 || len(i.raw) == 0 {
		return nil
	}
	// One allocation for all records of a turn, at most.
	count := 0
	for rest := i.raw; len(rest) > 0 && count < enough; {
		b, after, err := proto.NextBatch(rest)
		if err != nil {
			break
		}
		count += int(b.Count())
		rest = after
	}
	records := i.slab.begin(count)
	for len(i.raw) > 0 && (len(records) < enough || len(records) == 0) {
		b, rest, err := proto.NextBatch(i.raw)
		if err != nil {
			i.decoded = records
			return &badBatch{from, from, err}
		}
		it := i.slab.iterator(b)
		before := len(records)
		err = b.ValidateCRC()
		if err == nil {
			err = it.Reset(b, bytesMax)
		}
		leaderEpoch, timestampType := b.LeaderEpoch(), b.TimestampType()
		for err == nil && it.Next() {
			r := it.Record()
			if r.Offset < from || end >= 0 && r.Offset >= end {
				continue
			}
			records = append(records, Record{
				Topic: p.topic, Partition: p.number, Offset: r.Offset, LeaderEpoch: leaderEpoch,
				Timestamp: time.UnixMilli(r.Timestamp), TimestampType: timestampType, Key: r.Key, Value: r.Value, Headers: i.slab.takeHeaders(r.Headers),
			})
		}
		if err == nil {
			err = it.Err()
		}
		if err != nil {
			i.decoded = records[:before]
			return &badBatch{max(from, b.BaseOffset()), b.NextOffset(), err}
		}
		i.raw = rest
		i.through, i.epoch = b.NextOffset(), leaderEpoch
	}
	i.slab.records = records
	i.decoded = records
	return nil
}
