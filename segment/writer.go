package segment

import (
	"errors"
	"fmt"
	"path"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// writerChunksMax bounds the chunks of one chain of writes.
	writerChunksMax = 8
	// writerBytesMax bounds its bytes; one chunk may be larger.
	writerBytesMax = 8 << 20
	// writerRetryNanos is how long a log rests after its segment failed.
	writerRetryNanos = 1e9

	// filesRetryNanos is how long a log waits for a descriptor.
	filesRetryNanos = 20e6
)

type writerStep uint8

const (
	writerIdle writerStep = iota
	writerOpening
	writerCreating // folder and file
	writerHeading  // header, extent, syncs
	writerWriting
)

// writer brings one log's chunks to its segment, one chain at a time: reserve an
// extent, write, write, ..., fdatasync. What arrives meanwhile makes the next
// chain, so one sync serves many batches.
type writer struct {
	log     *Log
	step    writerStep
	segment *segment
	chunks  []*chunk // of the chain in flight
	sync    bool
	ops     [writerChunksMax + 4]core.DiskOp
	n       int // operations of the chain
	waiting int // not ended
	failed  *core.DiskOp
	header  *core.Slab
	held    bool // the disk had no room for the chain

	before    SealedPoint // where the segment ended before the chain
	allocated int64       // up to where the file is reserved when the chain has ended
}

// kick notes that a log's writer may have something to do. The work itself is
// done once per turn.
func (s *Store) kick(l *Log) {
	if !l.inKickList {
		l.inKickList = true
		s.kickList = append(s.kickList, l)
	}
}

// startWriters looks once at each log that was kicked. One that could not start
// for want of room at the disk kicks itself again: for the next turn, since
// nothing makes room before this one has ended.
func (s *Store) startWriters() {
	kicked := len(s.kickList)
	for i := range kicked {
		l := s.kickList[i]
		l.inKickList = false
		s.startWriter(l)
	}
	n := copy(s.kickList, s.kickList[kicked:])
	clear(s.kickList[n:])
	s.kickList = s.kickList[:n]
}

// writable is how many chunks behind issued may go to the segment now.
func (l *Log) writable() int {
	n := l.chunks.len() - l.issued
	for i := 0; i < n; i++ {
		c := l.chunks.at(l.issued + i)
		if c.frameOpen || c.empty() || l.opening != 0 && c.lastIndex >= l.opening {
			return i
		}
	}
	return n
}

// startWriter begins the next chain if there is a reason for one.
func (s *Store) startWriter(l *Log) {
	if l.writer != nil && l.writer.step != writerIdle || l.state != logServing || l.retryAt > s.mono {
		if l.writer != nil && l.writer.held {
			s.submitChain(l.writer)
		}
		return
	}
	if g := l.active(); g != nil && g.returning {
		return // kicked again when that has ended
	}
	n := l.writable()
	wanted := false
	if n > 0 {
		first := l.chunks.at(l.issued)
		wanted = first.firstIndex <= l.flushIndex || l.dirtyBytes >= s.options.FlushBytes
		if !wanted && first.state == chunkOpen && int64(first.used-first.start) >= s.options.FlushBytes {
			wanted = true
		}
	}
	g := l.active()
	syncOnly := !wanted && l.syncIndex > l.sealed.Index && l.issued > 0 && g != nil && !g.empty() && l.lastIssued() > l.sealed.Index
	if !wanted && !syncOnly {
		return
	}
	w := s.takeWriter(l)
	if syncOnly {
		w.segment = g
		w.sync = true
		w.chunks = w.chunks[:0]
		s.openSegment(w)
		return
	}
	first := l.chunks.at(l.issued)
	if first.state == chunkOpen {
		s.chunkClose(first)
	}
	if g != nil && g.ended {
		g = nil
	} else if g != nil && (l.rollWanted && !g.empty() || !g.empty() && g.position+int64(first.bytes()) > l.options.SegmentBytes) {
		if l.lastIssued() > l.sealed.Index {
			// The segment ends durable before the next one begins.
			w.segment, w.sync, w.chunks = g, true, w.chunks[:0]
			s.openSegment(w)
			return
		}
		s.segmentEnded(l, g)
		g = nil
	}
	if g == nil {
		s.createSegment(w, first)
		return
	}
	w.segment = g
	s.openSegment(w)
}

func (s *Store) takeWriter(l *Log) *writer {
	if l.writer == nil {
		if n := len(s.writerPool); n > 0 {
			l.writer = s.writerPool[n-1]
			s.writerPool = s.writerPool[:n-1]
		} else {
			l.writer = &writer{chunks: make([]*chunk, 0, writerChunksMax)}
		}
		l.writer.log = l
	}
	w := l.writer
	w.sync, w.failed, w.n, w.waiting, w.held = false, nil, 0, 0, false
	w.chunks = w.chunks[:0]
	return w
}

// idle gives the writer up when there is nothing to do; the log may be asked again.
func (w *writer) idle() {
	l := w.log
	w.step, w.segment = writerIdle, nil
	l.writer = nil
	w.log = nil
	l.store.writerPool = append(l.store.writerPool, w)
	l.store.kick(l)
}

// busy puts off what was to be written: nothing has been done yet. When descriptors
// have run out it waits a little, because trying at each turn would find the same.
func (w *writer) busy(err error) {
	if errors.Is(err, core.ErrDiskFiles) {
		w.log.retryAt = w.log.store.mono + filesRetryNanos
	}
	w.idle()
}

// createSegment makes the file of the next segment: folders, file, header, first
// extent, all synced with the folder before the first frame is written to it.
func (s *Store) createSegment(w *writer, first *chunk) {
	l := w.log
	g := l.newSegment(l.nextSegment, first.base, first.firstIndex, s.random())
	l.nextSegment++
	w.segment, w.step = g, writerCreating
	w.n = 0
	if len(l.segments) == 0 {
		w.add(core.DiskOp{Kind: core.DiskMakeDir, Path: l.id.dir()})
		w.add(core.DiskOp{Kind: core.DiskSyncDir, Path: path.Dir(l.id.dir())})
		w.add(core.DiskOp{Kind: core.DiskSyncDir, Path: TopicsDir})
	}
	w.add(core.DiskOp{Kind: core.DiskCreate, Path: g.path})
	s.submitChain(w)
}

func (s *Store) headSegment(w *writer) {
	g := w.segment
	if w.header == nil {
		if w.header = s.ports.Slabs.Get(FileHeaderBytes); w.header == nil {
			w.header = core.HeapSlabs{}.Get(FileHeaderBytes) // rare and small: not worth a retry
		}
	}
	g.header.Put(w.header.Bytes)
	w.step, w.n = writerHeading, 0
	g.allocated = min(core.SegmentExtentIdleBytes, alignUp(w.log.options.SegmentBytes))
	w.add(core.DiskOp{Kind: core.DiskAllocate, File: g.file, Offset: 0, Length: g.allocated})
	w.add(core.DiskOp{Kind: core.DiskWrite, File: g.file, Buf: w.header.Bytes[:FileHeaderBytes]})
	w.add(core.DiskOp{Kind: core.DiskSync, File: g.file})
	w.add(core.DiskOp{Kind: core.DiskSyncDir, Path: g.dir()})
	s.submitChain(w)
}

// openSegment makes sure that the segment's file is open, then writes.
func (s *Store) openSegment(w *writer) {
	w.step = writerOpening
	if s.files.acquire(w.segment, w) {
		s.writeChunks(w)
	}
}

func (w *writer) fileReady(_ *segment, err error) {
	s := w.log.store
	if err != nil {
		if errors.Is(err, ErrStoreBusy) {
			w.busy(err)
			return
		}
		s.fail(w.log, err)
		w.idle()
		return
	}
	s.writeChunks(w)
}

// writeChunks builds the chain: one aligned write for each chunk, its write mark
// filled in, and the sync if any frame needs one.
func (s *Store) writeChunks(w *writer) {
	l, g := w.log, w.segment
	w.step, w.n = writerWriting, 0
	w.chunks = w.chunks[:0]
	if w.sync { // a sync of what was written
		w.add(core.DiskOp{Kind: core.DiskSync, File: g.file})
		s.submitChain(w)
		return
	}
	total := int64(0)
	n := min(l.writable(), writerChunksMax)
	for i := 0; i < n; i++ {
		c := l.chunks.at(l.issued + i)
		if c.state == chunkOpen {
			if c.firstIndex > l.flushIndex && i > 0 {
				break
			}
			s.chunkClose(c)
		}
		b := int64(c.bytes())
		if i > 0 && (total+b > writerBytesMax || g.position+total+b > l.options.SegmentBytes) {
			break
		}
		total += b
		w.chunks = append(w.chunks, c)
	}
	if len(w.chunks) == 0 {
		s.files.release(g)
		w.idle()
		return
	}
	w.before, w.allocated = g.end(), g.allocated
	if end := g.position + total; end > g.allocated {
		length := alignUp(end-g.allocated) + g.extentBytes()
		if most := alignUp(l.options.SegmentBytes); g.allocated+length > most {
			length = max(most, alignUp(end)) - g.allocated
		}
		w.add(core.DiskOp{Kind: core.DiskAllocate, File: g.file, Offset: g.allocated, Length: length})
		w.allocated += length
	}
	for _, c := range w.chunks {
		c.segment, c.position, c.state = g, g.position, chunkIssued
		mark := WriteMark{
			Partition: l.id.Partition, Durable: l.durableIndex, Next: l.durable, Term: l.term, Generation: l.generation,
			Salt: g.header.Salt, Position: c.position,
		}
		mark.Put(c.slab.Bytes[c.start:])
		s.indexChunk(g, c)
		w.add(core.DiskOp{Kind: core.DiskWrite, File: g.file, Buf: c.slab.Bytes[c.start : c.start+c.bytes()], Offset: c.position})
		g.position += int64(c.bytes())
		g.lastIndex, g.next = c.lastIndex, c.next
		l.dirtyBytes -= int64(c.bytes())
		l.issued++
		l.takeAlong(c)
		if c.level == core.DurabilitySync && c.bypass || c.firstIndex <= l.syncIndex {
			w.sync = true
		}
		s.stats.SegmentWrites++
		s.stats.SegmentBytes += uint64(c.bytes())
	}
	if w.sync {
		w.add(core.DiskOp{Kind: core.DiskSync, File: g.file})
	}
	s.submitChain(w)
}

// takeAlong notes frames that go to the segment before they went to the journal:
// they need no journal any more.
func (l *Log) takeAlong(c *chunk) {
	if c.lastIndex <= l.placed {
		return
	}
	c.bypass = true
	l.placed = c.lastIndex
	if c.direct {
		l.largeBytes -= c.used - c.start - 2*FrameHeaderBytes
	}
	if l.placed == l.index {
		l.placeSync = false
	}
}

// indexChunk adds a chunk's frames to the index of its segment.
func (s *Store) indexChunk(g *segment, c *chunk) {
	if g.index == nil {
		g.index = NewIndex(g.header.BaseOffset, g.header.BaseIndex)
		g.indexFrom = g.position // what lies below is indexed when it is asked for
	}
	g.learned = false
	for at := c.start + FrameHeaderBytes; at < c.used; {
		b := c.slab.Bytes[at:]
		h := readFrameHeader(b)
		t := TimestampNone
		if h.Kind == FrameData {
			t = PayloadMaxTimestamp(b[FrameHeaderBytes : FrameHeaderBytes+int(h.Bytes)])
		}
		g.index.Add(&h, c.position+int64(at-c.start), t)
		g.appendLast = max(g.appendLast, h.AppendTime)
		at += FrameHeaderBytes + int(h.Bytes)
	}
}

func (w *writer) add(op core.DiskOp) {
	op.Owner = w
	w.ops[w.n] = op
	if w.n > 0 {
		w.ops[w.n-1].Next = &w.ops[w.n]
	}
	w.n++
}

func (s *Store) submitChain(w *writer) {
	w.waiting = w.n
	w.held = !s.ports.Disk.Submit(&w.ops[0])
	if w.held {
		s.kick(w.log)
	}
}

// Complete takes an ended operation of the chain.
func (w *writer) Complete(op *core.DiskOp) {
	w.waiting--
	if op.Err != nil && w.failed == nil {
		w.failed = op
	}
	if w.waiting > 0 {
		return
	}
	s, l, g := w.log.store, w.log, w.segment
	if w.failed != nil {
		s.chainFailed(w)
		return
	}
	switch w.step {
	case writerCreating:
		s.files.created(g, w.ops[w.n-1].File)
		s.headSegment(w)
	case writerHeading:
		w.header.Release()
		w.header = nil
		l.segments = append(l.segments, g)
		l.rollWanted, l.makeFailed = false, false
		s.writeChunks(w)
	case writerWriting:
		s.chainWritten(w)
	}
}

// chainWritten takes note of what reached the segment.
func (s *Store) chainWritten(w *writer) {
	l, g := w.log, w.segment
	if len(w.chunks) > 0 {
		g.allocated = w.allocated
	}
	flags := frameWritten
	if w.sync {
		flags |= frameDurable
		s.stats.SegmentSyncs++
	}
	for _, c := range w.chunks {
		c.state = chunkWritten
		l.pending.mark(c.firstIndex, c.lastIndex, flags)
	}
	if w.sync {
		for i := l.issued - 1; i >= 0; i-- {
			c := l.chunks.at(i)
			if c.state != chunkWritten {
				break
			}
			c.state = chunkSealed
			l.pending.mark(c.firstIndex, c.lastIndex, frameWritten|frameDurable)
		}
		l.sealed = g.end()
		s.sealedMoved(l) // before the owner hears of it: what it appends may evict these chunks
	}
	s.files.release(g)
	w.idle()
	l.advance()
}

// growthFailed keeps a log from asking for the same room for ever. A file that may not
// become so large (RLIMIT_FSIZE) is asked for no more than is written to it from then
// on, and one that may not even hold that ends: the next one gets it. A full disk
// passes, and another file would have no more room.
func (s *Store) growthFailed(l *Log, failed *core.DiskOp, needed int64) {
	switch {
	case errors.Is(failed.Err, core.ErrDiskFull):
	case errors.Is(failed.Err, syscall.EFBIG) && failed.Offset+failed.Length > needed:
		l.extentLeast = true
	default:
		l.rollWanted = true
	}
}

// chainFailed ends the segment at its durable point.
func (s *Store) chainFailed(w *writer) {
	l, g, failed := w.log, w.segment, w.failed
	err := fmt.Errorf("%s %s: %w", failed.Kind, g.path, failed.Err)
	if w.header != nil {
		w.header.Release()
		w.header = nil
	}
	if w.step == writerCreating && errors.Is(err, core.ErrDiskFiles) {
		s.files.press()
		w.busy(err) // no file was made
		return
	}
	s.stats.Failures++
	switch w.step {
	case writerCreating, writerHeading:
		l.makeFailed = true
		if g.file != 0 {
			g.removing = true
			s.files.release(g)
		}
		s.removeFile(g.path) // its number is never used again
		s.fail(l, err)
	case writerWriting:
		s.files.release(g)
		if failed.Kind == core.DiskAllocate {
			// Nothing of the chain was written: the segment is as it was, but for its index,
			// which is built again when it is asked for.
			s.growthFailed(l, failed, alignUp(g.position))
			g.position, g.lastIndex, g.next = w.before.Position, w.before.Index, w.before.NextOffset
			g.index, g.indexFrom = nil, 0
			s.trails.forget(g)
		}
		s.fail(l, err)
	}
	w.idle()
}
