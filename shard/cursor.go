package shard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

const (
	// cursorWishesMax bounds the commits of one partition that wait for their frame or its sync.
	cursorWishesMax = 4096

	// cursorFrameBytesMax bounds one cursor frame; what is more goes into the next turn's.
	cursorFrameBytesMax = core.GatherFrameBytesMax / 2
)

// cursors is what a partition keeps for the groups that read it. A partition that no group
// reads has none.
//
// Invariants: table holds exactly the entries of the frames that have reached the level that
// they were appended with; waiting are the frames behind them, in log order; gathered is in
// no frame yet.
type cursors struct {
	table    cursor.Table
	gathered []*cursorWish
	waiting  core.Queue[cursorFrame]
	wishes   int  // gathered, and in the frames that wait
	growth   int  // by how much they may make the table's snapshot grow, bytes
	windows  int  // and that of the windows
	listed   bool // in machine.cursorDirty
	known    bool // in machine.cursorPartitions
	marks    lagMarks

	queues      map[string]*queueGroup
	queuesPeak  int
	queueList   []*queueGroup // the same
	queuesDirty []*queueGroup // with ops for the turn's frame
	settles     int           // ranges of SETTLEs that wait
	queueFrames int           // of those waiting, with entries of queue groups
}

// cursorFrame is one frame on its way to the disk.
type cursorFrame struct {
	index  core.Index
	sync   bool // its entries take effect when they are durable, else when they are written
	wishes []*cursorWish
	queues *queueTurn // behind the wishes
}

// cursorWish is one entry with who waits for it.
type cursorWish struct {
	patience // of a client; its machine is nil when a shard asked
	entry    cursor.Entry
	growth   int         // of the table's snapshot, at most
	windows  int         // of that of the windows
	lease    *leaseShare // of a group's begin
	forget   *forgetting // of a shard
}

func (p *partition) cursorsFor() *cursors {
	if p.cursors == nil {
		p.cursors = &cursors{}
	}
	return p.cursors
}

// cursor takes one item about a group's progress.
func (m *Machine) cursor(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err == nil && p.coordinator != nil {
		err = errGroupsTopic
	}
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	c := r.Body.(*mail.Cursor)
	e := cursor.Entry{Group: c.Group, Epoch: c.Owner, Offset: c.Offset, LastEpoch: c.LastEpoch, Time: m.wall / int64(time.Millisecond), Metadata: c.Metadata}
	switch c.Deed {
	case mail.CursorAsk:
		p.answerCursor(r, c.Group, nil)
		return
	case mail.CursorOwn:
		e.Kind = cursor.Own
	case mail.CursorCommit:
		e.Kind = cursor.Commit
	case mail.CursorSeek:
		e.Kind = cursor.Seek
	}
	if e.Kind != cursor.Own && (core.Offset(c.Offset) < p.log.StartOffset() || core.Offset(c.Offset) > p.highWatermark()) {
		m.refuseRequest(r, p.outOfRange(core.Offset(c.Offset)))
		return
	}
	cs := p.cursorsFor()
	known, _ := cs.table.Get(c.Group)
	if cs.table.Window(c.Group) != nil && e.Kind != cursor.Seek {
		m.refuseRequest(r, proto.CodeGroupKindMismatch.Errorf("group %s is a queue group, whose members lease and settle records; nothing was changed", core.Quote(c.Group)))
		return
	}
	stale := known.Owner > c.Owner
	switch e.Kind {
	case cursor.Seek:
		stale = known.Owner >= c.Owner
	case cursor.Commit:
		stale = known.Owner != c.Owner
	}
	if stale { // so it is told at once; the entry would do nothing
		m.refuseRequest(r, staleOwner(c.Group, p, c.Owner, known.Owner))
		return
	}
	if e.Kind == cursor.Own && known.Owner == c.Owner {
		p.answerOwned(r, c.Group) // a repetition: what makes an owner takes effect when it is durable
		return
	}
	if e.Kind == cursor.Commit && known.Passed(&e) && (p.topic.Config.Durability != core.DurabilitySync || cs.table.AllDurable()) {
		m.stats.Commits++
		p.answerCursor(r, c.Group, nil) // a repetition too; of a topic that was raised to sync it still waits for the disk
		return
	}
	if cs.wishes >= cursorWishesMax {
		m.refuseRequest(r, errOverloadedCursor)
		return
	}
	w := &cursorWish{entry: e, growth: cs.table.Growth(&e)}
	if held := cs.table.Bytes() + cs.growth; w.growth > 0 && held+w.growth > core.CursorBytesMax {
		err := proto.CodeGroupFull.Errorf("partition %d of topic %s keeps the offsets of %d groups in %d bytes, and allowed are %d bytes: delete groups that are done, or commit less metadata",
			p.number, p.topic.Name, cs.table.Groups(), held, core.CursorBytesMax)
		err.Limit = core.CursorBytesMax
		m.refuseRequest(r, err)
		return
	}
	m.await(&w.patience, r)
	p.wish(w)
}

func staleOwner(group string, p *partition, epoch, owner int64) *proto.Error {
	if owner < epoch {
		return proto.CodeStaleEpoch.Errorf("group %s, partition %d of topic %s: epoch %d does not own it, take it over by FETCH_OFFSETS; when it has done that, the group was deleted meanwhile; nothing was changed",
			core.Quote(group), p.number, p.topic.Name, epoch)
	}
	return proto.CodeStaleEpoch.Errorf("group %s, partition %d of topic %s: epoch %d has passed, epoch %d owns it now; nothing was changed",
		core.Quote(group), p.number, p.topic.Name, epoch, owner)
}

// wish puts an entry into the turn's frame.
func (p *partition) wish(w *cursorWish) {
	cs := p.cursorsFor()
	cs.gathered = append(cs.gathered, w)
	cs.wishes++
	cs.growth += w.growth
	cs.windows += w.windows
	p.listDirty()
}

// listDirty has the partition write a frame in this turn.
func (p *partition) listDirty() {
	if !p.cursors.listed {
		p.cursors.listed = true
		p.machine.cursorDirty = append(p.machine.cursorDirty, p)
	}
	p.listCursors()
}

// unwish takes an entry off the books; it takes effect, or never will.
func (cs *cursors) unwish(w *cursorWish) {
	cs.wishes--
	cs.growth -= w.growth
	cs.windows -= w.windows
}

// listCursors puts the partition among those that groups read.
func (p *partition) listCursors() {
	if !p.cursors.known {
		p.cursors.known = true
		p.machine.cursorPartitions = append(p.machine.cursorPartitions, p)
	}
}

// flushCursors appends the turn's entries, one frame for each partition.
func (m *Machine) flushCursors() {
	kept := m.cursorDirty[:0]
	for _, p := range m.cursorDirty {
		if p.gone || p.flushCursors() {
			p.cursors.listed = false
			continue
		}
		kept = append(kept, p)
	}
	clear(m.cursorDirty[len(kept):])
	m.cursorDirty = kept
}

// flushCursors returns whether nothing is left to append.
func (p *partition) flushCursors() bool {
	cs, m := p.cursors, p.machine
	f := cursorFrame{sync: p.topic.Config.Durability == core.DurabilitySync}
	payload := cursor.AppendHead(m.cursorPayload[:0])
	n := 0
	for ; n < len(cs.gathered) && len(payload) < cursorFrameBytesMax; n++ {
		e := &cs.gathered[n].entry
		payload = e.Append(payload)
		// Who takes over reads when it is answered, so that must hold after a power cut too.
		f.sync = f.sync || e.Kind != cursor.Commit
	}
	m.queueParts = m.queueParts[:0]
	// The journal has one sync under way at a time. What comes meanwhile is on time for the next
	// one when it is written after it, and takes one frame instead of one each turn.
	if n == len(cs.gathered) && (n > 0 || cs.queueFrames == 0) {
		payload = p.appendQueues(payload)
		f.sync = f.sync || len(m.queueParts) > 0 // what is leased and settled holds after a power cut
	}
	if m.cursorPayload = payload; n == 0 && len(m.queueParts) == 0 {
		return len(cs.queuesDirty) == 0
	}
	level := core.DurabilityBatch
	if f.sync {
		level = core.DurabilitySync
	}
	if err := m.store.AppendControl(p.log, segment.FrameCursor, payload, level, true); err != nil {
		if errors.Is(err, segment.ErrStoreStopping) || errors.Is(err, segment.ErrLogDropped) {
			p.failCursors(storageError(err))
			return true
		}
		return false // there is no room in this turn; the wishes have their time-outs
	}
	f.index = p.log.LastIndex()
	f.wishes = append(f.wishes, cs.gathered[:n]...)
	cs.gathered = core.ShrinkSlice(slices.Delete(cs.gathered, 0, n))
	if f.queues = p.queuesAppended(); f.queues != nil {
		cs.queueFrames++
	}
	cs.waiting.Push(f)
	m.stats.CursorFrames++
	return len(cs.gathered) == 0 && len(cs.queuesDirty) == 0
}

// settleCursors lets entries take effect that have reached their level, and answers.
func (p *partition) settleCursors() {
	cs := p.cursors
	if cs == nil {
		return
	}
	durable, written := p.log.DurableIndex(), p.log.WrittenIndex()
	cs.table.Durable(durable)
	for cs.waiting.Len() > 0 {
		f := cs.waiting.Front()
		if f.sync && f.index > durable || f.index > written {
			return
		}
		for _, w := range f.wishes {
			cs.unwish(w)
			outcome := cs.table.Apply(f.index, &w.entry, f.index > durable)
			if outcome == cursor.Done && w.entry.Kind != cursor.Commit && w.entry.Kind != cursor.Own {
				p.queueChanged(&w.entry)
			}
			p.cursorDone(w, outcome)
		}
		turns := f.queues
		if cs.waiting.Pop(); turns != nil {
			cs.queueFrames--
		}
		for turns != nil {
			next := turns.next
			turns.stored()
			turns = next
		}
	}
}

func (p *partition) cursorDone(w *cursorWish, outcome cursor.Outcome) {
	if w.forget != nil {
		w.forget.done(p)
		return
	}
	if outcome == cursor.Done && w.entry.Kind != cursor.Commit {
		p.machine.claimed(&w.entry)
	}
	if w.lease != nil {
		w.lease.leaseBegun(w, outcome)
		return
	}
	if !w.end() {
		return
	}
	r := &w.request
	switch {
	case outcome == cursor.Stale:
		now, _ := p.cursors.table.Get(w.entry.Group)
		p.machine.refuseRequest(r, staleOwner(w.entry.Group, p, w.entry.Epoch, now.Owner))
	case w.entry.Kind == cursor.Own:
		p.answerOwned(r, w.entry.Group)
	default:
		p.machine.stats.Commits++
		p.answerCursor(r, w.entry.Group, nil)
	}
}

// answerOwned answers a take-over; a committed offset that the log no longer holds is told.
func (p *partition) answerOwned(r *mail.Request, group string) {
	s, _ := p.cursors.table.Get(group)
	var err *proto.Error
	if at := core.Offset(s.Offset); at >= 0 && (at < p.log.StartOffset() || at > p.highWatermark()) {
		err = p.outOfRange(at)
	}
	p.answerCursor(r, group, err)
}

func (p *partition) answerCursor(r *mail.Request, group string, err *proto.Error) {
	m := p.machine
	state := p.cursorState(group)
	state.Err = err
	m.answer = mail.Answer{
		Kind: mail.AnswerCursor, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: p.leaderEpoch(), Offset: core.Offset(state.Offset), Timestamp: -1,
		LogStartOffset: state.LogStartOffset, HighWatermark: state.HighWatermark, LogEndOffset: p.log.EndOffset(), Received: r.Received, Body: &state,
	}
	m.send(r.Reactor)
}

func (p *partition) cursorState(group string) mail.CursorState {
	s := cursor.None
	if p.cursors != nil {
		s, _ = p.cursors.table.Get(group)
	}
	at := s.Time
	if s.Offset < 0 {
		at = -1
	}
	return mail.CursorState{
		Topic: p.topic.ID, Number: p.number, Owner: s.Owner, Offset: s.Offset, LastEpoch: s.LastEpoch, Metadata: s.Metadata, Time: at,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(),
	}
}

// cursors answers what a group has committed to all partitions of this shard.
func (m *Machine) cursors(r *mail.Request) {
	if m.stopping {
		m.refuseRequest(r, errShuttingDown)
		return
	}
	group := r.Body.(string)
	var found []mail.CursorState
	for _, p := range m.cursorPartitions {
		if _, ok := p.cursors.table.Get(group); ok && !p.gone {
			found = append(found, p.cursorState(group))
		}
	}
	slices.SortFunc(found, func(a, b mail.CursorState) int {
		if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
			return c
		}
		return cmp.Compare(a.Number, b.Number)
	})
	m.answer = mail.Answer{Kind: mail.AnswerCursors, Conn: r.Conn, ID: r.ID, LeaderEpoch: -1, Offset: -1, Timestamp: -1, Received: r.Received, Body: found}
	m.send(r.Reactor)
}

// rollBackCursors takes back what was lost with the log's tail.
func (p *partition) rollBackCursors(err *proto.Error) {
	cs := p.cursors
	if cs == nil {
		return
	}
	last := p.log.LastIndex()
	cs.table.Rollback(last)
	for n := cs.waiting.Len(); n > 0; n-- {
		f := cs.waiting.Pop()
		if f.index <= last {
			cs.waiting.Push(f)
			continue
		}
		cs.failFrame(p, &f, err)
	}
	p.failQueues(err) // some of it may be about records that are lost
}

// failCursors ends everything that waits.
func (p *partition) failCursors(err *proto.Error) {
	cs := p.cursors
	if cs == nil {
		return
	}
	for cs.waiting.Len() > 0 {
		f := cs.waiting.Pop()
		cs.failFrame(p, &f, err)
	}
	p.failQueues(err)
	gathered := cs.gathered
	cs.gathered = nil
	cs.failWishes(p, gathered, err)
}

func (cs *cursors) failFrame(p *partition, f *cursorFrame, err *proto.Error) {
	cs.failWishes(p, f.wishes, err)
	if f.queues != nil {
		cs.queueFrames--
	}
	for t := f.queues; t != nil; {
		next := t.next
		t.lost(err)
		t = next
	}
}

func (cs *cursors) failWishes(p *partition, wishes []*cursorWish, err *proto.Error) {
	for _, w := range wishes {
		cs.unwish(w)
		switch {
		case w.forget != nil:
			w.forget.done(p)
		case w.lease != nil:
			w.lease.leaseFailed(w, err)
		case w.end():
			p.machine.refuseRequest(&w.request, err)
		}
	}
}

// replayCursors learns from a frame what settleCursors would have.
func (p *partition) replayCursors(h *segment.FrameHeader, payload []byte) {
	cs := p.cursorsFor()
	err := cursor.Parse(payload, func(e *cursor.Entry) error {
		if cs.table.Apply(h.Index, e, false) == cursor.Unreadable {
			return fmt.Errorf("cursor frame of %d bytes: an entry of a queue group that this build does not read", len(payload))
		}
		return nil
	})
	if err != nil && p.replayErr == nil {
		p.replayErr = err
	}
}

// cursorSnapshot is the table at the log's end: what took effect, and what is in the log
// behind it.
func (cs *cursors) snapshot() *cursor.Table {
	if cs.waiting.Len() == 0 {
		return &cs.table
	}
	at := cs.table.Clone()
	for i := range cs.waiting.Len() {
		f := cs.waiting.At(i)
		for _, w := range f.wishes {
			at.Apply(f.index, &w.entry, false)
		}
		for t := f.queues; t != nil; t = t.next {
			at.ApplyQueue(t.queue.name, t.head, t.ops)
		}
	}
	return at
}
