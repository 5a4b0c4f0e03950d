package segment

import "github.com/pulsemq/pulsemq/core"

const (
	// scrubBytesPerSecondDefault is what a shard spends on reading sealed segments again.
	scrubBytesPerSecondDefault = 4 << 20
	// scrubStretchBytes is about how much one job reads.
	scrubStretchBytes = 1 << 20
	// scrubLogsMax bounds how many logs one Tick looks at for the next segment.
	scrubLogsMax = 64
)

// scrubber reads the sealed segments of all logs of a store again and again, in
// the order in which the logs were made, within a budget of bytes per second.
// Where it is, is kept in memory only: a start begins a new round.
type scrubber struct {
	ids     []core.PartitionID // of all logs; those that were dropped leave when met
	next    int                // where the round goes on in ids
	segment core.SegmentNumber // that was read last of that log; 0 none
	from    SealedPoint        // where the next stretch begins; zero: at its first frame
	current *segment           // that is being read, held as a reader
	running bool
	budget  ScrubBudget
}

// scrubTick begins the next stretch when the budget has room for one.
func (s *Store) scrubTick() {
	c := &s.scrubber
	if s.options.ScrubBytesPerSecond < 0 || c.running || s.stopping {
		return
	}
	c.budget.BytesPerSecond, c.budget.StretchBytes = s.options.ScrubBytesPerSecond, scrubStretchBytes
	if c.budget.Take(s.mono) == 0 {
		return
	}
	for range min(len(c.ids), scrubLogsMax) {
		if c.current != nil || s.scrubSegment() {
			s.scrubStretch()
			return
		}
	}
}

// scrubSegment chooses the next segment of the log whose turn it is, or goes on
// to the next log and says false.
func (s *Store) scrubSegment() bool {
	c := &s.scrubber
	if c.next >= len(c.ids) {
		c.next, c.segment = 0, 0
		if len(c.ids) == 0 {
			return false
		}
		s.stats.ScrubRounds++
	}
	l := s.logs[c.ids[c.next]]
	if l == nil {
		c.ids = append(c.ids[:c.next], c.ids[c.next+1:]...)
		c.segment = 0
		return false
	}
	// Segments are met in the log's order. One that compaction put in meanwhile may be
	// read twice or not in this round.
	after := c.segment == 0
	for _, g := range l.segments[:max(len(l.segments)-1, 0)] {
		if after && g.lastIndex <= l.sealed.Index && !g.removing && !g.empty() {
			c.current, c.segment, c.from = g, g.header.Segment, SealedPoint{}
			g.readers++
			return true
		}
		after = after || g.header.Segment == c.segment
	}
	c.next, c.segment = c.next+1, 0
	return false
}

// scrubStretch has a worker read on in the current segment.
func (s *Store) scrubStretch() {
	c := &s.scrubber
	g := c.current
	if g.removing {
		s.scrubRelease()
		return
	}
	c.running = s.ports.Workers.Submit(&Scrub{Files: s.ports.FS, Path: g.path, Header: g.header, From: c.from, End: g.end(),
		BytesMax: scrubStretchBytes, Ended: s.scrubEnded})
}

// scrubRelease lets go of the current segment.
func (s *Store) scrubRelease() {
	g := s.scrubber.current
	s.scrubber.current = nil
	g.readers--
	s.segmentUnused(g)
}

// scrubEnded takes note of what a stretch found.
func (s *Store) scrubEnded(j *Scrub) {
	c := &s.scrubber
	g := c.current
	c.running = false
	c.budget.Spend(j.BytesRead)
	s.stats.ScrubBytes += uint64(max(j.BytesRead, 0))
	if j.Err != nil && !g.removing {
		s.stats.ScrubDamages++
		s.log.Error("a sealed segment cannot be read again", "file", j.Path, "error", j.Err)
	}
	for _, h := range j.Holes {
		s.stats.ScrubDamages++
		s.log.Error("a sealed segment is damaged", "file", j.Path, "hole", h.String())
	}
	s.noteHoles(g.log, j.Holes)
	c.from = j.Next
	if j.Finished || g.removing || s.stopping {
		s.scrubRelease()
	}
}
