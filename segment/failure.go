package segment

import (
	"errors"

	"github.com/pulsemq/pulsemq/core"
)

// fail begins the return of a log to its durable point, after something failed on
// the way to its segment.
func (s *Store) fail(l *Log, err error) {
	if errors.Is(err, core.ErrDiskFull) {
		s.diskFull(err)
	} else {
		s.log.Error("a segment write failed; the partition returns to its durable point", "log", l.id.String(), "error", err)
	}
	if l.state == logDropped {
		return
	}
	l.failure = err
	l.state = logFailing
	if !l.inFailedList {
		l.inFailedList = true
		s.failedList = append(s.failedList, l)
	}
}

// settleFailed returns failed logs to their durable point once nothing of them is
// in flight. What the journal holds is kept: it is synced first.
func (s *Store) settleFailed() {
	kept := s.failedList[:0]
	for _, l := range s.failedList {
		if l.state != logFailing {
			l.inFailedList = false
			continue
		}
		if l.writer != nil || l.inGroups > 0 {
			kept = append(kept, l)
			continue
		}
		if l.inJournalList {
			s.journal.syncWanted = true
			kept = append(kept, l)
			continue
		}
		l.inFailedList = false
		s.rollBack(l)
	}
	clear(s.failedList[len(kept):])
	s.failedList = kept
}

// rollBack forgets every frame behind the durable point and opens a new
// generation and term, unless nothing was lost and nothing was written: a disk that
// stays full does not raise the term with each try. Frames at or below it that the segment does not hold
// durably are in the journal and in memory; they go to a new segment as copies,
// which keep their generation.
func (s *Store) rollBack(l *Log) {
	err, next := l.failure, l.durableIndex+1
	if l.stateBusy && l.chunkWithSnapshot() != nil { // it goes with its chunk's write
		l.stateBusy, l.stateBytes, l.stateRetryAt = false, s.options.StateBytes, s.mono+writerRetryNanos
		l.stopState = false
	}
	lost := l.index >= next
	l.pending.cut(next)
	l.cutTrims(next)
	l.cutChunks(next)
	l.index, l.end = l.durableIndex, l.durable
	l.writtenIndex, l.written = l.durableIndex, l.durable
	l.placed, l.largeBytes, l.placeSync = min(l.placed, l.index), 0, false
	l.reserveIndex = min(l.reserveIndex, l.index)
	l.flushIndex, l.syncIndex = min(l.flushIndex, l.index), min(l.syncIndex, l.index)
	l.unsynced, l.unsyncedSince = 0, 0
	l.epochs.Truncate(next)
	// Nobody knows what the segment holds behind its durable point: nothing, after a
	// failed write, or what is to be written again, when its sync or its opening
	// failed. Going on in it would leave a hole, or frames that are there twice.
	g := l.active()
	ended := g != nil && g.lastIndex > l.sealed.Index
	if lost || ended { // else no index is written twice, and everything goes on as it was
		l.opening, l.openNeeded, l.recordNeeded = 0, true, false
		core.Assert(l.term < core.TermMax, "terms fit a leader epoch")
		l.term++
		l.generation++
		l.generationStart = next
	}
	if ended {
		s.endFailed(l)
	}
	l.failure = nil
	l.retryAt = s.mono + writerRetryNanos
	l.state = logServing
	if lost || !errors.Is(err, core.ErrDiskFull) {
		l.owner.RolledBack(l, l.end, err)
	}
	s.kick(l)
}

// cutChunks forgets frames in memory from an index on, and takes back what was
// handed to the writer and is not durable in the segment.
func (l *Log) cutChunks(next core.Index) {
	s := l.store
	for l.chunks.len() > 0 && l.chunks.last().firstIndex >= next {
		c := l.chunks.last()
		if l.issued == l.chunks.len() {
			l.issued--
		}
		l.chunks.popLast()
		s.chunkFree(c)
	}
	for l.issued > 0 && l.chunks.at(l.issued-1).state != chunkSealed {
		l.issued--
	}
	l.dirtyBytes = 0
	for i := l.issued; i < l.chunks.len(); i++ {
		c := l.chunks.at(i)
		if c.lastIndex >= next {
			c.cut(next)
		}
		s.dropSnapshot(c)
		c.segment, c.position = nil, -1
		// Nothing is added to a chunk that was cut: its memory may lie in a write in flight no
		// more, but what follows belongs to another generation.
		end := int(alignUp(int64(c.used)))
		clear(c.slab.Bytes[c.used:end])
		if c.state == chunkOpen {
			s.cache.add(c, int64(end-c.start))
		}
		c.state = chunkClosed
		l.dirtyBytes += int64(end - c.start)
	}
	s.releaseTail(l)
}

// cut shortens the chunk to the frames before an index.
func (c *chunk) cut(next core.Index) {
	at := c.start + FrameHeaderBytes
	c.lastIndex, c.next = c.firstIndex-1, c.base
	for at < c.used {
		f := readFrameFields(c.slab.Bytes[at:])
		if f.index >= next {
			break
		}
		c.lastIndex, c.next = f.index, f.base+core.Offset(f.span)
		at += FrameHeaderBytes + f.bytes
	}
	c.used, c.frameOpen, c.placedAt = at, false, 0
	c.cutPoints(at)
}

// endFailed ends the active segment at what is durable in it.
func (s *Store) endFailed(l *Log) {
	g := l.active()
	if g == nil {
		return
	}
	if l.sealed.Segment == g.header.Segment {
		g.position, g.lastIndex, g.next = l.sealed.Position, l.sealed.Index, l.sealed.NextOffset
	} else {
		g.position, g.lastIndex, g.next = FileHeaderBytes, g.header.BaseIndex-1, g.header.BaseOffset
	}
	// The index may speak of frames that do not count; it is built again when it is asked for.
	g.index, g.indexFrom, g.learned = nil, 0, false
	s.trails.forget(g)
	if g.empty() {
		l.segments = l.segments[:len(l.segments)-1]
		s.removeSegment(g)
		return
	}
	l.rollWanted = true
}
