package segment

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// scrubBytesPerSecondDefault is what a shard spends on reading sealed segments again.
	scrubBytesPerSecondDefault = 4 << 20
	// scrubStretchBytes is about how much one job reads.
	scrubStretchBytes = 1 << 20
	// scrubLogsMax bounds how many logs one Tick looks at for the next segment.
	scrubLogsMax = 64
)

// scrubber reads what is sealed of all logs of a store again, within a budget of
// bytes per second: in passes over the logs by ascending id, which begin at least
// ScrubNanos apart, and before that the logs that somebody asked for. Between
// passes it costs nothing. Where a pass is, survives a restart (scrub_place.go).
//
// Invariants: passBegan != 0 while a pass is under way; current is held as a
// reader; asked holds the logs with verifyAsked, in the order in which they came.
type scrubber struct {
	ids   []core.PartitionID // of all logs, ascending from Start on; dropped ones leave when met
	asked []core.PartitionID

	pass       scrubCursor
	passBegan  int64 // wall clock
	passLeft   int64 // bytes that were sealed when it began and have not been read; an estimate
	endedBegan int64 // wall clock when the last pass that ended began; 0 none

	ask scrubCursor

	current *segment
	end     SealedPoint // up to where it is read
	from    SealedPoint // where the next stretch begins; zero: at its first frame
	forAsk  bool        // current belongs to ask, else to pass
	running bool
	budget  ScrubBudget
	job     Scrub // of the stretch that runs; what it has of memory lasts for a pass

	savedAt  int64 // monotonic
	saveBusy bool
}

// scrubCursor is a place among the segments of logs.
type scrubCursor struct {
	id     core.PartitionID // whose turn it is
	index  core.Index       // of that log, the segments that begin below it have been read
	began  int64            // wall clock when the log's turn began; 0 not yet
	failed bool             // a segment of it could not be read now
}

// Verify asks for everything sealed of a log to be read again now, ahead of the
// passes, within the same budget. Asking again while it is under way changes nothing.
func (s *Store) Verify(l *Log) {
	if l.verifyAsked || l.state == logDropped || s.stopping {
		return
	}
	l.verifyAsked = true
	s.scrubber.asked = append(s.scrubber.asked, l.id.Partition)
}

// Verification says how far a log has been read again.
type Verification struct {
	// Since is a wall clock: all that was sealed then has been read again after it. 0: unknown.
	Since int64
	// Asked says that Verify was called and that it has not ended yet.
	Asked bool
	// SealedBytes is what there is to read.
	SealedBytes int64
}

// Verification says how far the log has been read again.
func (l *Log) Verification() Verification {
	return Verification{Since: max(l.verifiedAt, l.store.scrubber.endedBegan), Asked: l.verifyAsked, SealedBytes: l.sealedBytes()}
}

// sealedBytes is what scrubbing reads of a log.
func (l *Log) sealedBytes() (n int64) {
	for _, g := range l.segments {
		if end, ok := l.scrubEnd(g); ok {
			n += end.Position - FileHeaderBytes
		}
	}
	return n
}

// scrubEnd is up to where a segment may be read again: what is not synced yet may
// still change.
func (l *Log) scrubEnd(g *segment) (SealedPoint, bool) {
	end := g.end()
	if g == l.active() || g.lastIndex > l.sealed.Index {
		if l.sealed.Segment != g.header.Segment {
			return end, false
		}
		end = l.sealed
	}
	return end, !g.removing && !g.empty() && end.Position > FileHeaderBytes
}

// scrubLeft estimates what the pass under way has still to read.
func (s *Store) scrubLeft() int64 {
	if s.scrubber.passBegan == 0 {
		return 0
	}
	return max(s.scrubber.passLeft, 0)
}

// scrubTick begins the next stretch when there is one and the budget has room for it.
func (s *Store) scrubTick() {
	c := &s.scrubber
	if c.running || s.stopping {
		return
	}
	if c.current != nil && (c.current.removing || c.current.log.state == logDropped) {
		s.scrubRelease() // its removal waits for this reader
	}
	if c.current == nil && len(c.asked) == 0 && c.passBegan == 0 && !s.scrubBegin() {
		if c.job.Ended != nil {
			c.job = Scrub{}
		}
		return
	}
	c.budget.BytesPerSecond, c.budget.StretchBytes = s.options.ScrubBytesPerSecond, scrubStretchBytes
	if c.budget.Take(s.mono) == 0 {
		return
	}
	for range scrubLogsMax {
		if c.current != nil || s.scrubChoose() {
			s.scrubStretch()
			return
		}
		if len(c.asked) == 0 && c.passBegan == 0 {
			return
		}
	}
}

// scrubBegin begins a pass when it is time for one. A clock that went back is no
// reason to wait for it.
func (s *Store) scrubBegin() bool {
	c := &s.scrubber
	wait := s.options.ScrubNanos
	if wait < 0 || len(c.ids) == 0 || c.endedBegan != 0 && s.wall >= c.endedBegan && s.wall-c.endedBegan < wait {
		return false
	}
	c.pass, c.passBegan, c.passLeft = scrubCursor{}, s.wall, 0
	for _, l := range s.logs {
		c.passLeft += l.sealedBytes()
	}
	return true
}

// scrubChoose takes the next segment to read. False: a log or the pass has ended,
// and there may be more.
func (s *Store) scrubChoose() bool {
	c := &s.scrubber
	if len(c.asked) > 0 {
		l := s.logs[c.asked[0]]
		if l != nil && s.scrubSegment(l, &c.ask) {
			c.forAsk = true
			return true
		}
		if l != nil {
			l.verifyAsked = false
			s.scrubbed(l, &c.ask)
		}
		c.asked = c.asked[1:]
		c.ask = scrubCursor{}
		return false
	}
	if c.passBegan == 0 {
		return false
	}
	i, _ := slices.BinarySearch(c.ids, c.pass.id)
	if i == len(c.ids) {
		c.endedBegan, c.passBegan, c.pass = c.passBegan, 0, scrubCursor{}
		s.stats.ScrubPasses++
		s.scrubSave(true)
		return false
	}
	l := s.logs[c.ids[i]]
	if l == nil {
		c.ids = slices.Delete(c.ids, i, i+1)
		return false
	}
	if c.pass.id != l.id.Partition {
		c.pass = scrubCursor{id: l.id.Partition}
	}
	if s.scrubSegment(l, &c.pass) {
		c.forAsk = false
		return true
	}
	s.scrubbed(l, &c.pass)
	c.pass = scrubCursor{id: l.id.Partition + 1}
	return false
}

// scrubSegment finds the next segment of a log behind a cursor. Segments that
// compaction puts in meanwhile begin where the first of those they replace began.
func (s *Store) scrubSegment(l *Log, at *scrubCursor) bool {
	if at.began == 0 {
		at.began = s.wall
	}
	for _, g := range l.segments {
		if g.header.BaseIndex < at.index {
			continue
		}
		if end, ok := l.scrubEnd(g); ok {
			c := &s.scrubber
			c.current, c.end, c.from = g, end, SealedPoint{}
			at.index = g.header.BaseIndex + 1
			g.readers++
			return true
		}
	}
	return false
}

// scrubbed takes note that the last segment of a log has been read.
func (s *Store) scrubbed(l *Log, at *scrubCursor) {
	if !at.failed {
		l.verifiedAt = max(l.verifiedAt, at.began)
	}
}

// scrubStretch has a worker read on in the current segment.
func (s *Store) scrubStretch() {
	c := &s.scrubber
	g := c.current
	j := &c.job
	*j = Scrub{Files: s.ports.FS, Path: g.path, Header: g.header, From: c.from, End: c.end,
		Indexed: g != g.log.active(), Anchors: j.Anchors[:0], BytesMax: scrubStretchBytes, Ended: j.Ended, scanner: j.scanner}
	if j.Ended == nil {
		j.Ended = s.scrubEnded
	}
	if g == g.log.active() && g.index != nil {
		j.Anchors = slices.Grow(j.Anchors, len(g.index.Entries))
		for i := range g.index.Entries {
			j.Anchors = append(j.Anchors, g.index.Entries[i].Position)
		}
	}
	c.running = s.ports.Workers.Submit(j)
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
	if !c.forAsk {
		c.passLeft -= j.BytesRead
	}
	if !g.removing && g.log.state != logDropped {
		s.scrubFound(g, j)
	}
	c.from = j.Next
	if j.Finished || g.removing || s.stopping || g.log.state == logDropped {
		s.scrubRelease()
	}
	s.scrubSave(false)
}

// scrubFound tells what is damaged, and has made again what can be.
func (s *Store) scrubFound(g *segment, j *Scrub) {
	l, c := g.log, &s.scrubber
	if len(j.Holes) == 0 && j.Err == nil {
		l.forgetUnreadable(j.Path, j.From.Index+1, j.Next.Index+1)
	}
	news, records := s.noteHoles(l, j.Path, j.Holes, damageOfSegment)
	s.stats.ScrubRecords += uint64(records)
	s.stats.ScrubFiles += uint64(news - records)
	if j.HeaderErr != nil {
		if s.noteBlemish(l, j.Path, 0, j.HeaderErr, damageOfHeader) {
			s.stats.ScrubFiles++
		}
		if j.HeaderMended {
			l.forgetBlemish(j.Path)
		}
	}
	switch {
	case j.Err == nil:
	case errors.Is(j.Err, fs.ErrNotExist):
		if s.noteDamage(l, DamageRange{Start: g.header.BaseOffset, Next: c.end.NextOffset, IndexFirst: g.header.BaseIndex,
			IndexNext: c.end.Index + 1, File: j.Path, Cause: j.Err}, damageOfSegment) {
			s.stats.ScrubRecords++
		}
	case errors.Is(j.Err, ErrFileForeign) || errors.Is(j.Err, ErrFrameUnknown):
		if s.noteBlemish(l, j.Path, 0, j.Err, damageOfSegment) {
			s.stats.ScrubFiles++
		}
	default: // such as no file descriptor left: it says nothing about the segment
		at := &c.pass
		if c.forAsk {
			at = &c.ask
		}
		at.failed = true
		s.log.Warn("a sealed segment could not be read again", "file", j.Path, "error", j.Err)
	}
	if j.IndexErr != nil {
		if s.noteBlemish(l, g.stem()+IndexExtension, 0, j.IndexErr, damageOfIndex) {
			s.stats.ScrubIndexes++
		}
		if g.readers == 1 && g.indexJob == nil && g != l.active() { // the one reader is the scrubber
			s.dropIndex(g)
			s.loadIndex(g, indexRemade{g})
		}
	}
	if j.StateErr != nil {
		if s.noteBlemish(l, g.stem()+StateExtension, 0, j.StateErr, damageOfState) {
			s.stats.ScrubStates++
		}
		// Nothing may be removed in trust on it, and a new one is wanted.
		g.statePoint, g.stateVerified = 0, false
		l.stateBytes = max(l.stateBytes, s.options.StateBytes)
		s.activate(l)
	}
}

// indexRemade forgets the damage of an index once its file is whole again.
type indexRemade struct{ segment *segment }

func (w indexRemade) indexLoaded(err error) {
	if err == nil {
		w.segment.log.forgetBlemish(w.segment.stem() + IndexExtension)
	}
}
