package queue

// bridgeMax is how many records that others have may lie between records of one delivery: reading over a few is cheaper
// than one more delivery.
const bridgeMax = 16

// Range is some records one after the other.
type Range struct{ Base, Next int64 }

func addRange(list []Range, o int64) []Range {
	if n := len(list); n > 0 && list[n-1].Next == o {
		list[n-1].Next++
		return list
	}
	return append(list, Range{o, o + 1})
}

// Wish says what a delivery may take.
type Wish struct {
	Records     int    // at most
	End         int64  // of what members may see
	WindowMax   int    // records between low and high; what is there stays when it is less
	AttemptsMax uint16 // deliveries of a record; 0 without a limit
}

// Span is what was claimed: Records records in [Base, Next), those whose claim is Tag.
type Span struct {
	Base, Next int64
	Records    int
	Tag        uint32
}

// fits says whether a record behind high may be claimed.
func (w *Window) fits(wish *Wish) bool {
	return w.high < wish.End && int(w.high-w.low) < wish.WindowMax
}

// Claimable says whether Claim finds something.
func (w *Window) Claimable(wish *Wish) bool { return w.readyCount > 0 || w.fits(wish) }

// Claim takes the lowest records that can be leased, redelivered ones and new ones, as far as one read reaches. Those whose
// attempts are used up are not among them: they are appended to spent, for the caller to end.
func (w *Window) Claim(wish *Wish, spent []Range) (Span, []Range) {
	w.tags++
	s := Span{Base: -1, Tag: w.tags}
	w.first = w.nextReady(w.first)
	for o := w.first; s.Records < wish.Records; {
		if o = w.nextReady(o); o == w.high {
			if !w.fits(wish) {
				break
			}
			if s.Records > 0 && o-s.Next > bridgeMax {
				break
			}
			w.reach(w.high + 1)
		}
		if o >= wish.End { // a raised durability hides what was leased before
			break
		}
		if s.Records > 0 && o-s.Next > bridgeMax {
			break
		}
		r := w.at(o)
		if wish.AttemptsMax > 0 && r.attempts >= wish.AttemptsMax {
			w.set(o, r, r.state, closing, false)
			spent = addRange(spent, o)
		} else {
			r.tag = s.Tag
			w.set(o, r, r.state, claimed, false)
			if s.Records == 0 {
				s.Base = o
			}
			s.Records++
			s.Next = o + 1
		}
		o++
	}
	return s, spent
}

// Claimed is the next run of a claim's records in [from, next) that were delivered equally often; base is next when there
// is none.
func (w *Window) Claimed(tag uint32, from, next int64) (base, end int64, attempts uint16) {
	from, next = max(from, w.low), min(next, w.high)
	for ; from < next; from++ {
		if r := w.at(from); r.mark == claimed && r.tag == tag {
			attempts = r.attempts
			for end = from + 1; end < next; end++ {
				if r := w.at(end); r.mark != claimed || r.tag != tag || r.attempts != attempts {
					break
				}
			}
			return from, end, attempts
		}
	}
	return next, next, 0
}

// Alike is up to where records from an offset on were delivered equally often, and how often.
func (w *Window) Alike(from, next int64) (end int64, attempts uint16) {
	if from = max(from, w.low); from >= min(next, w.high) {
		return next, 0
	}
	attempts = w.at(from).attempts
	for end = from + 1; end < min(next, w.high) && w.at(end).attempts == attempts; end++ {
	}
	return end, attempts
}

// Unclaim gives the records of a claim in [base, next) back, and returns how many there were.
func (w *Window) Unclaim(tag uint32, base, next int64) (records int) {
	next = min(next, w.high)
	for o := max(base, w.low); o < next; o++ {
		if r := w.at(o); r.mark == claimed && r.tag == tag {
			w.set(o, r, r.state, free, true)
			records++
		}
	}
	return records
}

// Close says that an op for the records of a claim in [base, next) is on its way, and returns how many there are.
func (w *Window) Close(tag uint32, base, next int64) (records int) {
	next = min(next, w.high)
	for o := max(base, w.low); o < next; o++ {
		if r := w.at(o); r.mark == claimed && r.tag == tag {
			w.set(o, r, r.state, closing, false)
			records++
		}
	}
	return records
}

// Grant leases the records of a claim in [base, next), whose count is stored, to a holder until the deadline, nanoseconds
// of the monotonic clock. It returns how many there were: fewer when the log was trimmed meanwhile.
func (w *Window) Grant(tag uint32, base, next int64, holder uint32, deadline int64) (records int) {
	next = min(next, w.high)
	for o := max(base, w.low); o < next; o++ {
		if r := w.at(o); r.mark == claimed && r.tag == tag {
			r.tag, r.at = holder, deadline
			w.set(o, r, Available, leased, false)
			records++
		}
	}
	if records > 0 {
		w.leaseDue = min(w.leaseDue, deadline)
	}
	return records
}
