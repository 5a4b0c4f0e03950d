package fakebroker

import (
	"fmt"

	"github.com/pulsemq/pulsemq/proto"
)

// dedupBatches is how many batches of a producer are remembered.
const dedupBatches = 5

// Log is the records of one partition.
type Log struct {
	Start   int64
	End     int64
	Batches []proto.Batch
	Damage  []proto.DamagedRange

	producers map[int64]*producer
}

// partition is a log with its leader.
type partition struct {
	Log
	leader      uint32
	leaderEpoch int32
	changed     chan struct{} // closed at the next change
}

// producer is what is remembered of a producer.
type producer struct {
	epoch int16
	next  int32 // the sequence expected
	last  []remembered
}

type remembered struct {
	first, last int32
	base        int64
}

func newPartition(leader uint32) *partition {
	return &partition{leader: leader, leaderEpoch: 1, changed: make(chan struct{}), Log: Log{producers: map[int64]*producer{}}}
}

func (p *partition) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// append stores a batch, or finds that it has been stored.
func (p *partition) append(b proto.Batch) (base int64, duplicate bool, refusal *proto.Error) {
	if err := proto.ValidateHeader(b, len(b)); err != nil {
		return 0, false, proto.AsError(err)
	}
	if err := b.ValidateCRC(); err != nil {
		return 0, false, proto.AsError(err)
	}
	if err := b.ValidateRecords(); err != nil {
		return 0, false, proto.AsError(err)
	}
	if id := b.ProducerID(); id != proto.ProducerIDNone {
		known := p.producers[id]
		first := b.BaseSequence()
		switch {
		case known != nil && b.ProducerEpoch() < known.epoch:
			return 0, false, proto.CodeInvalidProducerEpoch.Errorf("epoch %d after %d", b.ProducerEpoch(), known.epoch)
		case known == nil && first != 0:
			return 0, false, proto.CodeUnknownProducer.Errorf("producer %d begins with sequence %d", id, first)
		case known == nil:
			known = &producer{epoch: b.ProducerEpoch()}
			p.producers[id] = known
		}
		for _, r := range known.last {
			if r.first == first && r.last == b.LastSequence() {
				return r.base, true, nil
			}
		}
		if first != known.next {
			if first < known.next {
				return 0, false, proto.CodeDuplicateSequence.Errorf("sequence %d, next is %d", first, known.next)
			}
			return 0, false, proto.CodeOutOfOrderSequence.Errorf("sequence %d, next is %d", first, known.next)
		}
		known.next = proto.SequenceAdd(b.LastSequence(), 1)
		known.last = append(known.last, remembered{first, b.LastSequence(), p.End})
		if len(known.last) > dedupBatches {
			known.last = known.last[1:]
		}
	}
	base = p.End
	p.Append(b, p.leaderEpoch)
	p.wake()
	return base, false, nil
}

// Append stores a batch without looking at its producer.
func (l *Log) Append(b proto.Batch, epoch int32) {
	b = append(proto.Batch(nil), b...)
	b.SetBaseOffset(l.End)
	b.SetLeaderEpoch(epoch)
	l.Batches = append(l.Batches, b)
	l.End = b.NextOffset()
}

// Forget drops everything remembered of producers.
func (l *Log) Forget() { clear(l.producers) }

// Truncate drops the batches from an offset on, as losing power does; what comes next has a higher epoch.
func (l *Log) Truncate(end int64) {
	for i, b := range l.Batches {
		if b.BaseOffset() >= end {
			l.Batches = l.Batches[:i]
			break
		}
	}
	l.End = end
}

// Records decodes everything.
func (l *Log) Records() []proto.Record {
	var all []proto.Record
	for _, b := range l.Batches {
		var it proto.RecordIterator
		for it.Reset(b, 1<<30); it.Next(); {
			r := *it.Record()
			r.Headers = append([]proto.Header(nil), r.Headers...)
			all = append(all, r)
		}
		if it.Err() != nil {
			panic(it.Err())
		}
	}
	return all
}

// read is the batches from an offset on, at least one when there is any.
func (l *Log) read(offset int64, bytesMax int) (batches []proto.Batch, refusal *proto.Error) {
	if offset < l.Start || offset > l.End {
		return nil, &proto.Error{Code: proto.CodeOffsetOutOfRange, Text: fmt.Sprintf("offset %d, there are %d to %d", offset, l.Start, l.End),
			Offsets: &proto.OffsetRange{Earliest: l.Start, Latest: l.End}}
	}
	stop := l.End
	for _, d := range l.Damage {
		if offset >= d.BaseOffset && offset < d.NextOffset {
			return nil, &proto.Error{Code: proto.CodeCorruptRecord, Text: "damaged", Damage: &d}
		}
		if offset < d.BaseOffset {
			stop = min(stop, d.BaseOffset)
		}
	}
	bytes := 0
	for _, b := range l.Batches {
		if b.NextOffset() <= offset {
			continue
		}
		if b.BaseOffset() >= stop || bytes > 0 && bytes+len(b) > bytesMax {
			break
		}
		batches = append(batches, b)
		bytes += len(b)
	}
	return batches, nil
}

// diverged says where a reader's log and this one part; nil when they do not.
func (p *partition) diverged(offset int64, lastEpoch int32) *proto.Error {
	if lastEpoch < 0 {
		return nil
	}
	// The largest epoch here that is not above the reader's, and where it ends.
	epoch, end := int32(-1), p.Start
	for _, b := range p.Batches {
		if b.LeaderEpoch() <= lastEpoch {
			epoch, end = b.LeaderEpoch(), b.NextOffset()
		}
	}
	if epoch < 0 || epoch == lastEpoch && end >= offset {
		return nil
	}
	if end >= offset {
		return nil
	}
	return &proto.Error{Code: proto.CodeLogTruncated, Text: "the log was truncated",
		Truncation: &proto.Truncation{Epoch: epoch, EndOffset: end}}
}
