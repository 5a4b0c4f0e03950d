package segment

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// What only the journal holds of a recovered log, and its points.

// loadTail takes into memory what only the journal holds; it goes to the segment
// later, as copies, like any tail. More than a tail's worth is written at once.
func (r *recovery) loadTail() error {
	s, l := r.store, r.log
	source := &s.replay.source
	defer source.segments.close()
	if hole := r.findHole(); hole >= 0 {
		return r.rewrite(source, hole)
	}
	end, index := l.end, l.index
	for i := range r.accepted {
		f := &r.accepted[i]
		if f.segment != nil {
			continue
		}
		if f.index <= l.sealed.Index {
			// The segment has lost it and what follows is already behind it.
			r.damage(f.index, f.index+1, f.base, f.next())
			continue
		}
		_, raw, err := source.frame(f)
		if err != nil {
			return err
		}
		l.index, l.end = f.index-1, f.base
		c := s.tailChunk(l, len(raw))
		if c == nil {
			if err := s.flushNow(l); err != nil {
				return err
			}
			if c = s.tailChunk(l, len(raw)); c == nil {
				return fmt.Errorf("no memory for %d bytes that only the journal holds", len(raw))
			}
		}
		at := c.used
		copy(c.slab.Bytes[at:], raw)
		if c.empty() {
			c.firstIndex, c.base = f.index, f.base
		}
		c.notePoint(f.base, at)
		c.maxTimestamp = max(c.maxTimestamp, f.most)
		c.used, c.lastIndex, c.next = at+len(raw), f.index, f.next()
		l.index, l.end = f.index, f.next()
		if l.dirtyBytes+int64(c.used-c.start) >= s.options.FlushBytes {
			if err := s.flushNow(l); err != nil && !errors.Is(err, core.ErrDiskFull) {
				return err
			}
		}
	}
	l.end, l.index = end, index
	return nil
}

// finish sets the log's points, and opens a new term and generation unless the
// last stop was clean.
func (r *recovery) finish() error {
	s, l := r.store, r.log
	l.placed = l.index
	l.written, l.durable = l.end, l.end
	l.writtenIndex, l.durableIndex = l.index, l.index
	l.start = min(l.start, l.end)
	l.term = max(l.term, r.found.checkpoint.Term, 1)
	l.generation = max(l.generation, 1)
	l.generationStart = 1
	for _, g := range r.found.generations {
		l.term = max(l.term, g.term)
		if g.generation >= l.generation {
			l.generation, l.generationStart = g.generation, g.start
		}
	}
	if !s.replay.clean && (l.index > 0 || len(r.found.generations) > 0) {
		if l.term >= core.TermMax || l.generation == ^core.Generation(0) {
			return fmt.Errorf("%w: term %d of at most %d, generation %d", ErrTermsSpent, l.term, core.TermMax, l.generation)
		}
		l.term++
		l.generation++
		l.generationStart = l.index + 1
		l.openNeeded = true
	}
	if l.index == 0 {
		l.openNeeded = true
	}
	s.touchReplayed(l, r.found)
	if l.chunks.len() > 0 || len(l.segments) > 0 {
		s.activate(l)
	}
	return nil
}

// touchReplayed tells the journal's files that they hold records of the log.
func (s *Store) touchReplayed(l *Log, p *replayed) {
	for _, file := range s.journal.live {
		t := journalTouch{log: l}
		held := false
		for i := range p.frames {
			if f := &p.frames[i]; f.file == file.number {
				t.last = max(t.last, f.index)
				t.bytes += int64(f.bytes) + FrameHeaderBytes
				held = true
			}
		}
		for _, number := range p.records {
			held = held || number == file.number
		}
		t.last = min(t.last, l.index)
		if held {
			l.journalFile, l.journalTouch = file, len(file.touches)
			file.touches = append(file.touches, t)
		}
	}
}
