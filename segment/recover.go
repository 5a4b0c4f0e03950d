package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// located is a frame found by recovery, and where.
type located struct {
	replayFrame
	segment *segment // nil: in the journal file
	copied  bool     // the journal has it too: nothing says that the segment was synced since

	// What the scan of its segment took along, so that it is not read again: known.
	known      bool
	most       int64       // the greatest of its timestamps
	appendTime int64       // wall clock
	logStart   core.Offset // that it sets, 0 none
	excerpt    []byte      // what its owner needs of it
}

const (
	// indexMax and offsetMax are far above what any log reaches, and far from where sums wrap.
	indexMax  core.Index  = 1 << 62
	offsetMax core.Offset = 1 << 62
)

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
	tail     map[*segment]bool  // segments with bytes behind their last frame
	scanned  map[*segment]int64 // where their last frame ends; behind it there are zeros, or a tail
	unread   error              // why the device did not give some blocks of a segment
	unreadTo core.Index         // frames below may stand in such blocks behind a segment's last frame
	excerpts []byte             // of the frames
	accepted []located
	unsynced map[string]bool // files whose content is only known to the system yet

	err            error // of look
	headersWritten int   // damaged headers of segments that were written anew
}

// excerptBytesMax bounds what a scan takes along of a log's frames: many logs are
// opened together. What is beyond it is read again.
const excerptBytesMax = 1 << 20

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
	if !s.replay.clean && len(l.segments) > 0 {
		// A process may have ended between a file's new name and the sync of the folder. What is sealed in that file
		// from now on, and freed elsewhere, would go with the name.
		if err := s.ports.FS.SyncDir(dir); err != nil {
			return err
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
		if segmentsOverlap(&l.segments[i-1].header, &l.segments[i].header) {
			return fmt.Errorf("%w: %s and %s overlap", ErrFileForeign, l.segments[i-1].path, l.segments[i].path)
		}
	}
	for i, g := range l.segments[:max(0, len(l.segments)-1)] {
		after := &l.segments[i+1].header
		g.lastIndex, g.next = after.BaseIndex-1, after.BaseOffset
	}
	return nil
}

// segmentsOverlap says whether a segment claims frames of the next one, by base
// index, in a way that no run of this broker leaves behind. Numbers rise with base
// indexes: a later segment never begins at an earlier index, unless compaction made
// it. A file in between with a higher number would cut off the frames of the one
// before and put its own in their place.
func segmentsOverlap(a, b *FileHeader) bool {
	return a.Segment == b.Segment || a.BaseOffset > b.BaseOffset || a.Segment > b.Segment && a.ReplacesNext == 0
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
	g.position, g.allocated = max(alignUp(size), FileHeaderBytes), alignUp(size)
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
	if readErr != nil && n < int(min(size, int64(cap(b)))) { // the device did not give it: another start may see it whole
		return false, fmt.Errorf("%s: %w", g.path, readErr)
	}
	if len(b) < FileHeaderBytes+2*FrameHeaderBytes || allZero(b[FileHeaderBytes:FileHeaderBytes+2*FrameHeaderBytes]) {
		if !zerosBehind(f, size) {
			return false, fmt.Errorf("%s: %w, and its first write is damaged too, but there is more behind it; nothing says how it belongs to the log", g.path, err)
		}
		s.log.Info("a segment whose creation was cut short is removed", "file", g.path)
		if err := s.ports.FS.Remove(g.path); err != nil {
			return false, err
		}
		return false, s.ports.FS.SyncDir(path.Dir(g.path))
	}
	if h, ok := r.copiedHeader(g); ok {
		g.header = h
	} else {
		mark, markErr := ParseFrameHeader(b[FileHeaderBytes:])
		first, firstErr := ParseFrameHeader(b[FileHeaderBytes+FrameHeaderBytes:])
		if markErr != nil || firstErr != nil || mark.Kind != FrameWriteMark || mark.Partition != g.log.id.Partition || !frameIndexed(first.Kind) {
			return false, fmt.Errorf("%s: %w", g.path, err)
		}
		g.header.Salt = uint64(mark.AppendTime) ^ uint64(markSeal(0, FileHeaderBytes))
		g.header.BaseIndex = first.Index
	}
	s.log.Error(damageOfHeader, "file", g.path, "error", err)
	r.headersWritten++
	g.header.Put(b)
	if _, err := f.WriteAt(b[:FileHeaderBytes], 0); err != nil {
		return false, err
	}
	return true, f.Sync()
}

// copiedHeader is a segment's header as its index or its state has it: both begin
// with a copy, which also knows what a compacted segment stands for.
func (r *recovery) copiedHeader(g *segment) (FileHeader, bool) {
	for _, extension := range []string{IndexExtension, StateExtension} {
		b, err := readFile(r.store.ports.FS, g.stem()+extension, stateFileBytesMax)
		if err != nil || len(b) < FileHeaderBytes {
			continue
		}
		h, err := ParseFileHeader(b[:FileHeaderBytes])
		if err == nil {
			err = checkOwner(&h, &g.header)
		}
		if err == nil && h.BaseOffset == g.header.BaseOffset && h.BaseIndex > 0 {
			h.Kind = FileSegment
			return h, true
		}
	}
	return FileHeader{}, false
}

// zerosBehind says whether a segment's file holds nothing behind its header and its
// first write. A block that cannot be read may hold anything.
func zerosBehind(f core.File, size int64) bool {
	var w scanWindow
	w.reset(f, size)
	for at := int64(FileHeaderBytes); at < size; at += scanWindowBytes {
		if !allZero(w.view(at, scanWindowBytes)) {
			return false
		}
	}
	return w.unreadable == 0
}

// findState chooses the newest valid state that the log still reaches.
func (r *recovery) findState() error {
	s, l := r.store, r.log
	l.start = r.found.checkpoint.LogStart
	want := l.newSegment(0, 0, 0, 0).header
	state, bad, err := LatestValidState(s.ports.FS, l.id.dir(), &want, r.usable)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a folder comes with the first segment
	}
	for _, c := range bad {
		s.log.Warn("a state file is damaged; an older one and the log take its place", "log", l.id.String(), "file", c.Name, "error", c.Err)
	}
	whole := len(l.segments) == 0 || l.segments[0].header.BaseIndex <= 1
	switch {
	case err != nil && !errors.Is(err, ErrStateUnusable):
		return err
	case state == nil && !whole:
		return ErrStateMissing
	case state == nil:
		return nil
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
	return nil
}

// restore hands the state to the owner.
func (r *recovery) restore() error {
	r.store.stats.Damages += uint64(r.headersWritten)
	if r.state == nil {
		return r.log.owner.Restore(nil)
	}
	return r.log.owner.Restore(r.state.Owner)
}

// usable says whether the log can go on from a state. One whose segment is gone, or
// cut short, still says that everything up to it was durable.
func (r *recovery) usable(st *State) bool {
	if r.found.dead(st.Index, st.Generation) {
		return false
	}
	r.noteDurable(st.Index, st.NextOffset)
	g := r.log.segmentNumbered(st.Segment)
	return g != nil && st.Position <= g.position
}

func (l *Log) segmentNumbered(n core.SegmentNumber) *segment {
	for _, g := range l.segments {
		if g.header.Segment == n {
			return g
		}
	}
	return nil
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
	scanner := r.store.replay.scanners.take()
	defer r.store.replay.scanners.give(scanner)
	for i := from; i < len(l.segments); i++ {
		if err := r.scanSegment(scanner, i); err != nil {
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
		if w := &sc.window; w.unreadable > 0 {
			err = fmt.Errorf("%w: %w", ErrUnreadable, w.err)
		}
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
		f := located{segment: g, replayFrame: replayFrame{
			index: h.Index, generation: h.Generation, term: h.Term, base: h.BaseOffset, span: h.Span, bytes: h.Bytes,
			kind: h.Kind, position: sc.Position,
		}}
		r.takeAlong(&f, h, sc.Payload)
		r.frames = append(r.frames, f)
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s: %w", g.path, err)
	}
	if w := &sc.window; w.unreadable > 0 {
		r.unread = fmt.Errorf("%s: %w: %w", g.path, ErrUnreadable, w.err)
		if w.badLast >= sc.End {
			r.unreadTo = end
		}
	}
	r.causes = append(r.causes, sc.Holes...)
	r.scanned[g] = sc.End
	if sc.Torn {
		r.causes = append(r.causes, sc.Tail)
		r.tail[g] = true
	}
	return nil
}

// takeAlong keeps what is needed of a frame that a scan has read, unless that is much.
// One that makes no sense is looked at again if it turns out to be the log's.
func (r *recovery) takeAlong(f *located, h *FrameHeader, payload []byte) {
	if len(r.excerpts) >= excerptBytesMax {
		return
	}
	if f.learn(h, payload) != nil {
		return
	}
	start := len(r.excerpts)
	r.excerpts = r.log.owner.Excerpt(r.excerpts, h, payload)
	f.excerpt = r.excerpts[start:len(r.excerpts):len(r.excerpts)]
	f.known = true
}

// learn notes what recovery itself needs of a frame. Its checksum says what was written,
// not that it makes sense.
func (f *located) learn(h *FrameHeader, payload []byte) error {
	f.most, f.appendTime, f.logStart = TimestampNone, h.AppendTime, 0
	switch h.Kind {
	case FrameData:
		return eachBatch(payload, func(_ int, b proto.Batch) error {
			if b.Count() > 0 {
				f.most = max(f.most, b.MaxTimestamp())
			}
			return nil
		})
	case FrameControl:
		if start, err := ParseLogStart(payload); err == nil {
			f.logStart = start
		}
	}
	return nil
}
