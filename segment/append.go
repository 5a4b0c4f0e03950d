package segment

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// tailBytesMin and tailBytesMax are the sizes between which a partition's tail
	// slabs move: small while it is idle, so that ten thousand idle ones take 40 MiB,
	// large while it is busy.
	tailBytesMin = 4 << 10
	tailBytesMax = 512 << 10

	// logDirtyBytesMax bounds what one partition may have in memory and not in its segment.
	logDirtyBytesMax = 32 << 20
)

// Append takes a batch into the log. On success the store has taken over one
// reference to the entry's slab. ErrStoreBusy, core.ErrDiskFull and ErrLogFailed
// leave everything as it was and may be tried again later.
func (s *Store) Append(l *Log, e *Entry) error {
	if err := s.appendable(l); err != nil && !(e.Reserve && err == core.ErrDiskFull) {
		return err
	}
	core.Assert(e.BaseOffset == l.end, "a batch is appended at the end")
	core.Assert(e.Span > 0, "a batch takes at least one offset")
	if l.openNeeded {
		if err := s.openTerm(l, e.AppendTime); err != nil {
			return err
		}
	}
	var err error
	if int(e.Bytes) >= core.DirectWriteBytesMin {
		err = s.appendDirect(l, e)
	} else if err = s.appendTail(l, e); err == nil {
		e.Slab.Release()
	}
	if err != nil {
		s.stats.Busy++
		return err
	}
	s.stats.Appends++
	s.stats.AppendBytes += uint64(e.Bytes)
	s.appended(l, e.Level, int64(e.Bytes), e.AppendTime)
	return nil
}

// AppendControl takes a frame without records: a log start, a cursor, a no-op.
// It gets its own frame. reserve says that it may use the journal's reserve and
// go on while the disk is full.
func (s *Store) AppendControl(l *Log, kind FrameKind, payload []byte, level core.Durability, reserve bool) error {
	if err := s.appendable(l); err != nil && !(reserve && err == core.ErrDiskFull) {
		return err
	}
	if l.openNeeded {
		if err := s.openTerm(l, s.wall); err != nil {
			return err
		}
	}
	if err := s.appendFrame(l, kind, payload, level, 0); err != nil {
		s.stats.Busy++
		return err
	}
	if reserve {
		l.reserveIndex = l.index
	}
	s.appended(l, level, int64(len(payload)), s.wall)
	return nil
}

// appendable says why nothing can be appended at the moment.
func (s *Store) appendable(l *Log) error {
	switch {
	case l.state == logDropped:
		return ErrLogDropped
	case l.state == logFailing:
		return ErrLogFailed
	case s.stopping:
		return ErrStoreStopping
	case s.full:
		return core.ErrDiskFull
	case l.pending.count >= pendingFramesMax || l.dirtyBytes >= logDirtyBytesMax || s.cache.overfull() || s.journal.err != nil:
		s.stats.Busy++
		return ErrStoreBusy
	}
	return nil
}

// appended keeps the books of a log that got a frame.
func (s *Store) appended(l *Log, level core.Durability, bytes int64, appendTime int64) {
	if l.unsyncedSince == 0 {
		l.unsyncedSince = s.mono
	}
	l.appendLast = max(l.appendLast, appendTime)
	l.stateBytes += bytes
	l.usedAt = s.mono
	s.activate(l)
	if !l.inPlaceList {
		l.inPlaceList = true
		s.placeList = append(s.placeList, l)
	}
	l.placeSync = l.placeSync || level == core.DurabilitySync
	if level == core.DurabilitySync {
		if l.inUnsyncedList {
			s.requestSyncAll(l) // by the prefix rule it waits for those before it
		}
		return
	}
	if !l.inUnsyncedList {
		l.inUnsyncedList = true
		s.unsyncedList = append(s.unsyncedList, l)
	}
	if l.unsynced >= l.options.FlushBytes {
		s.requestSync(l)
	}
}

// openTerm puts the record of the log's generation and a no-op before the first
// frame of a term. Both go through the journal and are synced at any durability.
func (s *Store) openTerm(l *Log, appendTime int64) error {
	if c := l.chunks.last(); c != nil && c.state == chunkOpen {
		s.chunkClose(c) // what follows must not go to the segment with what came before
	}
	if err := s.appendFrame(l, FrameNoop, nil, core.DurabilitySync, frameOpening); err != nil {
		return err
	}
	l.openNeeded = false
	l.recordNeeded = true
	l.opening = l.index
	s.appended(l, core.DurabilitySync, 0, appendTime)
	return nil
}

// appendFrame puts a frame of its own into the tail.
func (s *Store) appendFrame(l *Log, kind FrameKind, payload []byte, level core.Durability, flags uint8) error {
	if c := l.chunks.last(); c != nil && c.frameOpen {
		s.frameClose(c)
	}
	c := s.tailChunk(l, FrameHeaderBytes+len(payload))
	if c == nil {
		return ErrStoreBusy
	}
	at := c.used
	copy(c.slab.Bytes[at+FrameHeaderBytes:], payload)
	h := FrameHeader{
		Kind: kind, PayloadCRC: proto.CRC(payload), Partition: l.id.Partition, Index: l.index + 1, Term: l.term,
		Generation: l.generation, BaseOffset: l.end, Bytes: uint32(len(payload)), AppendTime: s.wall,
	}
	h.Put(c.slab.Bytes[at:])
	s.frameAdded(l, c, at, FrameHeaderBytes+len(payload), level, l.end, flags)
	return nil
}

// frameAdded takes note of a whole frame at the end of a chunk.
func (s *Store) frameAdded(l *Log, c *chunk, at, bytes int, level core.Durability, next core.Offset, flags uint8) {
	l.index++
	l.noteFrame(l.end)
	if c.lastIndex < c.firstIndex || c.empty() {
		c.firstIndex, c.base = l.index, l.end
	}
	c.notePoint(l.end, at)
	c.used = at + bytes
	c.lastIndex, c.next = l.index, next
	c.level = max(c.level, level)
	l.end = next
	l.pending.push(l.index, pendingFrame{next: next, at: s.mono, bytes: uint32(bytes), flags: flags})
	l.unsynced += int64(bytes)
	s.stats.Frames++
}

// noteFrame keeps the epoch table: a term begins with the first frame that has it.
func (l *Log) noteFrame(base core.Offset) {
	if last, ok := l.epochs.Last(); !ok || last.Term < l.term {
		l.epochs.Add(l.term, l.index, base)
	}
}

// appendTail copies a small batch to the end of the partition's tail, into the
// frame that gathers this turn's batches.
func (s *Store) appendTail(l *Log, e *Entry) error {
	batch := e.batch()
	c := l.chunks.last()
	if c != nil && c.frameOpen && (c.frameUsed+len(batch) > c.limit || c.frameUsed-c.used-FrameHeaderBytes+len(batch) > core.GatherFrameBytesMax) {
		s.frameClose(c)
	}
	if c == nil || !c.frameOpen {
		if c = s.tailChunk(l, FrameHeaderBytes+len(batch)); c == nil {
			return ErrStoreBusy
		}
		c.frameOpen, c.frameUsed, c.frameCRC = true, c.used+FrameHeaderBytes, 0
		c.frameTime, c.frameBase = e.AppendTime, l.end
		l.index++
		l.noteFrame(l.end)
		if c.lastIndex < c.firstIndex || c.empty() {
			c.firstIndex, c.base = l.index, l.end
		}
		c.notePoint(l.end, c.used)
		c.lastIndex = l.index
		l.pending.push(l.index, pendingFrame{at: s.mono, bytes: FrameHeaderBytes})
		l.unsynced += FrameHeaderBytes
		s.stats.Frames++
	}
	copy(c.slab.Bytes[c.frameUsed:], batch)
	batch = c.slab.Bytes[c.frameUsed : c.frameUsed+len(batch)]
	switch {
	case len(batch) < core.CombineBytesMin:
		c.frameCRC = proto.CRCUpdate(c.frameCRC, batch)
	case c.frameUsed == c.used+FrameHeaderBytes:
		c.frameCRC = e.crc(batch)
	default:
		c.frameCRC = proto.CRCCombine(c.frameCRC, e.crc(batch), len(batch))
	}
	c.frameUsed += len(batch)
	c.maxTimestamp = max(c.maxTimestamp, e.MaxTimestamp)
	c.level = max(c.level, e.Level)
	l.end += core.Offset(e.Span)
	c.next = l.end
	f := l.pending.at(l.index)
	f.next = l.end
	f.bytes += uint32(len(batch))
	l.unsynced += int64(len(batch))
	return nil
}

// frameClose finishes the gathering frame: its header gets the sum of its batches.
func (s *Store) frameClose(c *chunk) {
	l := c.log
	h := FrameHeader{
		Kind: FrameData, PayloadCRC: c.frameCRC, Partition: l.id.Partition, Index: l.index, Term: l.term,
		Generation: l.generation, BaseOffset: c.frameBase, Span: uint32(l.end - c.frameBase),
		Bytes: uint32(c.frameUsed - c.used - FrameHeaderBytes), AppendTime: c.frameTime,
	}
	h.Put(c.slab.Bytes[c.used:])
	c.used, c.frameOpen = c.frameUsed, false
}

// appendDirect takes a large batch where it lies, as a frame and a chunk of its own.
func (s *Store) appendDirect(l *Log, e *Entry) error {
	end := int(alignUp(int64(e.Start + e.Bytes)))
	if e.Start != core.BatchRoomBytes || end > len(e.Slab.Bytes) {
		return ErrEntryTooLarge
	}
	if c := l.chunks.last(); c != nil && c.state == chunkOpen {
		s.chunkClose(c)
	}
	c := s.chunkNew(l, e.Slab, 0, end)
	c.direct, c.maxTimestamp = true, e.MaxTimestamp
	batch := e.batch()
	h := FrameHeader{
		Kind: FrameData, PayloadCRC: e.crc(batch), Partition: l.id.Partition, Index: l.index + 1, Term: l.term,
		Generation: l.generation, BaseOffset: l.end, Span: e.Span, Bytes: e.Bytes, AppendTime: e.AppendTime,
	}
	h.Put(e.Slab.Bytes[FrameHeaderBytes:])
	s.frameAdded(l, c, FrameHeaderBytes, FrameHeaderBytes+len(batch), e.Level, l.end+core.Offset(e.Span), 0)
	s.chunkClose(c)
	l.largeBytes += len(batch)
	return nil
}

// tailChunk returns the open chunk with room for n more bytes, or opens one; nil
// when there is no memory.
func (s *Store) tailChunk(l *Log, n int) *chunk {
	if c := l.chunks.last(); c != nil && c.state == chunkOpen {
		if c.used+n <= c.limit {
			return c
		}
		s.chunkClose(c)
	}
	need := FrameHeaderBytes + n
	if l.tailSlab == nil || l.tailAt+need > len(l.tailSlab.Bytes) {
		if l.tailSlab != nil {
			s.releaseTail(l)
			l.tailBytes = min(2*l.tailBytes, tailBytesMax)
		}
		slab := s.ports.Slabs.Get(max(l.tailBytes, need))
		if slab == nil {
			s.cache.evict(int64(l.tailBytes))
			if slab = s.ports.Slabs.Get(need); slab == nil {
				return nil
			}
		}
		l.tailSlab, l.tailAt = slab, 0
		s.cache.chargeTail(l, int64(len(slab.Bytes)))
	}
	l.tailSlab.Retain()
	return s.chunkNew(l, l.tailSlab, l.tailAt, len(l.tailSlab.Bytes))
}

// chunkNew opens a chunk in a slab whose reference it takes over.
func (s *Store) chunkNew(l *Log, slab *core.Slab, start, limit int) *chunk {
	var c *chunk
	if n := len(s.chunkPool); n > 0 {
		c = s.chunkPool[n-1]
		s.chunkPool = s.chunkPool[:n-1]
	} else {
		c = new(chunk)
	}
	*c = chunk{
		log: l, slab: slab, start: start, used: start + FrameHeaderBytes, limit: limit, points: c.points[:0],
		firstIndex: l.index + 1, lastIndex: l.index, base: l.end, next: l.end, position: -1, maxTimestamp: TimestampNone,
	}
	l.chunks.push(c)
	return c
}

// chunkClose ends a chunk: what follows begins at the disk's next unit, so that
// durable bytes are never rewritten.
func (s *Store) chunkClose(c *chunk) {
	if c.frameOpen {
		s.frameClose(c)
	}
	l := c.log
	end := int(alignUp(int64(c.used)))
	clear(c.slab.Bytes[c.used:end])
	c.state = chunkClosed
	if l.dirtyBytes += int64(end - c.start); l.dirtyBytes >= s.options.FlushBytes {
		s.kick(l)
	}
	if c.direct {
		s.cache.add(c, int64(len(c.slab.Bytes)))
	} else {
		l.tailAt = end
		s.cache.chargeTail(l, -min(int64(end-c.start), l.tailCharged)) // it is charged as a chunk from now on
		s.cache.add(c, int64(end-c.start))
	}
	s.cache.bound()
}

// chunkFree gives a chunk's memory back.
func (s *Store) chunkFree(c *chunk) {
	s.cache.remove(c)
	c.slab.Release()
	s.dropSnapshot(c)
	c.slab, c.log, c.segment = nil, nil, nil
	s.chunkPool = append(s.chunkPool, c)
}

const (
	// directFilesMax is how many partitions of one turn may write large batches to
	// their segments. Above it one sync of the journal is cheaper than one of each
	// file, and the batches reach their segments later without a sync of their own.
	directFilesMax = 8

	// directBytesMin is from how much of one partition and turn on its batches go to
	// the segment however many files that syncs: writing them twice costs more than
	// the sync, and the syncs of many files run side by side.
	directBytesMin = 192 << 10
)

// placeDirect decides for this turn's large batches between the journal and
// their segments, by how many files a direct write would sync.
func (s *Store) placeDirect() {
	large, files := 0, 0
	for _, l := range s.placeList {
		if l.largeBytes > 0 {
			large++
			files++
		}
	}
	if large == 0 {
		return
	}
	kept := s.placeList[:0]
	for _, l := range s.placeList {
		tooLarge := l.largeBytes > s.journal.frameBytesMax()
		ready := l.largeBytes == 0 || l.segmentReady()
		if !ready { // its file is begun, and until it is there the journal takes what comes
			l.flushIndex = max(l.flushIndex, l.index)
			s.kick(l)
		}
		if l.largeBytes == 0 || l.opening != 0 || !tooLarge && (!ready || files > directFilesMax && l.largeBytes < directBytesMin) {
			kept = append(kept, l)
			continue
		}
		if c := l.chunks.last(); c.state == chunkOpen {
			s.chunkClose(c)
		}
		s.stats.DirectFrames += uint64(l.index - l.placed)
		for i := l.chunks.findIndex(l.placed + 1); i < l.chunks.len(); i++ {
			l.chunks.at(i).bypass = true
		}
		l.placed, l.largeBytes, l.placeSync = l.index, 0, false
		l.flushIndex = max(l.flushIndex, l.index)
		l.inPlaceList = false
		s.kick(l)
	}
	clear(s.placeList[len(kept):])
	s.placeList = kept
}
