package segment

import "github.com/pulsemq/pulsemq/core"

const (
	// tickLogsMax bounds how many logs one Tick looks at; it goes round.
	tickLogsMax = 512
	// tickFlushesMax bounds how many idle logs one Tick sends to their segments.
	tickFlushesMax = 8
)

// activate puts a log among those that Tick looks at: it holds memory or files.
func (s *Store) activate(l *Log) {
	if !l.inActiveList {
		l.inActiveList = true
		s.activeList = append(s.activeList, l)
	}
}

// Tick does what time asks for: flush.ms, segment rolls, states, retention, idle
// partitions, the free space. now is the monotonic clock; the wall clock is read
// from the port.
func (s *Store) Tick(now int64) {
	s.mono = now
	s.watchClock(s.ports.Clock.Now(), now)
	s.submitJobs()
	removals := s.kickRemoval
	s.kickRemoval = nil
	for _, g := range removals {
		s.segmentUnused(g)
	}
	s.tickRisk()
	s.watchSpace()
	flushes := 0
	for n := min(len(s.activeList), tickLogsMax); n > 0; n-- {
		if s.activeNext >= len(s.activeList) {
			s.activeNext = 0
		}
		if len(s.activeList) == 0 {
			break
		}
		l := s.activeList[s.activeNext]
		if l.state == logDropped || s.tickLog(l, &flushes) {
			last := len(s.activeList) - 1
			s.activeList[s.activeNext] = s.activeList[last]
			s.activeList[last] = nil
			s.activeList = s.activeList[:last]
			l.inActiveList = false
			continue
		}
		s.activeNext++
	}
	s.submitExtents()
	s.compactTick()
	s.scrubTick()
}

// Quiet says that no Tick is wanted soon: nothing is at risk, waits to be tried again, or
// is worked at bit by bit. What remains is ages, which are counted in seconds and more.
func (s *Store) Quiet() bool {
	c := &s.scrubber
	scrubbing := c.running || c.current != nil || len(c.asked) > 0 || c.passBegan != 0
	waiting := len(s.unsyncedList) + len(s.kickList) + len(s.failedList) + len(s.jobs) + len(s.kickRemoval) + len(s.dropping) + len(s.extents.gathered)
	return waiting == 0 && !scrubbing && !s.compactor.running && !s.compactor.waiting && !s.full && !s.stopping
}

// tickRisk syncs batch and none topics whose time is up, and forgets those
// without anything at risk.
func (s *Store) tickRisk() {
	kept := s.unsyncedList[:0]
	for _, l := range s.unsyncedList {
		if l.pending.count == 0 || l.state == logDropped {
			l.inUnsyncedList = false
			continue
		}
		kept = append(kept, l)
		if l.options.Durability != core.DurabilityNone && s.mono-l.unsyncedSince >= l.options.FlushNanos {
			s.requestSync(l)
		}
	}
	clear(s.unsyncedList[len(kept):])
	s.unsyncedList = kept
}

// journalRolled syncs what none topics wrote directly: they are synced at the
// journal's rotation at the latest.
func (s *Store) journalRolled() {
	for _, l := range s.unsyncedList {
		s.requestSync(l)
	}
}

// tickLog does one log's chores. True: it holds nothing any more.
func (s *Store) tickLog(l *Log, flushes *int) bool {
	if l.state != logServing {
		return false
	}
	if l.retryAt != 0 && l.retryAt <= s.mono {
		l.retryAt = 0
		s.kick(l)
	}
	if g := l.active(); g != nil && !g.empty() && s.wall-g.createdAt >= l.options.SegmentNanos && !s.clockJumped {
		l.rollWanted = true
	}
	if l.stateBytes >= s.options.StateBytes && !l.stateBusy && l.stateRetryAt <= s.mono {
		s.takeSnapshot(l)
	}
	if s.mono >= l.retainAt {
		l.retainAt = s.mono + s.options.RetainNanos
		s.retain(l)
	}
	for _, g := range l.segments[:max(0, len(l.segments)-1)] {
		if g.index != nil && g.indexJob == nil && g.readers == 0 && s.mono-g.indexUsed > indexIdleNanos {
			s.dropIndex(g)
		}
	}
	if s.mono-l.usedAt < s.options.IdleNanos || l.pending.count > 0 {
		return false
	}
	if l.issued < l.chunks.len() || l.lastIssued() > l.sealed.Index {
		if *flushes < tickFlushesMax && !s.full {
			*flushes++
			s.requestFlush(l, l.index)
		}
		return false
	}
	return s.rest(l)
}

// rest gives up what an idle log holds in memory and its files.
func (s *Store) rest(l *Log) bool {
	if l.writer != nil || l.stateBusy || len(l.trims) > 0 {
		return false
	}
	for l.chunks.len() > 0 {
		s.dropFirstChunk(l, l.chunks.at(0))
	}
	l.chunks = chunkDeque{}
	l.pending = pendingRing{}
	s.releaseTail(l)
	l.tailBytes = tailBytesMin
	held := false
	if g := l.active(); g != nil && !s.returnExtent(g) {
		held = true
	}
	for _, g := range l.segments {
		if g.users > 0 || g.indexJob != nil || g.readers > 0 {
			held = true
			continue
		}
		if g.file != 0 && !s.files.close(g) {
			held = true
		}
		if g.index != nil && (g != l.active() || len(g.index.Entries) > idleIndexEntriesMax) {
			s.dropIndex(g)
		}
	}
	return !held && l.options.RetentionNanos < 0 && !l.options.Compact
}

// indexIdleNanos is after how long without use the index of an ended segment is
// forgotten: its file gives it back.
const indexIdleNanos = 30e9

// idleIndexEntriesMax is how large an idle active segment's index may be and stay.
const idleIndexEntriesMax = 16

// dropIndex forgets a segment's index; it is loaded or rebuilt when asked for.
func (s *Store) dropIndex(g *segment) {
	if g.indexWhole() && g != g.log.active() {
		g.learnIndex()
	} else {
		g.learned = false
	}
	g.index = nil
	g.indexFrom = g.position
}

// learnIndex keeps what outlives a whole index.
func (g *segment) learnIndex() {
	g.learned, g.maxTimestamp, g.cursorBytes = true, g.index.MaxTimestamp, g.index.CursorBytes
}
