package segment

import (
	"errors"
	"io"

	"github.com/pulsemq/pulsemq/core"
)

// Where the segments of a recovered log end.

// endSegments settles where each segment ends. Behind the end of the last one
// nothing may be left that a later recovery could take for a frame; but what lies
// at or below the durable point is damage, and is never cut.
func (r *recovery) endSegments() error {
	s, l := r.store, r.log
	ends := make(map[*segment]int64)
	newest := make(map[*segment]core.Index)
	inSegments := core.Index(0)
	if r.state != nil {
		g := l.segmentNumbered(r.state.Segment)
		ends[g], newest[g] = r.state.Position, r.state.Index
		if g == l.active() && g.lastIndex < r.state.Index {
			g.lastIndex, g.next = r.state.Index, r.state.NextOffset
		}
		inSegments = r.state.Index
	}
	for i := range r.accepted {
		if f := &r.accepted[i]; f.segment != nil {
			ends[f.segment] = alignUp(f.position + FrameHeaderBytes + int64(f.bytes))
			newest[f.segment] = f.index
			inSegments = max(inSegments, f.index)
		}
	}
	hole := r.findHole()
	if hole >= 0 {
		// The last segment ends before it; what follows is written anew by loadTail.
		g := l.active()
		ends[g], newest[g] = FileHeaderBytes, 0
		g.lastIndex, g.next = g.header.BaseIndex-1, g.header.BaseOffset
		if r.state != nil && r.state.Segment == g.header.Segment {
			ends[g], newest[g] = r.state.Position, r.state.Index
			g.lastIndex, g.next = r.state.Index, r.state.NextOffset
		}
		for i := range r.accepted[:hole] {
			if f := &r.accepted[i]; f.segment == g {
				ends[g] = alignUp(f.position + FrameHeaderBytes + int64(f.bytes))
				newest[g], g.lastIndex, g.next = f.index, f.index, f.next()
			}
		}
	}
	// A segment that begins behind the end of the log was begun for frames that are gone.
	for n := len(l.segments); n > 0 && l.segments[n-1].header.BaseIndex > l.index+1; n-- {
		g := l.segments[n-1]
		s.log.Info("a segment behind the end of its log is removed", "file", g.path)
		if err := s.removeSegmentNow(g); err != nil {
			return err
		}
		l.segments = l.segments[:n-1]
	}
	g := l.active()
	if g == nil {
		return nil
	}
	end, ok := ends[g]
	if !ok {
		end = FileHeaderBytes
		g.lastIndex, g.next = g.header.BaseIndex-1, g.header.BaseOffset
	}
	damagedTail := false
	for _, d := range l.damaged {
		if d.IndexFirst > g.lastIndex && d.IndexFirst > inSegments {
			damagedTail = true
		}
	}
	if hole >= 0 {
		g.position = ends[g]
		s.dropIndex(g)
	} else if damagedTail {
		l.rollWanted = true
		if g.empty() {
			g.position = FileHeaderBytes + core.DiskAlignment
		}
	} else {
		if r.tail[g] || !s.replay.clean {
			// Zeros behind the end are room that the segment has: cutting them off would cost a sync.
			if r.tail[g] || r.scanned[g] > end {
				if err := r.truncate(g, end); err != nil {
					return err
				}
			}
			// What is left of a cut frame in the last block must not be met by those who walk
			// the frames, and the block holds durable bytes that are not written again: the
			// segment ends here.
			torn, err := r.remnant(g)
			if err != nil {
				return err
			}
			l.rollWanted = torn
		}
		g.position = end
	}
	// What was accepted may still lie in a cache of the disk, unless it was known to be
	// sealed: it counts as sealed, and as durable, only when it has been synced now.
	known := r.found.checkpoint.Sealed.Index
	if r.state != nil {
		known = max(known, r.state.Index)
	}
	for _, g := range l.segments {
		if newest[g] > known {
			if err := r.syncAccepted(g); err != nil {
				return err
			}
		} else if newest[g] == 0 && g == l.active() && !s.replay.clean {
			if err := r.syncHeader(g); err != nil {
				return err
			}
		}
		if newest[g] != 0 {
			l.sealed = SealedPoint{Segment: g.header.Segment, Position: g.position, Index: g.lastIndex, NextOffset: g.next}
		}
	}
	if l.sealed.Segment == 0 && len(l.segments) > 1 {
		before := l.segments[len(l.segments)-2]
		l.sealed = before.end()
	}
	return nil
}

// findHole looks for the first frame that the last segment lost and the journal
// still has, with later frames in the segment: writes that were never synced
// survive a power cut in any order. -1: there is none.
func (r *recovery) findHole() int {
	g := r.log.active()
	if g == nil {
		return -1
	}
	hole := -1
	for i := range r.accepted {
		switch f := &r.accepted[i]; {
		case f.segment == nil && hole < 0 && f.index >= g.header.BaseIndex:
			hole = i
		case f.segment == g && hole >= 0:
			return hole
		}
	}
	return -1
}

// remnant says whether something stands between the segment's last frame and the
// end of its block.
func (r *recovery) remnant(g *segment) (bool, error) {
	end := int64(0)
	for i := range r.accepted {
		if f := &r.accepted[i]; f.segment == g {
			end = max(end, f.position+FrameHeaderBytes+int64(f.bytes))
		}
	}
	if end%core.DiskAlignment == 0 {
		return false, nil
	}
	f, err := r.store.ports.FS.OpenRead(g.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, alignUp(end)-end)
	n, err := f.ReadAt(b, end)
	if n < len(b) && err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return !allZero(b[:n]), nil
}

// truncate cuts a segment's file behind its last frame; it is durable once the file is synced.
func (r *recovery) truncate(g *segment, end int64) error {
	f, err := r.store.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size <= end {
		g.allocated = alignUp(size)
		return err
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	g.allocated = end
	r.unsynced[g.path] = true
	return nil
}

// syncAccepted has the frames made durable that were accepted from a segment.
func (r *recovery) syncAccepted(g *segment) error {
	f, err := r.store.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	from, to := int64(0), int64(0)
	for i := range r.accepted {
		a := &r.accepted[i]
		if r.store.replay.clean || a.segment != g || !a.copied && a.index <= r.durable {
			continue
		}
		if a.position > alignUp(to) {
			if err := writeAgain(f, from, to); err != nil {
				return err
			}
			from = a.position
		}
		to = a.position + FrameHeaderBytes + int64(a.bytes)
	}
	r.unsynced[g.path] = true
	return writeAgain(f, from, to)
}

// syncHeader has the header of a segment made durable from which no frame was accepted: the process may have ended
// between its write and its sync. What goes into the file from now on is not synced with it, and a later power cut
// may keep that and drop the header.
func (r *recovery) syncHeader(g *segment) error {
	f, err := r.store.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.unsynced[g.path] = true
	return writeAgain(f, 0, FileHeaderBytes)
}
