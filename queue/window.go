package queue

import (
	"math"
	"math/bits"

	"github.com/pulsemq/pulsemq/core"
)

// State is where a record stands. It is durable.
type State uint8

const (
	// Available: it can be leased, unless it is marked.
	Available State = iota
	// Delayed: it is available from a time on.
	Delayed
	// Settled: it is done.
	Settled
	// Dying: it is on its way to the dead-letter topic.
	Dying
	// Dead: nobody gets it any more.
	Dead

	states
)

// mark is what is going on with a record. It is lost with the process.
type mark uint8

const (
	free     mark = iota
	claimed       // for a delivery whose count is not on disk yet; tag says which
	leased        // to the holder that tag names, until at
	settling      // leased, and what becomes of it is on its way to the disk
	closing       // not leased, and what becomes of it is on its way to the disk

	marks
)

// record is one record of a window: 16 bytes, because there are many.
type record struct {
	// at is, of a record that is leased or settling: when its lease is over, nanoseconds of
	// the monotonic clock. Else by the state: until when it is delayed, milliseconds, or the
	// number of its burial.
	at       int64
	tag      uint32 // of a claim, of a holder, or of why it died in causes
	attempts uint16
	state    State
	mark     mark
}

// ringMin is the smallest ring, and a word of the bitmap.
const ringMin = 64

// Window is how a group stands in a partition.
//
// Invariants: low <= high; the record at low is not settled; ready has a bit for each record that
// can be leased now, and for nothing else; first is not above the lowest of them; counts are
// those of the records in [low, high).
type Window struct {
	low, high int64
	ring      []record // by offset modulo its length, a power of two
	ready     []uint64 // bits, by the same
	first     int64

	readyCount int
	byState    [states]int
	byMark     [marks]int
	waiting    int // delayed, and their time has not come

	identity uint64
	burials  uint64 // that have been numbered
	dying    core.Queue[int64]
	causes   causes

	tags     uint32 // of claims
	leaseDue int64  // no lease ends before; monotonic
	delayDue int64  // no delay ends before; milliseconds
}

// never is a time that does not come.
const never = math.MaxInt64

// New is an empty window.
func New(low int64, identity uint64) *Window {
	return &Window{low: low, high: low, first: low, identity: identity, leaseDue: never, delayDue: never}
}

// Low is the offset below which everything is settled, High that from which on nothing was leased.
func (w *Window) Low() int64 { return w.low }

// High is the offset from which on nothing was ever leased.
func (w *Window) High() int64 { return w.high }

// Records is how many records there are between.
func (w *Window) Records() int { return int(w.high - w.low) }

// Ready is how many records of the window can be leased now.
func (w *Window) Ready() int { return w.readyCount }

// Leased is how many are with members, or on their way to them or from them.
func (w *Window) Leased() int { return w.byMark[claimed] + w.byMark[leased] + w.byMark[settling] }

// Holders are those that have records leased.
func (w *Window) Holders() map[uint32]struct{} {
	holders := make(map[uint32]struct{})
	for o := w.low; o < w.high; o++ {
		if r := w.at(o); r.mark == leased || r.mark == settling {
			holders[r.tag] = struct{}{}
		}
	}
	return holders
}

// Delayed is how many wait for their time.
func (w *Window) Delayed() int { return w.waiting }

// Dead is how many stay, dead.
func (w *Window) Dead() int { return w.byState[Dead] }

// Dying is how many are on the way to the dead-letter topic.
func (w *Window) Dying() int { return w.byState[Dying] }

// Identity tells the window from one that was forgotten before it.
func (w *Window) Identity() uint64 { return w.identity }

func (w *Window) at(offset int64) *record { return &w.ring[int(offset)&(len(w.ring)-1)] }

// set is the only way in which a record changes its state, its mark or its readiness.
func (w *Window) set(offset int64, r *record, s State, m mark, ready bool) {
	delayed := r.state == Delayed && r.mark == free
	w.byState[r.state]--
	w.byState[s]++
	w.byMark[r.mark]--
	w.byMark[m]++
	r.state, r.mark = s, m
	slot := uint64(offset) & uint64(len(w.ring)-1)
	bit := uint64(1) << (slot % 64)
	was := w.ready[slot/64]&bit != 0
	if delayed && !was {
		w.waiting--
	}
	if s == Delayed && m == free && !ready {
		w.waiting++
	}
	switch {
	case ready && !was:
		w.ready[slot/64] |= bit
		w.readyCount++
		w.first = min(w.first, offset)
	case !ready && was:
		w.ready[slot/64] &^= bit
		w.readyCount--
	}
}

// nextReady is the lowest offset from which on that can be leased; high when there is none.
func (w *Window) nextReady(offset int64) int64 {
	for offset < w.high {
		slot := uint64(offset) & uint64(len(w.ring)-1)
		if word := w.ready[slot/64] >> (slot % 64); word != 0 {
			// A ring that is full holds the window's begin behind its end in one word.
			return min(offset+int64(bits.TrailingZeros64(word)), w.high)
		}
		offset += 64 - int64(slot%64)
	}
	return w.high
}

// reach makes the window hold the records up to next.
func (w *Window) reach(next int64) {
	w.grow(int(next - w.low))
	for ; w.high < next; w.high++ {
		r := w.at(w.high)
		*r = record{}
		w.byState[Available]++
		w.byMark[free]++
		w.set(w.high, r, Available, free, true)
	}
}

// grow gives the ring room for so many records.
func (w *Window) grow(records int) {
	if records <= len(w.ring) {
		return
	}
	size := max(ringMin, len(w.ring))
	for size < records {
		size *= 2
	}
	was := *w
	w.ring, w.ready = make([]record, size), make([]uint64, size/64)
	for o := w.low; o < w.high; o++ {
		*w.at(o) = *was.at(o)
		from, to := uint64(o)&uint64(len(was.ring)-1), uint64(o)&uint64(size-1)
		w.ready[to/64] |= was.ready[from/64] >> (from % 64) & 1 << (to % 64)
	}
}

// Rest gives back memory that an empty window does not need.
func (w *Window) Rest() {
	if w.low == w.high {
		w.ring, w.ready = nil, nil
	}
}

// advance moves low over what is settled.
func (w *Window) advance() {
	for w.low < w.high {
		r := w.at(w.low)
		if r.state != Settled {
			break
		}
		w.byState[Settled]--
		w.byMark[free]--
		w.low++
	}
	w.first = max(w.first, w.low)
}

// Apply lets a stored op take effect. room is how many bytes of text may be kept of why records died; what does not fit is
// left out.
func (w *Window) Apply(op *Op, room int) {
	base, next := max(op.Base, w.low), op.Next
	if op.Kind == Settle && op.Base <= w.low && next > w.high {
		w.pass(next)
		return
	}
	next = min(next, w.low+core.QueueWindowMax)
	if base >= next || op.Kind == Begin {
		return
	}
	w.reach(max(next, w.high))
	for o := base; o < next; o++ {
		r := w.at(o)
		if r.state == Settled {
			continue
		}
		switch op.Kind {
		case Lease:
			w.lease(o, r, op.Attempts)
		case Settle:
			w.causes.drop(r)
			w.set(o, r, Settled, free, false)
		case Retry:
			w.retry(o, r, op)
		case Die:
			if r.state != Dying && r.state != Dead {
				room -= w.die(r, op, room)
				r.at = int64(w.burials)
				w.burials++
				w.set(o, r, Dying, free, false)
				w.dying.Push(o)
			}
		case Bury:
			room -= w.die(r, op, room)
			r.at = 0
			w.set(o, r, Dead, free, false)
		}
	}
	if op.Kind == Settle && base == w.low {
		w.advance()
	}
}

// lease counts a delivery. The mark of a claim stays: the delivery follows.
func (w *Window) lease(o int64, r *record, attempts uint16) {
	if r.state == Dying || r.state == Dead {
		return
	}
	r.attempts = attempts
	if r.mark == free {
		w.set(o, r, Available, free, true)
	} else {
		w.set(o, r, Available, r.mark, false)
	}
}

func (w *Window) retry(o int64, r *record, op *Op) {
	if r.state == Dying || r.state == Dead {
		return
	}
	r.attempts, r.at, r.tag = op.Attempts, op.Time, 0
	if op.Time == 0 {
		w.set(o, r, Available, free, true)
		return
	}
	w.set(o, r, Delayed, free, false)
	w.delayDue = min(w.delayDue, op.Time)
}

// die keeps why a record died, and returns how many bytes that takes.
func (w *Window) die(r *record, op *Op, room int) int {
	w.causes.drop(r)
	text := op.Text
	if len(text) > room {
		text = ""
	}
	r.tag = w.causes.add(op.Reason, text)
	return len(text)
}

// pass settles everything up to next, which is behind the window.
func (w *Window) pass(next int64) {
	for o := w.low; o < w.high; o++ {
		r := w.at(o)
		w.causes.drop(r)
		w.set(o, r, Settled, free, false)
	}
	w.advance()
	w.low, w.high, w.first = next, next, next
	w.dying = core.Queue[int64]{} // after a Reset the same offsets may die again
}

// Truncate forgets records that the log has lost. Nothing durable is known of them.
func (w *Window) Truncate(next int64) {
	for w.high > max(next, w.low) {
		w.high--
		r := w.at(w.high)
		w.causes.drop(r)
		w.set(w.high, r, Available, free, false)
		w.byState[Available]--
		w.byMark[free]--
	}
	w.first = min(w.first, w.high)
}

// Reset begins the window anew at an offset, also an earlier one. The numbers of burials go on: those of the window before
// may still be under way.
func (w *Window) Reset(offset int64) {
	w.pass(max(offset, w.high+1))
	w.low, w.high, w.first = offset, offset, offset
	w.leaseDue, w.delayDue = never, never
}

// TextBytes is what the window keeps of what members said of dead records.
func (w *Window) TextBytes() int { return w.causes.bytes }

// Clone is a window of its own, without marks.
func (w *Window) Clone() *Window {
	c := New(w.low, w.identity)
	c.burials = w.burials
	c.reach(w.high)
	for o := w.low; o < w.high; o++ {
		c.put(o, w.durable(o))
	}
	for i := range w.dying.Len() {
		c.dying.Push(*w.dying.At(i))
	}
	return c
}
