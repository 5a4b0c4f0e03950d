package queue

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// Take marks the next run of records in [from, next) that the holder has leased in that attempt: what becomes of them is
// on its way. base is next when there is none.
func (w *Window) Take(holder uint32, attempts uint16, from, next int64) (base, end int64) {
	from, next = max(from, w.low), min(next, w.high)
	for ; from < next; from++ {
		if w.isHeld(from, holder, attempts) {
			for end = from; end < next && w.isHeld(end, holder, attempts); end++ {
				w.set(end, w.at(end), Available, settling, false)
			}
			return from, end
		}
	}
	return next, next
}

func (w *Window) isHeld(o int64, holder uint32, attempts uint16) bool {
	r := w.at(o)
	return r.mark == leased && r.tag == holder && r.attempts == attempts
}

// Extend begins leases anew, and returns how many.
func (w *Window) Extend(holder uint32, attempts uint16, base, next, deadline int64) (records int) {
	next = min(next, w.high)
	for o := max(base, w.low); o < next; o++ {
		if w.isHeld(o, holder, attempts) {
			w.at(o).at = deadline
			records++
		}
	}
	if records > 0 {
		w.leaseDue = min(w.leaseDue, deadline)
	}
	return records
}

// TakeDead marks the next run of dead records in [from, next), that somebody takes out. base is next when there is none.
func (w *Window) TakeDead(from, next int64) (base, end int64) {
	from, next = max(from, w.low), min(next, w.high)
	for ; from < next; from++ {
		if w.isDead(from) {
			for end = from; end < next && w.isDead(end); end++ {
				w.set(end, w.at(end), Dead, closing, false)
			}
			return from, end
		}
	}
	return next, next
}

func (w *Window) isDead(o int64) bool {
	r := w.at(o)
	return r.state == Dead && r.mark == free
}

// Revert says that the op for [base, next) is lost with the log's tail: who had leased the records has them again.
func (w *Window) Revert(base, next int64) {
	next = min(next, w.high)
	for o := max(base, w.low); o < next; o++ {
		switch r := w.at(o); r.mark {
		case settling:
			w.set(o, r, r.state, leased, false)
			w.leaseDue = min(w.leaseDue, r.at)
		case closing:
			w.set(o, r, r.state, free, r.state == Available || r.state == Delayed)
		}
	}
}

// Leave gives back what a holder has leased. Records whose attempts are used up are marked and appended to spent, for the
// caller to end.
func (w *Window) Leave(holder uint32, attemptsMax uint16, spent []Range) []Range {
	if w.byMark[leased] == 0 {
		return spent
	}
	for o := w.low; o < w.high; o++ {
		if r := w.at(o); r.mark == leased && r.tag == holder {
			spent = w.over(o, r, attemptsMax, spent)
		}
	}
	return spent
}

// over ends a lease.
func (w *Window) over(o int64, r *record, attemptsMax uint16, spent []Range) []Range {
	r.at, r.tag = 0, 0
	if attemptsMax > 0 && r.attempts >= attemptsMax {
		w.set(o, r, Available, closing, false)
		return addRange(spent, o)
	}
	w.set(o, r, Available, free, true)
	return spent
}

// delayMax is the longest delay that can be asked for, milliseconds. What waits longer has seen the clock go back.
const delayMax = int64(core.QueueBackoffMax / time.Millisecond)

// Expire ends the leases and the delays that are over; now is nanoseconds of the monotonic clock, wall milliseconds. Records
// whose attempts are used up are marked and appended to spent. It returns how many leases were over.
func (w *Window) Expire(now, wall int64, attemptsMax uint16, spent []Range) (int, []Range) {
	over := 0
	if now < w.leaseDue && wall < w.delayDue {
		return 0, spent
	}
	w.leaseDue, w.delayDue = never, never
	for o := w.low; o < w.high; o++ {
		r := w.at(o)
		switch {
		case r.mark == leased && r.at <= now:
			over++
			spent = w.over(o, r, attemptsMax, spent)
		case r.mark == leased:
			w.leaseDue = min(w.leaseDue, r.at)
		case r.state == Delayed && r.mark == free && (r.at <= wall || r.at-wall > delayMax):
			w.set(o, r, Delayed, free, true)
		case r.state == Delayed && r.mark == free:
			w.delayDue = min(w.delayDue, r.at)
		}
	}
	return over, spent
}

// Started says that a start has found the window: the next Expire looks at every delay, because the clock may have gone back.
func (w *Window) Started() {
	if w.byState[Delayed] > 0 {
		w.delayDue = 0
	}
}

// Due is when Expire may find something: leases by the monotonic clock in nanoseconds, delays by the wall clock in
// milliseconds; math.MaxInt64 when there is nothing to wait for.
func (w *Window) Due() (lease, delay int64) { return w.leaseDue, w.delayDue }
