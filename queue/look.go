package queue

// Burial is a record on its way to the dead-letter topic.
type Burial struct {
	Offset   int64
	Number   uint64 // of the window's burials, without gaps, also over crashes
	Attempts uint16
	Reason   Reason
	Text     string
}

// AppendDying appends the records on their way to the dead-letter topic whose number is not below the one given, in the
// order of their numbers and at most so many.
func (w *Window) AppendDying(list []Burial, number uint64, most int) []Burial {
	w.forgetBuried()
	for i := 0; i < w.dying.Len() && len(list) < most; i++ {
		o := *w.dying.At(i)
		if o < w.low || w.at(o).state != Dying || uint64(w.at(o).at) < number {
			continue
		}
		r := w.at(o)
		reason, text := w.causes.of(r)
		list = append(list, Burial{o, uint64(r.at), r.attempts, reason, text})
	}
	return list
}

func (w *Window) forgetBuried() {
	for w.dying.Len() > 0 {
		if o := *w.dying.Front(); o >= w.low && w.at(o).state == Dying {
			return
		}
		w.dying.Pop()
	}
}

// Look is what is known of one record.
type Look struct {
	Offset   int64
	Attempts uint16
	State    State
	Leased   bool
	Holder   uint32 // of one that is leased
	Lease    int64  // when it is over, nanoseconds of the monotonic clock
	Delay    int64  // of one that is delayed: until when, milliseconds
	Reason   Reason
	Text     string
}

// Blocker is the first record from an offset on that is not settled.
func (w *Window) Blocker(from int64) (Look, bool) {
	for o := max(from, w.low); o < w.high; o++ {
		r := w.at(o)
		if r.state == Settled {
			continue
		}
		l := Look{Offset: o, Attempts: r.attempts, State: r.state, Leased: r.mark == leased || r.mark == settling}
		if l.Leased {
			l.Holder, l.Lease = r.tag, r.at
		} else if r.state == Delayed {
			if l.Delay = r.at; w.nextReady(o) == o {
				l.State, l.Delay = Available, 0 // its time is over, which is counted so too
			}
		}
		l.Reason, l.Text = w.causes.of(r)
		return l, true
	}
	return Look{}, false
}

// Unsettled is how many records below an offset are not settled, those that the window does not hold yet among them.
func (w *Window) Unsettled(below int64) (records int64) {
	for o := w.low; o < min(below, w.high); o++ {
		if w.at(o).state != Settled {
			records++
		}
	}
	return records + max(0, below-w.high)
}
