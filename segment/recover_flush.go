package segment

import (
	"fmt"
	"path"

	"github.com/pulsemq/pulsemq/core"
)

// recoverWriteBytes is how much a move of old journals gathers for one write.
const recoverWriteBytes = 256 << 10

// flushNow brings a log's chunks to its segment with blocking calls, at start-up:
// when the journal held more of a partition than its tail may keep in memory.
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
		if err := s.writeChunkNow(l, g, c); err != nil {
			return err
		}
	}
	for l.chunks.len() > 0 {
		s.dropFirstChunk(l, l.chunks.at(0))
	}
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
	f, err := files.Create(g.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := core.HeapSlabs{}.Get(FileHeaderBytes).Bytes
	g.header.Put(b)
	if _, err := f.WriteAt(b[:FileHeaderBytes], 0); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := files.SyncDir(dir); err != nil {
		return nil, err
	}
	g.allocated = FileHeaderBytes
	l.segments = append(l.segments, g)
	l.rollWanted = false
	return g, nil
}

func (s *Store) writeChunkNow(l *Log, g *segment, c *chunk) error {
	f, err := s.ports.FS.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.segment, c.position = g, g.position
	mark := WriteMark{
		Partition: l.id.Partition, Durable: c.firstIndex - 1, Next: c.base, Term: l.term, Generation: l.generation,
		Salt: g.header.Salt, Position: c.position,
	}
	mark.Put(c.slab.Bytes[c.start:])
	if _, err := f.WriteAt(c.slab.Bytes[c.start:c.start+c.bytes()], c.position); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
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
		h, payload, err := source.frame(frame)
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
			t = PayloadMaxTimestamp(payload)
		}
		g.index.Add(&h, at+int64(len(b)), t)
		b = append(b, source.window.view(frame.position, FrameHeaderBytes+int(frame.bytes))...)
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
