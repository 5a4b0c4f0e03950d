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

// retainUpTo is where the log should start.
func (s *Store) retainUpTo(l *Log) core.Offset {
	start := l.start
	if l.options.Compact {
		return start
	}
	size := l.SizeBytes()
	for i, g := range l.segments[:len(l.segments)-1] {
		next := l.segments[i+1].header.BaseOffset
		bytes := g.position - FileHeaderBytes
		if next <= l.start { // about to go, or waiting for a state
			size -= bytes
			continue
		}
		tooLarge := l.options.RetentionBytes >= 0 && size-bytes >= l.options.RetentionBytes
		tooOld := l.options.RetentionNanos >= 0 && !s.clockJumped && g.appendLast != 0 && s.wall-g.appendLast > l.options.RetentionNanos
		if g.appendLast == 0 && l.options.RetentionNanos >= 0 && !tooLarge {
			s.loadIndex(g, ageWaiter{g}) // its age is told by its verified frames
		}
		if !tooLarge && !tooOld || !l.restorable(i) {
			break
		}
		start = next
		size -= bytes
	}
	return start
}

// ageWaiter takes a segment's age from its index.
type ageWaiter struct{ segment *segment }

func (w ageWaiter) indexLoaded(err error) {
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
