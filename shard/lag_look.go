package shard

import (
	"errors"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment"
)

const (
	// lagLooksMax bounds the records in memory that one pass looks at to tell their age,
	// lagReadBytesMax what it reads of others, but for the last one, which may begin a large
	// segment without an index. lagReadingMax bounds how many are read at a time.
	lagLooksMax     = 1_000
	lagReadBytesMax = 32 << 20
	lagReadingMax   = 4
)

// lagLooks ask the log when records were stored, where the marks of a partition leave that in
// doubt: after a start, and where groups are behind by more than the marks reach back. What is
// learned stays a mark, so only offsets that are new are asked for.
type lagLooks struct {
	wanted  []core.Offset // of one partition, used again
	looks   int           // that this pass may still do in memory
	bytes   int64         // and may still read
	reading int           // under way
	from    int           // partitions before this place were served by the pass before
	missed  int           // the first place where something was left for the next pass; -1 none
}

func (l *lagLooks) begin() {
	l.looks, l.bytes, l.missed = lagLooksMax, lagReadBytesMax, -1
}

func (l *lagLooks) end() {
	l.from, l.wanted = max(0, l.missed), nil
}

func (l *lagLooks) want(offset core.Offset) { l.wanted = append(l.wanted, offset) }

// ask looks at what is wanted of the partition at a place, as far as it may.
func (l *lagLooks) ask(p *partition, place int) {
	if place >= l.from && len(l.wanted) > 0 {
		slices.Sort(l.wanted) // they came in no order
		for _, offset := range slices.Compact(l.wanted) {
			if !l.may(p.log.Cost(offset)) {
				if l.missed < 0 {
					l.missed = place
				}
				continue
			}
			l.reading++
			r := &lagRead{partition: p}
			r.read = segment.Read{Log: p.log, Offset: offset, Limit: p.highWatermark(), BytesMax: 1, RecordsMax: 1, Owner: r, Unseen: true}
			if p.machine.store.Read(&r.read) {
				r.ReadDone(&r.read)
			}
		}
	}
	l.wanted = l.wanted[:0]
}

// may takes one look off what the pass may do.
func (l *lagLooks) may(cost int64) bool {
	if cost == 0 {
		l.looks--
		return l.looks >= 0
	}
	if l.bytes <= 0 || l.reading >= lagReadingMax {
		return false
	}
	l.bytes -= cost
	return true
}

// lagRead reads one batch to see when it was stored.
type lagRead struct {
	read      segment.Read
	partition *partition
}

// ReadDone takes down what was read. What cannot be read counts from when it was first seen.
func (l *lagRead) ReadDone(r *segment.Read) {
	p := l.partition
	m := p.machine
	m.lag.looks.reading--
	switch {
	case p.gone || errors.Is(r.Err, segment.ErrStoreBusy):
	case r.Err == nil && r.Bytes > 0 && r.Stored > 0:
		p.cursors.marks.learn(r.Offset, r.Next, m.now-max(0, m.wall-r.Stored), m.now)
	default:
		p.cursors.marks.learn(r.Offset, r.Offset+1, m.now, m.now)
	}
	r.Release()
}
