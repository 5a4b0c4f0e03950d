package segment

import (
	"errors"
	"fmt"
	"path"

	"github.com/pulsemq/pulsemq/core"
)

// recoverWriteBytes is how much a move of old journals gathers for one write.
const recoverWriteBytes = 256 << 10

// flushNow brings a log's chunks to its segment with blocking calls, at start-up:
// when the journal held more of a partition than its tail may keep in memory. A segment
// that does not take a chunk ends, and the next one gets it, as while the store runs.
func (s *Store) flushNow(l *Log) error {
	if c := l.chunks.last(); c != nil && c.state == chunkOpen {
		s.chunkClose(c)
	}
	s.releaseTail(l)
	for l.issued < l.chunks.len() {
		c := l.chunks.at(l.issued)
		g := l.active()
		if g == nil || l.rollWanted && !g.empty() || !g.empty() && g.position+int64(c.bytes()) > l.options.SegmentBytes {
			var err error
			if g, err = s.createSegmentNow(l, c); err != nil {
				return err
			}
		}
		f, err := s.ports.FS.Open(g.path)
		if err != nil {
			return err
		}
		first := g.empty()
		err = s.writeChunkNow(l, f, g, c)
		f.Close()
		if err != nil {
			s.endFailedNow(l, g, err)
			// On a full disk another file would have no room either, and what an empty one
			// does not take, no other would.
			if first || errors.Is(err, core.ErrDiskFull) {
				return err
			}
		}
	}
	for l.chunks.len() > 0 {
		s.dropFirstChunk(l, l.chunks.at(0))
	}
	return nil
}

// endFailedNow is endFailed at start-up, for a segment that did not take a chunk: it
// ends at what it held before. What stands behind that may be a part of the chunk, and
// nobody knows what of it the disk has.
func (s *Store) endFailedNow(l *Log, g *segment, err error) {
	s.log.Warn("a segment did not take what only the journal holds; it ends", "log", l.id.String(), "file", g.path, "bytes", g.position, "error", err)
	s.stats.Failures++
	if g.empty() {
		l.segments = l.segments[:len(l.segments)-1]
		err = s.removeSegmentNow(g)
	} else {
		l.rollWanted = true
		err = s.truncateNow(g)
	}
	if err != nil {
		// Behind the beginning of the next segment nothing in this one counts.
		s.log.Warn("what a failed write has left could not be removed", "file", g.path, "error", err)
	}
}

// truncateNow cuts a segment's file at its end.
func (s *Store) truncateNow(g *segment) error {
	f, err := s.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(g.position); err != nil {
		return err
	}
	g.allocated = g.position
	return nil
}

func (s *Store) createSegmentNow(l *Log, first *chunk) (*segment, error) {
	files, dir := s.ports.FS, l.id.dir()
	g := l.newSegment(l.nextSegment, first.base, first.firstIndex, s.random())
	l.nextSegment++
	if err := files.MakeDir(dir); err != nil {
		return nil, err
	}
	for _, parent := range []string{path.Dir(dir), TopicsDir} {
		if err := files.SyncDir(parent); err != nil {
			return nil, err
		}
	}
	if err := s.headSegmentNow(g); err != nil {
		if e := removeIfThere(files, g.path); e != nil {
			s.log.Warn("a segment that could not be made could not be removed", "file", g.path, "error", e)
		}
		return nil, err
	}
	g.allocated = FileHeaderBytes
	l.segments = append(l.segments, g)
	l.rollWanted = false
	return g, nil
}

// headSegmentNow makes a segment's file, durable with its name.
func (s *Store) headSegmentNow(g *segment) error {
	f, err := s.ports.FS.Create(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := core.HeapSlabs{}.Get(FileHeaderBytes).Bytes
	g.header.Put(b)
	if _, err := f.WriteAt(b[:FileHeaderBytes], 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return s.ports.FS.SyncDir(g.log.id.dir())
}

func (s *Store) writeChunkNow(l *Log, f core.File, g *segment, c *chunk) error {
	mark := WriteMark{
		Partition: l.id.Partition, Durable: c.firstIndex - 1, Next: c.base, Term: l.term, Generation: l.generation,
		Salt: g.header.Salt, Position: g.position,
	}
	mark.Put(c.slab.Bytes[c.start:])
	if _, err := f.WriteAt(c.slab.Bytes[c.start:c.start+c.bytes()], g.position); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	c.segment, c.position = g, g.position
	if g.index == nil && !g.empty() {
		g.indexFrom = g.position
	}
	s.indexChunk(g, c)
	g.position += int64(c.bytes())
	g.allocated = max(g.allocated, g.position)
	g.lastIndex, g.next = c.lastIndex, c.next
	l.dirtyBytes -= int64(c.bytes())
	l.issued++
	c.state = chunkSealed
	l.sealed = g.end()
	s.stats.SegmentWrites++
	s.stats.SegmentBytes += uint64(c.bytes())
	return nil
}

// rewrite copies the frames from a hole of the last segment on to a new one. The
// file appears under its name when it is whole and synced: until then the old
// segment and the journal together hold every frame, afterwards the new one does,
// and what stands in the old one behind its base counts no more.
func (r *recovery) rewrite(source *frameSource, hole int) error {
	s, l := r.store, r.log
	old := l.active()
	first := &r.accepted[hole]
	s.log.Warn("a segment lost frames that the journal still holds; they are written to a new one", "log", l.id.String(), "file", old.path, "index", first.index)
	g := l.newSegment(l.nextSegment, first.base, first.index, s.random())
	l.nextSegment++
	fresh := g.path + newSuffix
	if err := s.ports.FS.RemoveAll(fresh); err != nil {
		return err
	}
	f, err := s.ports.FS.Create(fresh)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, FileHeaderBytes, 2*core.SlabBytesMax)
	g.header.Put(b)
	at := int64(0)
	mark := func(f *located) {
		m := WriteMark{
			Partition: l.id.Partition, Durable: f.index - 1, Next: f.base, Term: f.term, Generation: f.generation,
			Salt: g.header.Salt, Position: at + int64(len(b)),
		}
		b = append(b, make([]byte, FrameHeaderBytes)...)
		m.Put(b[len(b)-FrameHeaderBytes:])
	}
	write := func() error {
		b = append(b, make([]byte, alignUp(int64(len(b)))-int64(len(b)))...)
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
		b = b[:0]
		return nil
	}
	g.index = NewIndex(g.header.BaseOffset, g.header.BaseIndex)
	mark(first)
	for i := hole; i < len(r.accepted); i++ {
		frame := &r.accepted[i]
		h, raw, err := source.frame(frame)
		if err != nil {
			return err
		}
		if len(b) >= recoverWriteBytes {
			if err := write(); err != nil {
				return err
			}
			mark(frame)
		}
		t := TimestampNone
		if h.Kind == FrameData {
			t = PayloadMaxTimestamp(raw[FrameHeaderBytes:])
		}
		g.index.Add(&h, at+int64(len(b)), t)
		b = append(b, raw...)
		g.lastIndex, g.next, g.appendLast = h.Index, h.Next(), max(g.appendLast, h.AppendTime)
	}
	if err := write(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := s.ports.FS.Rename(fresh, g.path); err != nil {
		return err
	}
	if err := s.ports.FS.SyncDir(l.id.dir()); err != nil {
		return fmt.Errorf("%s: %w", g.path, err)
	}
	g.position, g.allocated = at, at
	if old.empty() {
		if err := s.removeSegmentNow(old); err != nil {
			return err
		}
		l.segments = l.segments[:len(l.segments)-1]
	} else if err := r.truncate(old, old.position); err != nil {
		return err
	} else if err := s.syncFile(old.path); err != nil {
		return err
	}
	l.segments = append(l.segments, g)
	l.sealed = g.end()
	l.rollWanted = false
	return nil
}
