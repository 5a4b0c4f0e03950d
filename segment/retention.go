package segment

import "github.com/pulsemq/pulsemq/core"

// retain removes old segments of a log, by size and by age. Segments go from the
// oldest on, never the active one, and only when a later state can start the log.
// The log start moves first, durably.
func (s *Store) retain(l *Log) {
	if len(l.segments) < 2 || l.openNeeded && l.index == 0 {
		return
	}
	if len(l.trims) == 0 {
		if start := s.retainUpTo(l); start > l.start {
			if s.Trim(l, start) != nil {
				return
			}
		}
	}
	s.removeTrimmed(l)
}

// retainUpTo is where the log should start. By size it counts records alone, so that groups
// which commit often do not shorten what they can read; but what their cursors take beyond
// as much again counts too, for the disk has a bound.
func (s *Store) retainUpTo(l *Log) core.Offset {
	start, most := l.start, l.options.RetentionBytes
	if l.options.Compact {
		return start
	}
	size := int64(0) // of the segments from g on, and in it that of their cursors
	for _, g := range l.segments {
		size += g.bytes()
	}
	cursors, counted, known := int64(0), false, false
	for i, g := range l.segments[:len(l.segments)-1] {
		next := l.segments[i+1].header.BaseOffset
		if next <= l.start { // about to go, or waiting for a state
			size -= g.bytes()
			continue
		}
		tooLarge := false
		if left := size - g.bytes(); most >= 0 && left >= most {
			if !counted {
				cursors, known = s.cursorBytes(l.segments[i:])
				counted = true
			}
			tooLarge = left-most >= most || known && left-(cursors-g.cursors()) >= most
		}
		tooOld := l.options.RetentionNanos >= 0 && !s.clockJumped && g.appendLast != 0 && s.wall-g.appendLast > l.options.RetentionNanos
		if g.appendLast == 0 && l.options.RetentionNanos >= 0 && !tooLarge {
			s.loadIndex(g, indexLearner{g}) // its age is told by its verified frames
		}
		if !tooLarge && !tooOld || !l.restorable(i) {
			break
		}
		start = next
		size, cursors = size-g.bytes(), cursors-g.cursors()
	}
	return start
}

// bytes is what the segment holds.
func (g *segment) bytes() int64 { return g.position - FileHeaderBytes }

// cursors is what cursor frames take of it, when that is known.
func (g *segment) cursors() int64 {
	if g.indexWhole() {
		return g.index.CursorBytes
	}
	return g.cursorBytes
}

// cursorBytes adds up what cursors take in segments. Those whose index is not at hand are
// asked for it, and the next look may know.
func (s *Store) cursorBytes(segments []*segment) (bytes int64, known bool) {
	known = true
	for _, g := range segments {
		if !g.learned && !g.indexWhole() {
			known = false
			s.loadIndex(g, indexLearner{g})
			continue
		}
		bytes += g.cursors()
	}
	return bytes, known
}

// indexLearner takes a segment's age from its index.
type indexLearner struct{ segment *segment }

func (w indexLearner) indexLoaded(err error) {
	if err == nil && w.segment.index != nil {
		w.segment.appendLast = w.segment.index.AppendTimeLast
	}
}

// restorable says whether the log could start without its first n+1 segments: a
// state in a later one was synced and read back, or found valid at the start.
func (l *Log) restorable(n int) bool {
	for _, g := range l.segments[n+1:] {
		if g.statePoint != 0 && g.stateVerified {
			return true
		}
	}
	return false
}

// removeTrimmed removes the segments that lie before the log start.
func (s *Store) removeTrimmed(l *Log) {
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].header.BaseOffset <= l.start && l.restorable(n) {
		if g := l.segments[n]; g.lastIndex > l.sealed.Index || g.users > 0 && g == l.active() {
			break
		}
		n++
	}
	if n == 0 {
		return
	}
	for _, g := range l.segments[:n] {
		s.stats.Retained++
		s.dropChunksOf(l, g)
		s.removeSegment(g)
	}
	l.segments = append(l.segments[:0], l.segments[n:]...)
	l.forgetDamage()
	l.epochs.Trim(l.start)
}

// dropChunksOf takes a removed segment's chunks out of memory.
func (s *Store) dropChunksOf(l *Log, g *segment) {
	for l.chunks.len() > 0 {
		c := l.chunks.at(0)
		if c.segment != g || c.state != chunkSealed {
			return
		}
		s.dropFirstChunk(l, c)
	}
}
