package segment

import (
	"path"

	"github.com/pulsemq/pulsemq/core"
)

// flushNow brings a log's chunks to its segment with blocking calls, at start-up:
// when the journal held more of a partition than its tail may keep in memory.
func (s *Store) flushNow(l *Log) error {
	if c := l.chunks.last(); c != nil && c.state == chunkOpen {
		s.chunkClose(c)
	}
	if l.tailSlab != nil {
		l.tailSlab.Release()
		l.tailSlab = nil
	}
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
