package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

// located is a frame found by recovery, and where.
type located struct {
	replayFrame
	segment *segment // nil: in the journal file
}

// recovery brings one log back to what its disk holds durably.
//
// The durable point D is the highest index that write marks, checkpoints and the
// state file call durable. A frame that is missing at or below D is damage, and so
// is one that a synced journal group held. Above D the log ends at the first gap:
// that a synced group holds a later frame says nothing about an earlier one, which
// may have been on its way to the segment.
type recovery struct {
	store *Store
	log   *Log
	found *replayed // what the journal says; never nil
	state *State    // nil: from the first frame

	durable     core.Index
	durableNext core.Offset // after the durable frame, when that is known: durableKnown
	known       core.Index  // the index for which durableNext stands

	frames   []located
	causes   []Hole
	tail     map[*segment]bool // segments with bytes behind their last frame
	accepted []located
	bytes    int64
}

// OpenLog recovers the log of an existing partition, or makes an empty one. It
// blocks and must be called before Start. An error means that this partition
// cannot be served; others are not concerned.
func (s *Store) OpenLog(id LogIdentity, o LogOptions, owner LogOwner) (*Log, error) {
	core.Assert(!s.started, "logs are opened before the store starts")
	core.Assert(s.logs[id.Partition] == nil, "a log is opened once")
	l := s.newLog(id, o, owner)
	found := s.replay.partitions[id.Partition]
	if found == nil {
		found = &replayed{}
	}
	r := &recovery{store: s, log: l, found: found, tail: make(map[*segment]bool)}
	if err := r.run(); err != nil {
		delete(s.logs, id.Partition)
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	found.opened = true
	found.frames = nil
	return l, nil
}

func (r *recovery) run() error {
	if r.found.unknown != nil {
		return r.found.unknown
	}
	for _, step := range []func() error{r.listSegments, r.findState, r.scanSegments, r.merge, r.handOn, r.endSegments, r.loadTail, r.finish} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// listSegments finds the log's files and refuses those that do not belong.
func (r *recovery) listSegments() error {
	s, l := r.store, r.log
	dir := l.id.dir()
	entries, err := s.ports.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		entries = nil
	} else if err != nil {
		return err
	}
	l.nextSegment = r.found.checkpoint.Sealed.Segment + 1
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if IsUnfinished(e.Name) {
			if err := s.ports.FS.Remove(name); err != nil {
				return err
			}
			continue
		}
		base, number, extension, ok := ParseSegmentName(e.Name)
		if !ok || extension != LogExtension {
			continue
		}
		l.nextSegment = max(l.nextSegment, number+1)
		g := l.newSegment(number, base, 0, 0)
		keep, err := r.readHeader(g, e.Size)
		if err != nil {
			return err
		}
		if keep {
			g.lastIndex, g.next = g.header.BaseIndex-1, g.header.BaseOffset
			l.segments = append(l.segments, g)
		}
	}
	if err := r.dropSuperseded(); err != nil {
		return err
	}
	// A compacted segment has a higher number than those behind it.
	sort.Slice(l.segments, func(i, j int) bool {
		a, b := &l.segments[i].header, &l.segments[j].header
		if a.BaseIndex != b.BaseIndex {
			return a.BaseIndex < b.BaseIndex
		}
		return a.Segment < b.Segment
	})
	for i := 1; i < len(l.segments); i++ {
		a, b := &l.segments[i-1].header, &l.segments[i].header
		if a.Segment == b.Segment || a.BaseOffset > b.BaseOffset || a.BaseIndex > b.BaseIndex {
			return fmt.Errorf("%w: %s and %s overlap", ErrFileForeign, l.segments[i-1].path, l.segments[i].path)
		}
	}
	for i, g := range l.segments[:max(0, len(l.segments)-1)] {
		after := &l.segments[i+1].header
		g.lastIndex, g.next = after.BaseIndex-1, after.BaseOffset
	}
	return nil
}

// dropSuperseded removes the segments that a compacted one stands for: a crash
// came between its swap and their removal.
func (r *recovery) dropSuperseded() error {
	l := r.log
	headers := make([]FileHeader, len(l.segments))
	for i, g := range l.segments {
		headers[i] = g.header
	}
	var kept []*segment
	for i, out := range SupersededSegments(headers) {
		if !out {
			kept = append(kept, l.segments[i])
			continue
		}
		if err := r.store.removeSegmentNow(l.segments[i]); err != nil {
			return err
		}
	}
	l.segments = kept
	return nil
}

// readHeader checks a segment's header. A file whose creation was cut short holds
// nothing and is removed; a header that was damaged later is written again from
// the first write mark.
func (r *recovery) readHeader(g *segment, size int64) (keep bool, err error) {
	s := r.store
	f, err := s.ports.FS.Open(g.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, FileHeaderBytes+core.DiskAlignment)
	n, readErr := f.ReadAt(b, 0)
	b = b[:n]
	want := g.header
	h, err := ParseFileHeader(b)
	g.position, g.allocated = max(alignUp(size), FileHeaderBytes), size
	if err == nil {
		if h.Kind != FileSegment {
			return false, fmt.Errorf("%w: %s is of kind %d", ErrFileForeign, g.path, h.Kind)
		}
		if err := checkOwner(&h, &want); err != nil {
			return false, fmt.Errorf("%s: %w", g.path, err)
		}
		if h.BaseOffset != want.BaseOffset {
			return false, fmt.Errorf("%w: %s says base offset %d", ErrFileForeign, g.path, h.BaseOffset)
		}
		if h.BaseIndex == 0 {
			return false, fmt.Errorf("%w: %s says base index 0, indexes begin at 1", ErrFileForeign, g.path)
		}
		g.header = h
		return true, nil
	}
	if len(b) < FileHeaderBytes+2*FrameHeaderBytes || allZero(b[FileHeaderBytes:FileHeaderBytes+2*FrameHeaderBytes]) {
		if readErr != nil && n < int(min(size, int64(cap(b)))) {
			return false, fmt.Errorf("%s: %w", g.path, readErr)
		}
		s.log.Info("a segment whose creation was cut short is removed", "file", g.path)
		if err := s.ports.FS.Remove(g.path); err != nil {
			return false, err
		}
		return false, s.ports.FS.SyncDir(path.Dir(g.path))
	}
	mark, markErr := ParseFrameHeader(b[FileHeaderBytes:])
	first, firstErr := ParseFrameHeader(b[FileHeaderBytes+FrameHeaderBytes:])
	if markErr != nil || firstErr != nil || mark.Kind != FrameWriteMark || mark.Partition != g.log.id.Partition || !frameIndexed(first.Kind) {
		return false, fmt.Errorf("%s: %w", g.path, err)
	}
	g.header.Salt = uint64(mark.AppendTime) ^ uint64(markSeal(0, FileHeaderBytes))
	g.header.BaseIndex = first.Index
	s.log.Error("a segment's header was damaged and is written again", "file", g.path, "err", err)
	s.stats.Damages++
	g.header.Put(b)
	if _, err := f.WriteAt(b[:FileHeaderBytes], 0); err != nil {
		return false, err
	}
	return true, f.Sync()
}

// findState chooses the newest valid state that the log still reaches.
func (r *recovery) findState() error {
	s, l := r.store, r.log
	l.start = r.found.checkpoint.LogStart
	if len(l.segments) == 0 {
		return l.owner.Restore(nil)
	}
	want := l.segments[0].header
	state, bad, err := LatestValidState(s.ports.FS, l.id.dir(), &want, r.usable)
	for _, c := range bad {
		s.log.Warn("a state file is damaged; an older one and the log take its place", "log", l.id.String(), "file", c.Name, "err", c.Err)
	}
	whole := l.segments[0].header.BaseIndex <= 1
	switch {
	case err != nil && !errors.Is(err, ErrStateUnusable):
		return err
	case state == nil && !whole:
		return ErrStateMissing
	case state == nil:
		return l.owner.Restore(nil)
	}
	r.state = state
	l.index, l.end = state.Index, state.NextOffset
	l.term, l.generation = state.Term, state.Generation
	l.start = max(l.start, state.LogStart)
	l.epochs = state.Epochs.Clone()
	l.stateIndex = state.Index
	if g := l.segmentNumbered(state.Segment); g != nil {
		g.statePoint, g.stateVerified = state.Index, true
	}
	r.noteDurable(state.Index, state.NextOffset)
	return l.owner.Restore(state.Owner)
}

func (r *recovery) usable(st *State) bool {
	g := r.log.segmentNumbered(st.Segment)
	return g != nil && st.Position <= g.position && !r.dead(st.Index, st.Generation)
}

func (l *Log) segmentNumbered(n core.SegmentNumber) *segment {
	for _, g := range l.segments {
		if g.header.Segment == n {
			return g
		}
	}
	return nil
}

// dead says whether a frame was discarded by a later generation.
func (r *recovery) dead(index core.Index, generation core.Generation) bool {
	for _, g := range r.found.generations {
		if g.generation > generation && index >= g.start {
			return true
		}
	}
	return false
}

func (r *recovery) noteDurable(index core.Index, next core.Offset) {
	r.durable = max(r.durable, index)
	if index >= r.known {
		r.known, r.durableNext = index, next
	}
}

// scanSegments reads the frames behind the state's point.
func (r *recovery) scanSegments() error {
	l := r.log
	p := r.found
	r.noteDurable(p.checkpoint.Sealed.Index, p.checkpoint.Sealed.NextOffset)
	r.durable = max(r.durable, p.checkpoint.Durable)
	from := 0
	if r.state != nil {
		for l.segments[from].header.Segment != r.state.Segment {
			from++
		}
	}
	var sc Scanner
	for i := from; i < len(l.segments); i++ {
		if err := r.scanSegment(&sc, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) scanSegment(sc *Scanner, i int) error {
	l := r.log
	g := l.segments[i]
	end := core.Index(1<<63 - 1)
	if i+1 < len(l.segments) {
		end = l.segments[i+1].header.BaseIndex
	}
	f, err := r.store.ports.FS.OpenRead(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := sc.Open(f, size, &g.header); err != nil {
		return fmt.Errorf("%s: %w", g.path, err)
	}
	if r.state != nil && r.state.Segment == g.header.Segment {
		sc.Seek(r.state.Sealed())
	}
	for sc.Next() {
		h := &sc.Frame
		if h.Kind == FrameWriteMark {
			r.noteDurable(h.Index, h.BaseOffset)
			continue
		}
		if !frameIndexed(h.Kind) || h.Index >= end {
			continue
		}
		if h.Partition != l.id.Partition {
			return fmt.Errorf("%s at %d: %w: partition %d", g.path, sc.Position, ErrFrameForeign, h.Partition)
		}
		r.frames = append(r.frames, located{segment: g, replayFrame: replayFrame{
			index: h.Index, generation: h.Generation, term: h.Term, base: h.BaseOffset, span: h.Span, bytes: h.Bytes,
			kind: h.Kind, position: sc.Position,
		}})
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s: %w", g.path, err)
	}
	r.causes = append(r.causes, sc.Holes...)
	if sc.Torn {
		r.causes = append(r.causes, sc.Tail)
		r.tail[g] = true
	}
	return nil
}

// merge decides which frames make the log.
func (r *recovery) merge() error {
	l := r.log
	base := l.index
	for _, f := range r.found.frames {
		r.frames = append(r.frames, located{replayFrame: f})
	}
	live := r.frames[:0]
	for _, f := range r.frames {
		if f.index > base && !r.dead(f.index, f.generation) {
			live = append(live, f)
		} else if f.index > base && f.segment != nil {
			r.tail[f.segment] = true
		}
	}
	r.frames = live
	sort.SliceStable(r.frames, func(i, j int) bool {
		a, b := &r.frames[i], &r.frames[j]
		switch {
		case a.index != b.index:
			return a.index < b.index
		case a.generation != b.generation:
			return a.generation > b.generation
		case a.bad != b.bad:
			return !a.bad
		}
		return a.segment != nil && b.segment == nil
	})
	next := l.end
	expected := base + 1
	if r.state == nil && len(l.segments) > 0 {
		next = l.segments[0].header.BaseOffset
	}
	last := core.Index(0)
	for i := range r.frames {
		f := &r.frames[i]
		if f.index == last {
			continue // another copy, or an older generation, of one that was decided
		}
		last = f.index
		if f.index > expected {
			// In a damaged journal, what stood before a frame that was synced is taken for lost.
			if expected > r.durable && !(r.store.replay.damages > 0 && f.synced) {
				break
			}
			r.damage(expected, f.index, next, f.base)
			expected, next = f.index, max(next, f.base)
		}
		if f.bad {
			if f.index > r.durable && !f.synced {
				break
			}
			r.damage(expected, f.index+1, next, f.next())
			expected, next = f.index+1, max(next, f.next())
			continue
		}
		r.accepted = append(r.accepted, *f)
		expected, next = f.index+1, f.next()
	}
	if expected <= r.durable {
		offset := next
		if r.known >= r.durable {
			offset = max(next, r.durableNext)
		}
		r.damage(expected, r.durable+1, next, offset)
		expected, next = r.durable+1, offset
	}
	if n := len(r.frames); n > 0 && r.frames[n-1].index >= expected {
		r.cut(expected)
	} else if len(r.tail) > 0 && !r.store.replay.clean {
		r.cut(expected)
	}
	l.index, l.end = expected-1, next
	return nil
}

// cut counts a tail that was never durable and is gone.
func (r *recovery) cut(from core.Index) {
	r.store.stats.TailsCut++
	r.store.log.Info("the torn tail of a log was cut", "log", r.log.id.String(), "index", from)
}

// damage takes note of frames that were durable and are not there.
func (r *recovery) damage(first, next core.Index, start, end core.Offset) {
	l := r.log
	d := DamageRange{Start: start, Next: end, IndexFirst: first, IndexNext: next, Cause: ErrFramePayload}
	for i := range r.causes {
		if h := &r.causes[i]; h.IndexFirst < next && h.IndexNext >= first {
			d.Cause = h.Cause
		}
	}
	l.damaged = append(l.damaged, d)
	r.store.stats.Damages++
	r.store.log.Error("a log is damaged below its durable point", "log", l.id.String(), "offsets", fmt.Sprintf("[%d, %d)", start, end), "cause", d.Cause)
}

// handOn replays the frames to the owner and builds the indexes on the way.
func (r *recovery) handOn() error {
	s, l := r.store, r.log
	var source frameSource
	source.init(s)
	defer source.close()
	for i := range r.accepted {
		f := &r.accepted[i]
		h, payload, err := source.frame(f)
		if err != nil {
			return err
		}
		l.epochs.Add(h.Term, h.Index, h.BaseOffset)
		l.term = max(l.term, h.Term)
		l.generation = max(l.generation, h.Generation)
		l.appendLast = max(l.appendLast, h.AppendTime)
		if h.Kind == FrameControl {
			if start, err := ParseLogStart(payload); err == nil {
				l.start = max(l.start, start)
			}
		}
		if g := f.segment; g != nil {
			if g.index == nil {
				g.index = NewIndex(g.header.BaseOffset, g.header.BaseIndex)
				g.indexFrom = FileHeaderBytes
				if r.state != nil && r.state.Segment == g.header.Segment {
					g.indexFrom = r.state.Position
				}
			}
			t := TimestampNone
			if h.Kind == FrameData {
				t = PayloadMaxTimestamp(payload)
			}
			g.index.Add(&h, f.position, t)
			g.appendLast = max(g.appendLast, h.AppendTime)
			g.lastIndex, g.next = h.Index, h.Next()
		}
		l.owner.Replay(&h, payload)
		l.stateBytes += int64(FrameHeaderBytes + len(payload))
	}
	s.stats.RecoveredBytes += uint64(l.stateBytes)
	return nil
}

// frameSource reads frames back from where they were located.
type frameSource struct {
	store  *Store
	window scanWindow
	file   core.File
	path   string
}

func (x *frameSource) init(s *Store) { x.store = s }

func (x *frameSource) close() {
	if x.file != nil {
		x.file.Close()
		x.file = nil
	}
}

func (x *frameSource) frame(f *located) (FrameHeader, []byte, error) {
	name := ""
	if f.segment != nil {
		name = f.segment.path
	} else {
		name = JournalPath(x.store.folder.layout, x.store.shard, f.file)
	}
	if name != x.path || x.file == nil {
		x.close()
		file, err := x.store.ports.FS.OpenRead(name)
		if err != nil {
			return FrameHeader{}, nil, err
		}
		size, err := file.Size()
		if err != nil {
			file.Close()
			return FrameHeader{}, nil, err
		}
		x.file, x.path = file, name
		x.window.reset(file, size)
	}
	h, payload, err := ParseFrame(x.window.view(f.position, FrameHeaderBytes+int(f.bytes)))
	if err != nil {
		return h, nil, fmt.Errorf("%s at %d: %w", name, f.position, err)
	}
	return h, payload, nil
}

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
			if err := r.truncate(g, end); err != nil {
				return err
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
			if err := syncFile(s.ports.FS, g.path); err != nil {
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

// truncate cuts a segment's file behind its last frame.
func (r *recovery) truncate(g *segment, end int64) error {
	f, err := r.store.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size <= end {
		g.allocated = size
		return err
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	g.allocated = end
	return f.Sync()
}

func syncFile(files core.FS, name string) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// loadTail takes into memory what only the journal holds; it goes to the segment
// later, as copies, like any tail. More than a tail's worth is written at once.
func (r *recovery) loadTail() error {
	s, l := r.store, r.log
	var source frameSource
	source.init(s)
	defer source.close()
	if hole := r.findHole(); hole >= 0 {
		return r.rewrite(&source, hole)
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
		h, payload, err := source.frame(f)
		if err != nil {
			return err
		}
		most := TimestampNone
		if h.Kind == FrameData {
			most = PayloadMaxTimestamp(payload)
		}
		raw := source.window.view(f.position, FrameHeaderBytes+int(f.bytes))
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
		c.maxTimestamp = max(c.maxTimestamp, most)
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
		core.Assert(l.term < core.TermMax, "terms fit a leader epoch")
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
