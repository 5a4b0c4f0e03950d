package queue

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// A snapshot holds what is durable. Records behind the last one of which anything is known are left out, so that it does not
// tell how far claims have come.
//
//	low varint | identity u64 | burials uvarint | records uvarint | runs until there are so many
//	run  records uvarint | state u8 | attempts uvarint | of delayed ones: time varint | of dying ones: the first
//	     one's number uvarint, the others' follow | of dying and dead ones: reason u8, text: length uvarint, bytes

// durable is a record as a snapshot has it.
type durable struct {
	state    State
	attempts uint16
	at       int64
	reason   Reason
	text     string
}

func (w *Window) durable(offset int64) durable {
	r := w.at(offset)
	d := durable{state: r.state, attempts: r.attempts}
	switch r.state {
	case Settled:
		d.attempts = 0
	case Delayed, Dying:
		d.at = r.at
	}
	d.reason, d.text = w.causes.of(r)
	return d
}

// put is the other way round.
func (w *Window) put(offset int64, d durable) {
	r := w.at(offset)
	r.attempts, r.at = d.attempts, d.at
	if d.state == Dying || d.state == Dead {
		r.tag = w.causes.add(d.reason, d.text)
	}
	if d.state == Delayed {
		w.delayDue = min(w.delayDue, d.at)
	}
	w.set(offset, r, d.state, free, d.state == Available)
}

const (
	// RecordBytes is what a record takes in a snapshot at most, beside its text: when it is a
	// run of its own, of 1, 1, 3, 7, 1 and 2 bytes.
	RecordBytes = 16
	// headBytes is what a window takes beside its records: 10, 8, 7 and 3 bytes.
	headBytes = 28
)

// Bytes is what a snapshot takes at most.
func (w *Window) Bytes() int { return headBytes + RecordBytes*w.Records() + w.causes.bytes }

// AppendSnapshot appends the window to b.
func (w *Window) AppendSnapshot(b []byte) []byte {
	end := w.high
	for end > w.low && w.durable(end-1) == (durable{}) {
		end--
	}
	b = binary.AppendVarint(b, w.low)
	b = binary.BigEndian.AppendUint64(b, w.identity)
	b = binary.AppendUvarint(b, w.burials)
	b = binary.AppendUvarint(b, uint64(end-w.low))
	for o := w.low; o < end; {
		first := w.durable(o)
		base, d := o, first
		for o++; o < end; o++ {
			if d.state == Dying {
				d.at++
			}
			if w.durable(o) != d {
				break
			}
		}
		b = binary.AppendUvarint(b, uint64(o-base))
		b = append(b, byte(first.state))
		b = binary.AppendUvarint(b, uint64(first.attempts))
		switch first.state {
		case Delayed:
			b = binary.AppendVarint(b, first.at)
		case Dying:
			b = binary.AppendUvarint(b, uint64(first.at))
		}
		if first.state == Dying || first.state == Dead {
			b = appendReason(b, first.reason, first.text)
		}
	}
	return b
}

// Restore is the window that AppendSnapshot wrote.
func Restore(b []byte) (*Window, error) {
	r := reader{b: b}
	low := r.varint()
	if low < 0 || low > math.MaxInt64-core.QueueWindowMax {
		r.fail(fmt.Errorf("a low offset of %d", low))
	}
	w := New(low, r.u64())
	w.burials = r.uvarint(timeMax)
	records := r.uvarint(core.QueueWindowMax)
	w.reach(low + int64(records))
	for o := low; o < w.high && r.err == nil; {
		n := int64(r.uvarint(uint64(w.high - o)))
		d := durable{state: State(r.u8()), attempts: uint16(r.uvarint(AttemptsMax))}
		switch d.state {
		case Available, Settled, Dead:
		case Delayed:
			d.at = r.time()
		case Dying:
			d.at = int64(r.uvarint(timeMax))
			if uint64(d.at+n) > w.burials {
				r.fail(fmt.Errorf("a burial of number %d, and there were %d", d.at, w.burials))
			}
		default:
			r.fail(fmt.Errorf("a record in state %d", d.state))
		}
		if d.state == Dying || d.state == Dead {
			d.reason, d.text = r.reason()
		}
		if n == 0 {
			r.fail(fmt.Errorf("a run without records"))
		}
		for ; n > 0 && r.err == nil; n-- {
			if d.state == Settled && o == w.low {
				r.fail(fmt.Errorf("a low offset that is settled"))
				break
			}
			w.put(o, d)
			if d.state == Dying {
				w.dying.Push(o)
				d.at++
			}
			o++
		}
	}
	if len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes behind its end", len(r.b)))
	}
	if r.err != nil {
		return nil, fmt.Errorf("queue state of %d bytes: %w", len(b), r.err)
	}
	w.sortDying()
	return w, nil
}

// sortDying brings burials into the order of their numbers.
func (w *Window) sortDying() {
	offsets := make([]int64, 0, w.dying.Len())
	for w.dying.Len() > 0 {
		offsets = append(offsets, w.dying.Pop())
	}
	slices.SortFunc(offsets, func(a, b int64) int { return cmp.Compare(w.at(a).at, w.at(b).at) })
	for _, o := range offsets {
		w.dying.Push(o)
	}
}
