package netio

const (
	// windowBytesMin is the smallest window that a connection is granted. A single
	// request may be larger than its window when nothing else is unanswered; the
	// arena then decides whether there is room.
	windowBytesMin = 16 << 10

	// windowShare is the part of the budget that one connection may hold at most: an eighth.
	windowShare = 8

	// windowScarceShare: with less than this part free, windows are taken back so
	// that new connections find room.
	windowScarceShare = 8

	// A window is taken back when it is above the fair one by more than a quarter:
	// each change costs two frames, and every new connection moves the fair window a
	// little. What is fair leaves a quarter free, so that windows a quarter above it
	// still leave some.
	windowFairShare  = 4
	windowSlackShare = 4
)

// windowBudget is what the windows of a reactor's connections may add up to.
//
// Invariant: granted <= total.
type windowBudget struct {
	total   int64
	granted int64
	holders int64
}

// grant takes a window for a new connection out of the budget, at most want. It
// returns 0 when not even the smallest is left.
func (b *windowBudget) grant(want int64) int64 {
	free := b.total - b.granted
	window := min(want, b.total/windowShare, free/2)
	if window < windowBytesMin {
		window = windowBytesMin
	}
	if window > free {
		return 0
	}
	b.granted += window
	b.holders++
	return window
}

// change replaces a held window by another.
func (b *windowBudget) change(from, to int64) { b.granted += to - from }

// giveUp returns the window of a connection that is gone.
func (b *windowBudget) giveUp(window int64) {
	if window > 0 {
		b.granted -= window
		b.holders--
	}
}

// fair is the window that every connection could have at the same time, leaving
// a part free, at most want.
func (b *windowBudget) fair(want int64) int64 {
	if b.holders == 0 {
		return want
	}
	usable := b.total - b.total/windowFairShare
	return max(windowBytesMin, min(want, b.total/windowShare, usable/b.holders))
}

// scarce says whether windows have to be taken back.
func (b *windowBudget) scarce() bool { return b.total-b.granted < b.total/windowScarceShare }

// unfair says whether a window is so much above the fair one that it is worth
// taking back.
func unfair(window, fair int64) bool { return window > fair+fair/windowSlackShare }
