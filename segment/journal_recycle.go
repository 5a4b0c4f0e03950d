package segment

import (
	"github.com/pulsemq/pulsemq/core"
)

const (
	// recycleFlushesMax bounds the partitions whose segments are flushed at a time
	// to empty a journal file, so that the syncs are spread.
	recycleFlushesMax = 8

	// checkpointEntriesMax bounds the entries of one checkpoint frame.
	checkpointEntriesMax = 512
)

// recycler empties the oldest journal file: large remainders go to their segments,
// small ones are copied to the journal's head, and a checkpoint repeats what the
// file knew of each partition. When that is durable, the file is free.
type recycler struct {
	journal *journal
	file    *journalFile // being emptied; nil: none
	next    int          // its next touch to look at
	copied  int64        // bytes that will be copied
	waiting []journalTouch
	ready   bool // what is left goes into groups now
	given   bool // all of it is in groups; the last one is on its way to the disk
	emitted int  // touches whose copies and entries are in groups
	scratch []byte
}

// recycleDue says that the oldest file is to be emptied: few are free, or more are in use than the journal should have. The
// latter follows a change of the shard count, and would otherwise grow from each to the next, which copies what is live.
func (j *journal) recycleDue() bool {
	live, free := len(j.live), len(j.free)+len(j.prepare.queue)
	return live >= 2 && (free <= max(1, (live+len(j.free))/4) || live > j.store.folder.journalFiles)
}

// recycleStep goes on with the work; it is called once per turn.
func (j *journal) recycleStep() {
	j.resubmit()
	j.prepare.step()
	k := &j.recycle
	if k.file == nil {
		if !j.recycleDue() {
			return
		}
		k.file, k.next, k.copied, k.emitted = j.live[0], 0, 0, 0
	}
	if k.ready || k.given {
		return
	}
	waiting := k.waiting[:0]
	for _, t := range k.waiting {
		if t.log.state != logDropped && t.log.sealed.Index < t.last {
			waiting = append(waiting, t)
		}
	}
	clear(k.waiting[len(waiting):])
	k.waiting = waiting
	for k.next < len(k.file.touches) && len(k.waiting) < recycleFlushesMax {
		t := k.file.touches[k.next]
		k.next++
		if t.log.state == logDropped || t.last <= t.log.sealed.Index {
			continue
		}
		if bytes, whole := t.log.unsealedBytes(t.last); whole && bytes < copyForwardBytesMax && k.copied+bytes <= k.file.bytes/8 {
			k.copied += bytes
			continue
		}
		j.store.requestFlush(t.log, t.last)
		k.waiting = append(k.waiting, t)
	}
	k.ready = k.next == len(k.file.touches) && len(k.waiting) == 0
}

// unsealedBytes is how many bytes of frames up to an index the segment does not
// hold durably; whole is false when some of them are not in the journal.
func (l *Log) unsealedBytes(last core.Index) (bytes int64, whole bool) {
	for i := l.chunks.findIndex(l.sealed.Index + 1); i < l.chunks.len(); i++ {
		c := l.chunks.at(i)
		if c.firstIndex > last {
			break
		}
		if c.bypass {
			return 0, false
		}
		bytes += int64(c.used - c.start)
	}
	return bytes, true
}

// recycleGather puts copies and checkpoint entries into a group.
func (j *journal) recycleGather(g *journalGroup) {
	k := &j.recycle
	if !k.ready {
		return
	}
	k.scratch = k.scratch[:0]
	flush := func() {
		if len(k.scratch) > 0 {
			j.addRecord(g, nil, FrameCheckpoint, 0, k.scratch)
			k.scratch = k.scratch[:0]
		}
	}
	entry := FrameHeaderBytes + checkpointEntryBytes // with room for a frame of its own
	g.sync = true
	for k.emitted < len(k.file.touches) {
		t := k.file.touches[k.emitted]
		if t.log.state == logDropped {
			k.emitted++
			continue
		}
		bytes := int64(0)
		if t.last > t.log.sealed.Index {
			var whole bool
			if bytes, whole = t.log.unsealedBytes(t.last); !whole {
				// The writer took the chunk since the step that meant to copy it. Until its
				// write is durable this file holds the only durable copy.
				flush()
				j.store.requestFlush(t.log, t.last)
				k.waiting = append(k.waiting, t)
				k.ready = false
				return
			}
		}
		if int64(g.used+len(k.scratch)+2*entry)+bytes > int64(g.limit) {
			flush()
			return
		}
		if bytes > 0 {
			flush()
			j.copyForward(g, t.log, t.last)
		}
		c := t.log.checkpoint()
		k.scratch = AppendCheckpoint(k.scratch, &c)
		j.touch(t.log, 0, 0)
		k.emitted++
		if len(k.scratch) == checkpointEntriesMax*checkpointEntryBytes {
			flush()
		}
	}
	floor := j.live[1].first
	if floor == 0 {
		floor = j.sequence + 1 // this very group will be its first
	}
	k.scratch = AppendCheckpoint(k.scratch, &Checkpoint{Partition: checkpointJournal, Commit: core.Index(floor)})
	flush()
	g.recycles = k.file
	k.ready, k.given = false, true
	k.next = len(k.file.touches)
}

// copyForward copies the unsealed frames of a log up to an index. They keep their
// generation: copies of one frame are the same frame.
func (j *journal) copyForward(g *journalGroup, l *Log, last core.Index) {
	first := l.sealed.Index + 1
	bytes := int64(0)
	copied := core.Index(0)
	for i := l.chunks.findIndex(first); i < l.chunks.len(); i++ {
		c := l.chunks.at(i)
		for at := c.start + FrameHeaderBytes; at < c.used; {
			f := readFrameFields(c.slab.Bytes[at:])
			n := FrameHeaderBytes + f.bytes
			if f.index > last {
				break
			}
			if f.index >= first {
				g.add(c.slab.Bytes[at : at+n])
				bytes += int64(n)
				copied = f.index
			}
			at += n
		}
	}
	if copied > 0 {
		j.touch(l, copied, bytes)
		j.store.stats.JournalCopied += uint64(bytes)
	}
}

// checkpoint is what the journal must keep of a log.
func (l *Log) checkpoint() Checkpoint {
	return Checkpoint{
		Partition: l.id.Partition, Term: l.term, Commit: l.durableIndex, Generation: l.generation,
		GenerationStart: l.generationStart, LogStart: l.start, Sealed: l.sealed, Durable: l.durableIndex,
	}
}

// recycled frees a file: the checkpoint that replaces it is durable.
func (j *journal) recycled(f *journalFile) {
	core.Assert(j.live[0] == f && j.recycle.file == f, "journal files are freed in order")
	j.live = append(j.live[:0], j.live[1:]...)
	for i := range f.touches {
		if l := f.touches[i].log; l.journalFile == f {
			l.journalFile = nil
		}
		f.touches[i].log = nil
	}
	f.touches = f.touches[:0]
	f.first = 0
	j.recycle.file, j.recycle.given = nil, false
	j.store.stats.JournalRecycles++
	j.prepare.add(f)
}
