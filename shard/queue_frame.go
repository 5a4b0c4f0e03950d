package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
)

// queueTurn is what one frame says of one group, with who waits for it.
type queueTurn struct {
	queue   *queueGroup
	head    queue.Head
	ops     []queue.Op
	settles []*settlement
	grants  []*grant
	next    *queueTurn // of the same frame
}

// encode appends an entry of ops to a payload, as many as it has room for, and returns how many those are.
func (q *queueGroup) encode(payload []byte, head queue.Head) ([]byte, int) {
	sortOps(q)
	m := q.machine()
	body, behind, n := head.Append(m.queueBody[:0]), int64(0), 0
	for ; n < len(q.ops) && len(payload)+len(body) < cursorFrameBytesMax; n++ {
		body = q.ops[n].Append(body, behind)
		behind = q.ops[n].Next
	}
	m.queueBody = body
	if n == 0 {
		return payload, 0
	}
	e := cursor.Entry{Kind: cursor.Queue, Group: q.name, Queue: body}
	return e.Append(payload), n
}

// sortOps brings the ops of a turn into the order of their offsets: no two are about one record, so they may be sorted, and
// then many are one.
func sortOps(q *queueGroup) {
	byBase := func(a, b queue.Op) int { return cmp.Compare(a.Base, b.Base) }
	if slices.IsSortedFunc(q.ops, byBase) {
		return
	}
	slices.SortStableFunc(q.ops, byBase)
	merged := q.ops[:0]
	for _, op := range q.ops {
		merged = queue.Add(merged, op)
	}
	clear(q.ops[len(merged):])
	q.ops = merged
}

// head is what the ops of a turn have in common.
func (q *queueGroup) head() queue.Head {
	s, _ := q.partition.cursors.table.Get(q.name)
	return queue.Head{Owner: s.Owner, Time: q.machine().wall / int64(time.Millisecond)}
}

// appendQueues appends the groups' entries to the payload of a cursor frame. What goes into it is noted in turns, and taken
// off the groups by queuesAppended, when the log has taken the frame.
func (p *partition) appendQueues(payload []byte) []byte {
	cs, m := p.cursors, p.machine
	cs.keepDirty(func(q *queueGroup) bool { return len(q.ops) > 0 }) // those of others were for a window that is no more
	for _, q := range cs.queuesDirty {
		if len(payload) >= cursorFrameBytesMax {
			break
		}
		part := queuePart{queue: q, head: q.head()}
		payload, part.ops = q.encode(payload, part.head)
		m.queueParts = append(m.queueParts, part)
	}
	return payload
}

// queuePart says how many ops of a group are in a frame.
type queuePart struct {
	queue *queueGroup
	head  queue.Head
	ops   int
}

// queuesAppended moves what is in the frame from the groups to the frame.
func (p *partition) queuesAppended() *queueTurn {
	cs, m := p.cursors, p.machine
	var first, last *queueTurn
	for _, part := range m.queueParts {
		q := part.queue
		t := m.pools.queueTurn()
		t.queue, t.head = q, part.head
		if part.ops == len(q.ops) {
			t.ops, q.ops = q.ops, t.ops[:0]
			t.settles, q.settles = q.settles, t.settles[:0]
			t.grants, q.grants = q.grants, t.grants[:0]
		} else { // who waits, waits for all
			t.ops = append(t.ops, q.ops[:part.ops]...)
			q.ops = slices.Delete(q.ops, 0, part.ops)
		}
		if last == nil {
			first = t
		} else {
			last.next = t
		}
		last = t
	}
	cs.keepDirty(func(q *queueGroup) bool { return len(q.ops) > 0 })
	return first
}

// keepDirty takes the groups off the turn's frame that need none.
func (cs *cursors) keepDirty(which func(*queueGroup) bool) {
	kept := cs.queuesDirty[:0]
	for _, q := range cs.queuesDirty {
		if q.dirty = which(q); q.dirty {
			kept = append(kept, q)
		}
	}
	clear(cs.queuesDirty[len(kept):])
	cs.queuesDirty = kept
}

// stored lets a turn's ops take effect, and goes on with who waited for them.
func (t *queueTurn) stored() {
	q := t.queue
	p := q.partition
	outcome := p.cursors.table.ApplyQueue(q.name, t.head, t.ops)
	stale := outcome == cursor.Stale
	if !stale {
		q.countDead(t.ops)
	}
	for _, g := range t.grants {
		g.stored(stale)
	}
	for _, s := range t.settles {
		s.stored(stale)
	}
	if q.window != nil {
		if int64(q.trimmed) <= q.window.Low() {
			q.trimmed = 0
		}
		q.arm()
		q.bury()
		q.enqueue()
	}
	q.done(t)
}

// countDead counts the records that are given up.
func (q *queueGroup) countDead(ops []queue.Op) {
	for i := range ops {
		n := uint64(ops[i].Next - ops[i].Base)
		switch ops[i].Kind {
		case queue.Die:
			q.count(QueueCounts{Dying: n})
		case queue.Bury:
			q.count(QueueCounts{Dead: n})
		}
	}
}

// lost says that a turn's frame is gone: the records are again what they were.
func (t *queueTurn) lost(err *proto.Error) {
	t.queue.revert(t.ops, t.settles, t.grants, err)
	t.queue.done(t)
}

func (q *queueGroup) revert(ops []queue.Op, settles []*settlement, grants []*grant, err *proto.Error) {
	if q.window != nil {
		for i := range ops {
			q.window.Revert(ops[i].Base, ops[i].Next)
		}
	}
	q.trimmed = 0
	if q.burial != nil {
		q.burial.again()
	}
	for _, g := range grants {
		g.lost()
	}
	for _, s := range settles {
		s.lost(err)
	}
	q.arm()
	q.enqueue()
}

func (q *queueGroup) done(t *queueTurn) {
	q.machine().pools.putQueueTurn(t)
	q.release()
}

// failQueues ends everything that is in no frame yet.
func (p *partition) failQueues(err *proto.Error) {
	cs := p.cursors
	cs.keepDirty(func(*queueGroup) bool { return false })
	for _, q := range slices.Clone(cs.queueList) {
		ops, settles, grants := q.ops, q.settles, q.grants
		q.ops, q.settles, q.grants = nil, nil, nil
		q.revert(ops, settles, grants, err)
	}
}

// void ends what is in no frame yet and was for a window that is no more.
func (q *queueGroup) void() {
	settles, grants := q.settles, q.grants
	q.ops, q.settles, q.grants = nil, nil, nil
	for _, g := range grants {
		g.stored(true)
	}
	for _, s := range settles {
		s.stored(true)
	}
}

// queueChanged goes on after an entry about a group that is none of a turn: its begin, a seek, or the end of the group.
func (p *partition) queueChanged(e *cursor.Entry) {
	cs := p.cursors
	w := cs.table.Window(e.Group)
	q := cs.queues[e.Group]
	if q == nil {
		if w == nil {
			return
		}
		q = p.queueFor(e.Group)
	}
	switch {
	case e.Kind == cursor.Queue:
		q.window = w
	case w == nil && q.window == nil:
		return
	case w == nil:
		q.window = nil
		q.endBurial()
		q.void()
		q.endShares(proto.CodeUnknownGroup.Errorf("group %s was deleted, or forgotten after it had not settled anything for long", core.Quote(q.name)))
		q.forgetAll()
	default:
		q.endBurial()
		q.void()
		q.trimmed = 0
		for _, s := range slices.Clone(q.shares) {
			if s.begun && s.owner < e.Epoch {
				s.fail(staleOwner(q.name, p, s.owner, e.Epoch))
			}
		}
	}
	q.trim()
	q.arm()
	q.enqueue()
	q.release()
}

// endShares tells the members why no more will come.
func (q *queueGroup) endShares(err *proto.Error) {
	for _, s := range slices.Clone(q.shares) {
		if s.begun {
			s.fail(err)
		}
	}
}

// truncateQueues forgets records that the log has lost.
func (p *partition) truncateQueues(next core.Offset) {
	if p.cursors == nil {
		return
	}
	for _, q := range p.cursors.queueList {
		if q.window != nil {
			q.window.Truncate(int64(next))
		}
	}
}

// endQueues tells everybody who leases that no more will come.
func (p *partition) endQueues(err *proto.Error) {
	if p.cursors == nil {
		return
	}
	for _, q := range slices.Clone(p.cursors.queueList) {
		p.machine.wheel.disarm(&q.timer)
		q.endBurial()
		q.endShares(err)
		q.forgetAll()
	}
}
