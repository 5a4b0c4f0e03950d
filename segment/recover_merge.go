package segment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// Which of the frames that were found make the log, and what is damage, what a torn tail.

// merge decides which frames make the log.
func (r *recovery) merge() error {
	l := r.log
	base := l.index
	for _, f := range r.found.frames {
		r.frames = append(r.frames, located{replayFrame: f})
	}
	live := r.frames[:0]
	for _, f := range r.frames {
		if f.index > base && !r.found.dead(f.index, f.generation) {
			live = append(live, f)
		} else if f.index > base && f.segment != nil {
			r.tail[f.segment] = true
		}
	}
	r.frames = live
	if !slices.IsSortedFunc(r.frames, compareLocated) {
		slices.SortStableFunc(r.frames, compareLocated)
	}
	if err := r.plausible(); err != nil {
		return err
	}
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
		if f.base != next {
			return fmt.Errorf("%w: index %d begins at offset %d, the frame before it ends at %d", ErrFrameNonsense, f.index, f.base, next)
		}
		if f.segment != nil {
			for j := i + 1; j < len(r.frames) && r.frames[j].index == f.index; j++ {
				f.copied = f.copied || r.frames[j].segment == nil
			}
		}
		r.accepted = append(r.accepted, *f)
		expected, next = f.index+1, f.next()
	}
	if n := len(r.frames); r.unread != nil && (expected < r.unreadTo || n > 0 && r.frames[n-1].index >= expected && expected > r.durable) {
		// What the device does not give now looks like what was never written, and would be cut.
		return fmt.Errorf("the end of the log may hold acknowledged records and cannot be read; start again, and if that does not help, copy the data folder to a disk that can be read: %w", r.unread)
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

// compareLocated orders frames by index, and of one index those first that win.
func compareLocated(a, b located) int {
	switch {
	case a.index != b.index:
		return cmp.Compare(a.index, b.index)
	case a.generation != b.generation:
		return cmp.Compare(b.generation, a.generation)
	case a.bad != b.bad:
		return first(!a.bad)
	case a.segment != nil && b.segment != nil:
		// A later segment was begun because the earlier one had failed, at its durable
		// point: what stands behind that may be in a cache alone.
		return cmp.Compare(b.segment.header.Segment, a.segment.header.Segment)
	case (a.segment != nil) != (b.segment != nil):
		return first(a.segment != nil)
	}
	return 0
}

func first(a bool) int {
	if a {
		return -1
	}
	return 1
}

// plausible refuses numbers that no log reaches. They have good checksums, so some
// program wrote them; arithmetic on them would wrap.
func (r *recovery) plausible() error {
	for i := range r.frames {
		if f := &r.frames[i]; f.index > indexMax || f.base < 0 || f.base > offsetMax {
			return fmt.Errorf("%w: index %d at offset %d", ErrFrameNonsense, f.index, f.base)
		}
	}
	l := r.log
	if r.durable > indexMax || l.index > indexMax || r.durableNext < 0 || r.durableNext > offsetMax || l.end < 0 || l.end > offsetMax {
		return fmt.Errorf("%w: index %d, offset %d are called durable, a state stands for %d, %d", ErrFrameNonsense, r.durable, r.durableNext, l.index, l.end)
	}
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
	r.store.noteDamage(l, d, damageOfLog)
}

// handOn replays the frames to the owner and builds the indexes on the way.
func (r *recovery) handOn() error {
	s, l := r.store, r.log
	source := &s.replay.source
	defer source.segments.close() // it is about to be cut, or written to
	for i := range r.accepted {
		f := &r.accepted[i]
		if !f.known {
			h, raw, err := source.frame(f)
			if err != nil {
				return err
			}
			if err := f.learn(&h, raw[FrameHeaderBytes:]); err != nil {
				return fmt.Errorf("index %d: %w", h.Index, err)
			}
			s.replay.excerpt = l.owner.Excerpt(s.replay.excerpt[:0], &h, raw[FrameHeaderBytes:])
			f.excerpt = s.replay.excerpt
		}
		h := FrameHeader{
			Kind: f.kind, Partition: l.id.Partition, Index: f.index, Term: f.term, Generation: f.generation,
			BaseOffset: f.base, Span: f.span, Bytes: f.bytes, AppendTime: f.appendTime,
		}
		l.epochs.Add(h.Term, h.Index, h.BaseOffset)
		l.term = max(l.term, h.Term)
		l.generation = max(l.generation, h.Generation)
		l.appendLast = max(l.appendLast, h.AppendTime)
		l.start = max(l.start, f.logStart)
		if g := f.segment; g != nil {
			if g.index == nil {
				g.index = NewIndex(g.header.BaseOffset, g.header.BaseIndex)
				g.indexFrom = FileHeaderBytes
				if r.state != nil && r.state.Segment == g.header.Segment {
					g.indexFrom = r.state.Position
				}
			}
			g.index.Add(&h, f.position, f.most)
			g.appendLast = max(g.appendLast, h.AppendTime)
			g.lastIndex, g.next = h.Index, h.Next()
		}
		l.owner.Replay(&h, f.excerpt)
		f.excerpt = nil
		l.stateBytes += FrameHeaderBytes + int64(h.Bytes)
	}
	r.excerpts = nil
	s.stats.RecoveredFrames += uint64(len(r.accepted))
	s.stats.RecoveredBytes += uint64(l.stateBytes)
	return nil
}

// frameSource reads frames back from where they were located. It keeps its windows
// from log to log: the journal holds the frames of many partitions side by side.
type frameSource struct {
	store    *Store
	journal  sourceFile
	segments sourceFile
	file     uint32 // the number of a journal file, and its name
	name     string
	window   *scanWindow // that holds the frame of the last call; nil: its file could not be opened, or is not needed
}

// sourceFile is an open file and the window over it.
type sourceFile struct {
	window scanWindow
	file   core.File
	path   string
}

func (x *frameSource) init(s *Store) { x.store = s }

func (x *frameSource) close() {
	x.journal.close()
	x.segments.close()
}

func (y *sourceFile) close() {
	if y.file != nil {
		y.file.Close()
		y.file, y.path = nil, ""
	}
}

// open makes the file ready to be read. Its content must not change while it is open.
func (y *sourceFile) open(files core.FS, name string) error {
	if name == y.path && y.file != nil {
		return nil
	}
	y.close()
	file, err := files.OpenRead(name)
	if err != nil {
		return err
	}
	size, err := file.Size()
	if err != nil {
		file.Close()
		return err
	}
	y.file, y.path = file, name
	y.window.reset(file, size)
	y.window.sparse()
	return nil
}

// frame is a frame's header and all of it, verified. The bytes are good until the next call.
func (x *frameSource) frame(f *located) (FrameHeader, []byte, error) {
	x.window = nil
	if f.raw != nil {
		h, _, err := ParseFrame(f.raw)
		return h, f.raw, err
	}
	y, name := &x.journal, f.held
	if f.segment != nil {
		y, name = &x.segments, f.segment.path
	} else if name == "" {
		if x.file != f.file || x.name == "" {
			x.file, x.name = f.file, JournalPath(x.store.folder.layout, x.store.shard, f.file)
		}
		name = x.name
	}
	if err := y.open(x.store.ports.FS, name); err != nil {
		return FrameHeader{}, nil, err
	}
	x.window = &y.window
	b := y.window.view(f.position, FrameHeaderBytes+int(f.bytes))
	if f.mended && len(b) >= FrameHeaderBytes {
		if _, err := ParseFrameHeader(b); err != nil {
			mendHeader(b, 8, frameHeaderCRC) // in the window, so that copies of the frame are whole
		}
	}
	h, _, err := ParseFrame(b)
	if err != nil && y.window.unreadable > 0 {
		// It was whole a moment before. The next try opens the file anew.
		defer y.close()
		return h, nil, fmt.Errorf("%s at %d: %w: %w", name, f.position, ErrUnreadable, y.window.err)
	}
	if err != nil {
		return h, nil, fmt.Errorf("%s at %d: %w", name, f.position, err)
	}
	return h, b, nil
}
