package shard

import (
	"math"
	"math/bits"
)

// A shard has one timer wheel for all that waits: fetches, acks, trims, changes.
// It is coarse, so that arming and disarming cost a few pointer writes and a
// partition with ten thousand waiters needs no clock of its own.
const (
	// wheelTickBits makes a tick of 2^22 ns, about 4 ms. A timer ends up to one tick
	// late, never early.
	wheelTickBits = 22
	wheelSlots    = 1024 // one turn of the wheel is about 4 s; longer waits stay for more turns
)

// timer is one wait. It is embedded in what waits.
//
// Invariant: it is in the list of slot due % wheelSlots, or armed is false.
type timer struct {
	previous, next *timer
	due            int64 // tick
	armed          bool
	owner          expirer
}

// expirer is told that its time has passed; its timer is disarmed by then.
type expirer interface{ expire() }

// wheel holds the armed timers. Times are nanoseconds of the monotonic clock.
type wheel struct {
	slots  [wheelSlots]timer // heads of circular lists
	filled [wheelSlots / 64]uint64
	tick   int64 // all ticks up to here have been looked at
	armed  int
}

func (w *wheel) init(now int64) {
	w.tick = now >> wheelTickBits
	for i := range w.slots {
		w.slots[i].previous, w.slots[i].next = &w.slots[i], &w.slots[i]
	}
}

// arm lets t expire at the first advance that is at or after the time given.
func (w *wheel) arm(t *timer, owner expirer, at int64) {
	w.disarm(t)
	t.due = max(at>>wheelTickBits+1, w.tick+1) // rounded up: never early
	t.owner, t.armed = owner, true
	slot := int(t.due & (wheelSlots - 1))
	head := &w.slots[slot]
	t.previous, t.next = head.previous, head
	head.previous.next, head.previous = t, t
	w.filled[slot/64] |= 1 << (slot % 64)
	w.armed++
}

// disarm forgets t; it may be disarmed already.
func (w *wheel) disarm(t *timer) {
	if !t.armed {
		return
	}
	t.previous.next, t.next.previous = t.next, t.previous
	t.previous, t.next, t.armed = nil, nil, false
	w.armed--
	slot := int(t.due & (wheelSlots - 1))
	if head := &w.slots[slot]; head.next == head {
		w.filled[slot/64] &^= 1 << (slot % 64)
	}
}

// passed says whether a timer for that time would have expired by now.
func (w *wheel) passed(at int64) bool { return at>>wheelTickBits < w.tick }

// advance expires what is due, in the order of ticks and of arming.
func (w *wheel) advance(now int64) {
	tick := now >> wheelTickBits
	from := max(w.tick+1, tick-wheelSlots+1) // after a long pause every slot is looked at once
	w.tick = max(w.tick, tick)
	if w.armed == 0 {
		return
	}
	for ; from <= tick; from++ {
		slot := int(from & (wheelSlots - 1))
		if w.filled[slot/64]&(1<<(slot%64)) == 0 {
			continue
		}
		// An owner may arm and disarm others of this slot while it expires. New timers
		// are due later than tick, so the walk starts again after each and ends.
		for again := true; again; {
			again = false
			for t := w.slots[slot].next; t != &w.slots[slot]; t = t.next {
				if t.due <= tick {
					w.disarm(t)
					t.owner.expire()
					again = true
					break
				}
			}
		}
	}
}

// wait is how long after now the next timer can be due, at most limit; it may be
// too short when a timer waits for another turn of the wheel.
func (w *wheel) wait(now, limit int64) int64 {
	if w.armed == 0 {
		return limit
	}
	first := (w.tick + 1) & (wheelSlots - 1)
	distance := int64(math.MaxInt64)
	for i := int64(0); i <= wheelSlots/64; i++ { // the first word is looked at twice: its low part belongs to the end
		word := (first/64 + i) % (wheelSlots / 64)
		filled := w.filled[word]
		if i == 0 {
			filled &= math.MaxUint64 << (first % 64)
		}
		if filled != 0 {
			slot := word*64 + int64(bits.TrailingZeros64(filled))
			distance = (slot - first + wheelSlots) & (wheelSlots - 1)
			break
		}
	}
	at := (w.tick + 1 + distance) << wheelTickBits
	return min(limit, max(0, at-now))
}
