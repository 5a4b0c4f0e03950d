package segment

import "github.com/pulsemq/pulsemq/core"

// trim is a move of the log start that is on its way to the disk.
type trim struct {
	index core.Index // of its control frame
	start core.Offset
}

// trimsMax bounds the moves of the log start in flight.
const trimsMax = 16

// Trim moves the log start forward to an offset. It is done when the control
// frame that says so is durable: then StartOffset moves and the owner is told by
// Advanced. It works on a full disk: the frame goes to the journal's reserve.
func (s *Store) Trim(l *Log, before core.Offset) error {
	if before > l.end {
		return &RangeError{Offset: before, Start: l.start, End: l.end}
	}
	newest := l.start
	if n := len(l.trims); n > 0 {
		newest = l.trims[n-1].start
	}
	if before <= newest {
		return nil
	}
	if len(l.trims) >= trimsMax {
		return ErrStoreBusy
	}
	var payload [controlLogStartBytes]byte
	if err := s.AppendControl(l, FrameControl, AppendLogStart(payload[:0], before), core.DurabilitySync, true); err != nil {
		return err
	}
	l.trims = append(l.trims, trim{index: l.index, start: before})
	return nil
}

// trimmed applies the moves that have become durable; true when the start moved.
func (l *Log) trimmed() bool {
	n := 0
	for n < len(l.trims) && l.trims[n].index <= l.durableIndex {
		l.start = max(l.start, l.trims[n].start)
		n++
	}
	if n > 0 {
		l.trims = append(l.trims[:0], l.trims[n:]...)
		if len(l.trims) == 0 {
			l.trims = nil
		}
		l.store.activate(l)
	}
	return n > 0
}

// startAt is the log start that the frames up to an index say. It is ahead of
// StartOffset while a move's frame is durable and the owner has not been told.
func (l *Log) startAt(index core.Index) core.Offset {
	start := l.start
	for _, t := range l.trims {
		if t.index <= index {
			start = max(start, t.start)
		}
	}
	return start
}

// cutTrims forgets the moves whose frames were rolled back: other frames get their
// indexes, and what those make durable is no move.
func (l *Log) cutTrims(next core.Index) {
	for n := len(l.trims); n > 0 && l.trims[n-1].index >= next; n-- {
		l.trims = l.trims[:n-1]
	}
}
