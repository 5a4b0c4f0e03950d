package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// journalGroupsMax is how many groups may be in flight when none needs a sync. A
	// group that needs one is alone: it is issued after its predecessors have ended.
	journalGroupsMax = 2

	// copyForwardBytesMax is below how many unsealed bytes in a file that is recycled
	// a partition's frames are copied to the head instead of flushing its segment.
	copyForwardBytesMax = 64 << 10

	journalZeroBytes = 1 << 20
)

// journalFile is one file of the shard's journal.
type journalFile struct {
	number     uint32
	file       core.FileID
	path       string
	bytes      int64
	generation uint32
	salt       uint64
	zeroed     int64 // how far the file has been written since it was made

	first   uint64 // sequence of its first group, while live
	touches []journalTouch
}

// journalTouch is what a journal file holds of one log.
type journalTouch struct {
	log   *Log
	last  core.Index // highest index of a frame of the log in the file; 0 when there are only records
	bytes int64      // of those frames
}

// groupPart says which frames of a log a group holds. first > last: only records
// that are local to the replica.
type groupPart struct {
	log         *Log
	first, last core.Index
}

// journalGroup is a group being filled or in flight.
type journalGroup struct {
	journal  *journal
	slab     *core.Slab
	used     int // end of the frames in the slab
	limit    int
	crc      uint32
	parts    []groupPart
	sequence uint64
	sync     bool
	closes   bool // the last one of a stop
	flags    GroupFlags
	write    core.DiskOp
	syncOp   core.DiskOp
	waiting  int          // operations in flight
	recycles *journalFile // freed when this group is durable
}

// journal writes a shard's groups.
//
// Invariants: at most one group whose sync is in flight, and then no other group;
// at most journalGroupsMax without. synced <= written <= sequence.
type journal struct {
	store *Store

	live     []*journalFile // oldest first; the last one is written to
	free     []*journalFile
	current  *journalFile
	position int64 // in current, of the next group
	sequence uint64
	written  uint64 // every group up to here has been written
	synced   uint64

	groups   []*journalGroup // idle ones
	inFlight int
	flight   []*journalGroup // those in flight, in order of their sequences
	syncing  bool            // a sync, of a group or bare, is in flight

	syncWanted bool
	bare       bareSync
	rollWanted bool
	rollDone   bool
	held       *journalGroup       // issued, but the disk had no room
	closing    func(*journalGroup) // fills the last group of a clean stop

	unsyncedLogs []*Log // with frames written through the journal and not synced

	opening int            // files being opened at the start
	retry   []*core.DiskOp // operations that the disk had no room for
	recycle recycler
	prepare preparer

	err error
}

func (j *journal) newGroup() *journalGroup {
	g := &journalGroup{journal: j, parts: make([]groupPart, 0, 256)}
	return g
}

// groupBytesMax bounds a group: small files hold several.
func (j *journal) groupBytesMax() int64 {
	return min(core.JournalGroupBytesMax, (j.current.bytes-FileHeaderBytes)/2&^(core.DiskAlignment-1))
}

// frameBytesMax is the largest batch that a group can hold as a frame.
func (j *journal) frameBytesMax() int {
	return int(j.groupBytesMax()) - GroupHeaderBytes - 2*FrameHeaderBytes - FrameHeaderBytes
}

// reserveBytes is what ordinary frames leave of the last free space, so that
// checkpoints, log starts, cursors and votes always find room.
func (j *journal) reserveBytes() int64 { return j.current.bytes / 4 &^ (core.DiskAlignment - 1) }

// flush goes on with what the turn has brought.
func (j *journal) flush() {
	j.recycleStep()
	j.issueDue()
}

// issueDue issues as many groups as the rules allow.
func (j *journal) issueDue() {
	if j.opening > 0 {
		return
	}
	if g := j.held; g != nil && !j.submit(g) {
		return
	}
	for j.err == nil && !j.syncing && j.inFlight < journalGroupsMax && (j.inFlight == 0 || !j.wantsSync()) {
		g := j.gather()
		if g == nil {
			break
		}
		j.issue(g)
		if !j.submit(g) {
			return
		}
	}
	if j.err == nil && j.syncWanted && !j.syncing && j.inFlight == 0 && j.held == nil {
		if j.written == j.synced {
			j.syncWanted = false
			return
		}
		j.syncBare()
	}
}

// wantsSync says whether the next group needs a sync, which must cover what was
// written before it and so has to wait for it.
func (j *journal) wantsSync() bool {
	if j.syncWanted || j.recycle.ready {
		return true
	}
	for _, l := range j.store.placeList {
		if l.placeSync {
			return true
		}
	}
	return false
}

// gather fills a group from what recycling copies and from the logs with unplaced
// frames; nil when there is nothing to write or no room to write it.
func (j *journal) gather() *journalGroup {
	s := j.store
	if len(s.placeList) == 0 && !j.recycle.ready && j.closing == nil {
		return nil
	}
	whole := j.groupBytesMax()
	rest := j.current.bytes - j.position
	room := rest
	if len(j.free) == 0 {
		room -= j.reserveBytes()
	}
	if room < min(whole, core.DiskAlignment) && len(j.free) > 0 {
		j.rollWanted = true
	}
	if j.rollWanted && !j.roll() {
		return nil
	}
	if j.rollDone {
		j.rollDone = false
		return j.gather()
	}
	if rest < core.DiskAlignment {
		return nil
	}
	g := j.takeGroup()
	if g == nil {
		return nil
	}
	if j.closing != nil {
		j.closing(g)
		j.closing = nil
		return g
	}
	g.limit = int(min(whole, rest))
	j.recycleGather(g)
	ordinary, reserve := int(min(whole, room)), int(min(whole, rest))
	if len(j.free) == 0 {
		reserve = int(min(whole, rest-j.reserveBytes()/2)) // the other half is for checkpoints
	}
	left := j.gatherLogs(g, ordinary, reserve)
	g.limit = ordinary
	if g.used == GroupHeaderBytes {
		j.groups = append(j.groups, g)
		if (left > 0 || j.recycle.ready) && len(j.free) > 0 && g.limit < int(whole) {
			// The next frame does not fit the rest of the file.
			j.rollWanted = true
			return j.gather()
		}
		return nil
	}
	return g
}

// takeGroup is an empty group with its slab; nil without memory.
func (j *journal) takeGroup() *journalGroup {
	if len(j.groups) == 0 {
		j.groups = append(j.groups, j.newGroup())
	}
	g := j.groups[len(j.groups)-1]
	if g.slab == nil {
		if g.slab = j.store.ports.Slabs.Get(int(j.groupBytesMax())); g.slab == nil {
			j.store.cache.evict(j.groupBytesMax())
			return nil
		}
	}
	j.groups = j.groups[:len(j.groups)-1]
	g.used, g.crc, g.sync, g.closes, g.flags, g.recycles = GroupHeaderBytes, 0, false, false, 0, nil
	g.parts = g.parts[:0]
	return g
}

// gatherLogs copies frames of the logs in turn, as far as the group has room.
// Ordinary frames go up to one limit, those that may use the reserve to another.
// It returns how many logs have frames left.
func (j *journal) gatherLogs(g *journalGroup, ordinary, reserve int) int {
	s := j.store
	kept := s.placeList[:0]
	for i, l := range s.placeList {
		if l.state != logServing {
			l.inPlaceList = false
			continue
		}
		if g.limit = ordinary; l.placed < l.reserveIndex {
			g.limit = reserve
		}
		if !j.gatherLog(g, l) {
			kept = append(kept, s.placeList[i])
			continue
		}
		l.inPlaceList = false
	}
	clear(s.placeList[len(kept):])
	s.placeList = kept
	return len(kept)
}

// gatherLog copies a log's unplaced frames into the group; false when some are left.
func (j *journal) gatherLog(g *journalGroup, l *Log) bool {
	if l.placed >= l.index {
		return true
	}
	if l.recordNeeded {
		if g.used+2*FrameHeaderBytes > g.limit {
			return false
		}
		j.addRecord(g, l, FrameGeneration, l.generationStart, nil)
		l.recordNeeded = false
		g.sync = true
	}
	first := l.placed + 1
	for i := l.chunks.findIndex(first); i < l.chunks.len(); i++ {
		c := l.chunks.at(i)
		at := c.seek(first)
		for at < c.used {
			f := readFrameFields(c.slab.Bytes[at:])
			n := FrameHeaderBytes + f.bytes
			if g.used+n > g.limit {
				c.placedAt = at
				j.noteFrames(g, l, first)
				return false
			}
			g.add(c.slab.Bytes[at : at+n])
			at += n
			l.placed = f.index
			if c.direct {
				l.largeBytes -= f.bytes
			}
		}
		c.placedAt = at
	}
	j.noteFrames(g, l, first)
	g.sync = g.sync || l.placeSync
	if l.placed < l.index {
		return false
	}
	l.placeSync = false
	return true
}

// seek finds the place of a frame in a chunk, from where gathering stopped.
func (c *chunk) seek(index core.Index) int {
	at := c.start + FrameHeaderBytes
	if c.placedAt > at {
		at = c.placedAt
	}
	for at < c.used {
		f := readFrameFields(c.slab.Bytes[at:])
		if f.index >= index {
			break
		}
		at += FrameHeaderBytes + f.bytes
	}
	return at
}

// noteFrames keeps the books for frames [first, placed] of a log in a group.
func (j *journal) noteFrames(g *journalGroup, l *Log, first core.Index) {
	if l.placed < first {
		return
	}
	bytes := int64(0)
	for i := first; i <= l.placed; i++ {
		if l.pending.has(i) {
			bytes += int64(l.pending.at(i).bytes)
		}
	}
	j.touch(l, l.placed, bytes)
	l.inGroups++
	g.parts = append(g.parts, groupPart{log: l, first: first, last: l.placed})
	g.sync = g.sync || l.placeSync
}

// touch takes note that the current file holds frames of a log.
func (j *journal) touch(l *Log, last core.Index, bytes int64) {
	f := j.current
	if l.journalFile != f {
		l.journalFile, l.journalTouch = f, len(f.touches)
		f.touches = append(f.touches, journalTouch{log: l})
	}
	t := &f.touches[l.journalTouch]
	t.last = max(t.last, last)
	t.bytes += bytes
}

// addRecord adds a frame that is local to the replica.
func (j *journal) addRecord(g *journalGroup, l *Log, kind FrameKind, index core.Index, payload []byte) {
	h := FrameHeader{
		Kind: kind, PayloadCRC: proto.CRC(payload), Index: index, Bytes: uint32(len(payload)), AppendTime: j.store.wall,
	}
	if l != nil {
		h.Partition, h.Term, h.Generation, h.BaseOffset = l.id.Partition, l.term, l.generation, l.durable
		j.touch(l, 0, 0)
	}
	b := g.slab.Bytes[g.used:]
	h.Put(b)
	copy(b[FrameHeaderBytes:], payload)
	g.added(b[:FrameHeaderBytes+len(payload)], h.PayloadCRC)
}

// add copies a whole frame into the group.
func (g *journalGroup) add(frame []byte) {
	b := g.slab.Bytes[g.used : g.used+len(frame)]
	copy(b, frame)
	g.added(b, framePayloadCRC(b))
}

// added extends the body's checksum over a frame that stands at g.used. For
// large frames it is combined with the payload's own.
func (g *journalGroup) added(b []byte, payload uint32) {
	if len(b) < core.CombineBytesMin {
		g.crc = proto.CRCUpdate(g.crc, b)
	} else {
		g.crc = proto.CRCUpdate(g.crc, b[:FrameHeaderBytes])
		g.crc = proto.CRCCombine(g.crc, payload, len(b)-FrameHeaderBytes)
	}
	g.used += len(b)
}

// issue gives a group its place and sequence and makes its operations.
func (j *journal) issue(g *journalGroup) {
	g.sync = g.sync || j.syncWanted
	core.Assert(!g.sync || j.inFlight == 0, "a sync group is issued after its predecessors")
	j.sequence++
	g.sequence = j.sequence
	end := int(alignUp(int64(g.used)))
	clear(g.slab.Bytes[g.used:end])
	h := GroupHeader{
		Flags: g.flags, Shard: j.store.shard, Layout: j.store.folder.layout, FileGeneration: j.current.generation,
		Sequence: g.sequence, Synced: j.synced, Bytes: uint32(g.used - GroupHeaderBytes), BodyCRC: g.crc, Salt: j.current.salt,
	}
	h.Put(g.slab.Bytes)
	if j.current.first == 0 {
		j.current.first = g.sequence
	}
	g.write = core.DiskOp{Kind: core.DiskWrite, File: j.current.file, Buf: g.slab.Bytes[:end], Offset: j.position, Owner: g}
	g.waiting = 1
	if g.sync {
		g.syncOp = core.DiskOp{Kind: core.DiskSync, File: j.current.file, Owner: g}
		g.write.Next = &g.syncOp
		g.waiting = 2
	}
	j.position += int64(end)
	st := &j.store.stats
	st.JournalGroups++
	st.JournalBytes += uint64(end)
}

// submit hands an issued group to the disk; one that the disk has no room for is held.
func (j *journal) submit(g *journalGroup) bool {
	if !j.store.ports.Disk.Submit(&g.write) {
		j.held = g
		return false
	}
	j.held = nil
	j.inFlight++
	j.flight = append(j.flight, g)
	if g.sync {
		j.syncing = true
		j.syncWanted = false
		j.store.stats.JournalSyncs++
	}
	return true
}

// Complete takes an ended operation of the group.
func (g *journalGroup) Complete(op *core.DiskOp) {
	j := g.journal
	g.waiting--
	if op.Err != nil && j.err == nil {
		j.err = fmt.Errorf("%w: %s at %d of %s, group %d: %w", ErrJournalFailed, op.Kind, g.write.Offset, j.current.path, g.sequence, op.Err)
		j.store.log.Error("the journal failed; nothing in doubt is acked", "error", j.err)
	}
	// A group counts as written when those before it are: replay stops at the first
	// gap, so a later one that overtook them would be lost with them.
	for len(j.flight) > 0 && j.flight[0].waiting == 0 {
		first := j.flight[0]
		n := copy(j.flight, j.flight[1:])
		j.flight[n] = nil
		j.flight = j.flight[:n]
		first.ended()
	}
}

// ended takes note that the group and all before it are where they were to go.
func (g *journalGroup) ended() {
	j := g.journal
	j.inFlight--
	if g.sync {
		j.syncing = false
	}
	if j.err != nil {
		return // the process ends; nothing more is acked
	}
	flags := frameWritten | frameJournaled
	if g.sync {
		flags |= frameDurable
	}
	for i := range g.parts {
		p := &g.parts[i]
		l := p.log
		l.inGroups--
		l.pending.mark(p.first, p.last, flags)
		if !g.sync && !l.inJournalList {
			l.inJournalList = true
			j.unsyncedLogs = append(j.unsyncedLogs, l)
		}
	}
	core.Assert(g.sequence > j.written, "groups end in order")
	j.written = g.sequence
	if g.sync {
		j.synced = max(j.synced, g.sequence)
		j.issueDue() // what has gathered meanwhile is on its way while the acks of this group are made
		j.syncedTo(g.sequence)
	}
	for i := range g.parts {
		g.parts[i].log.advance()
		g.parts[i].log = nil
	}
	if g.recycles != nil {
		j.recycled(g.recycles)
	}
	if g.closes {
		j.store.stopped = true
	}
	j.groups = append(j.groups, g)
}

// syncedTo takes note that every group up to a sequence is durable.
func (j *journal) syncedTo(sequence uint64) {
	j.synced = max(j.synced, sequence)
	for i, l := range j.unsyncedLogs {
		l.pending.markJournalSynced()
		l.inJournalList = false
		l.advance()
		j.unsyncedLogs[i] = nil
	}
	j.unsyncedLogs = j.unsyncedLogs[:0]
}

// bareSync is a sync of the current file without a group.
type bareSync struct {
	journal *journal
	op      core.DiskOp
	upTo    uint64
}

func (j *journal) syncBare() {
	b := &j.bare
	b.journal, b.upTo = j, j.written
	b.op = core.DiskOp{Kind: core.DiskSync, File: j.current.file, Owner: b}
	if !j.store.ports.Disk.Submit(&b.op) {
		return
	}
	j.syncWanted, j.syncing = false, true
	j.store.stats.JournalSyncs++
}

// Complete takes the ended sync.
func (b *bareSync) Complete(op *core.DiskOp) {
	j := b.journal
	j.syncing = false
	if op.Err != nil {
		if j.err == nil {
			j.err = fmt.Errorf("%w: sync of %s: %w", ErrJournalFailed, j.current.path, op.Err)
		}
		return
	}
	j.syncedTo(b.upTo)
}

// roll goes on in a free file, once the one that is full has been synced: a group
// in the next file must not become durable before those in this one. False: not yet.
func (j *journal) roll() bool {
	if j.inFlight > 0 || j.syncing || len(j.free) == 0 {
		return false
	}
	if j.written > j.synced {
		j.syncWanted = true
		return false
	}
	f := j.free[0]
	j.free = append(j.free[:0], j.free[1:]...)
	j.live = append(j.live, f)
	j.current, j.position, f.first = f, FileHeaderBytes, 0
	j.rollWanted, j.rollDone = false, true
	j.store.journalRolled()
	return true
}

func framePayloadCRC(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[12:]) }
