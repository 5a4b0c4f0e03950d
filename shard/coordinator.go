package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/group"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// coordinator keeps the groups of one partition of core.GroupsTopic. Their state is the
// partition's log: a frame holds the whole record of each group that changed in a turn, or
// says that it is gone.
//
//	payload  version u8 (1) | entries to the end
//	entry    kind u8 (1 record, 2 gone) | name: length uvarint, bytes | body: length uvarint, bytes
//
// A command takes effect in memory at once and is answered when the record that shows it is
// durable, so what a member is told survives the coordinator. When a write fails, groups go
// back to their last durable record.
//
// Invariants: byName holds exactly the groups of the log's end and those that are dirty;
// replies wait in the order of the log; floor is at least the last epoch of every group that
// is gone.
type coordinator struct {
	partition *partition
	byName    map[string]*coordinated
	peak      int      // of byName
	sorted    []string // the names of byName, ascending
	weight    int      // of byName together
	tally     groupTally
	floor     int64

	dirty   []*coordinated         // whose record has to be stored, in the order in which they changed
	listed  bool                   // in machine.groupsDirty
	fresh   []*groupReply          // of this turn: their record is in no frame yet
	waiting core.Queue[groupReply] // for their frame to be durable
	undo    core.Queue[groupUndo]  // of frames that are not durable
	sweep   timer                  // for groups without members
	forget  core.Queue[*coordinated]
	asking  int    // groups whose offsets are being dropped
	swept   string // the last name that the sweep has looked at; empty: it begins

	looks   int   // topics that may be looked through for patterns now
	looksAt int64 // monotonic, when that was counted
}

// coordinated is one group with what the coordinator holds for it.
type coordinated struct {
	*group.Group
	coordinator *coordinator
	timer       timer
	record      []byte     // as last appended; nil: it is not in the log
	weight      int        // in coordinator.weight
	tally       groupTally // in coordinator.tally
	stored      core.Index // of the last frame that says something of it
	dirty       bool       // in coordinator.dirty
	beats       map[*group.Member]*groupBeat
	forgetting  *groupForget
	movingSince int64 // monotonic, since when it is being shared out anew; 0: it is settled
}

// groupReply is an answer that waits until what it tells is durable.
type groupReply struct {
	request mail.Request
	group   *coordinated
	body    proto.Message
	err     *proto.Error
	index   core.Index
}

// groupUndo is what the log said of a group before a frame.
type groupUndo struct {
	index  core.Index
	name   string
	before []byte
}

// groupBeat is a HEARTBEAT that waits for another assignment.
type groupBeat struct {
	timer   timer
	group   *coordinated
	member  *group.Member
	epoch   int64 // of the membership that asked: a static member's place may have gone to another process
	request mail.Request
	applied int64
}

// over says whether the membership that asked has ended.
func (b *groupBeat) over() bool {
	return b.member.Epoch != b.epoch || b.group.Member(b.member.ID) != b.member
}

const (
	groupFrameVersion = 1
	groupEntryRecord  = 1
	groupEntryGone    = 2

	// groupFrameBytesMax bounds a frame of several records; a record alone may be larger.
	groupFrameBytesMax = core.GatherFrameBytesMax / 2

	// groupRepliesMax bounds the answers that wait for the disk.
	groupRepliesMax = 16_384
)

// A frame with the largest record fits a group of the smallest journal, or it would never be stored.
const _ = uint(segment.JournalFileBytesMin/2 - 4*core.DiskAlignment - core.GroupRecordBytesMax)

func newCoordinator(p *partition) *coordinator {
	return &coordinator{partition: p, byName: make(map[string]*coordinated)}
}

// start begins what time asks for; the log is recovered. Every member has its session
// time-out, from now on.
func (c *coordinator) start() {
	for _, name := range c.sorted {
		e := c.byName[name]
		if !e.Settled() {
			e.movingSince = max(1, c.machine().now)
			c.count(e)
		}
		c.schedule(e)
	}
	c.armSweep()
}

func (c *coordinator) machine() *Machine { return c.partition.machine }

func (c *coordinator) wallMillis() int64 { return c.machine().wall / int64(time.Millisecond) }

// add makes a group known to the coordinator, in place of one of the same name.
func (c *coordinator) add(g *group.Group) *coordinated {
	e := &coordinated{Group: g, coordinator: c}
	if old := c.byName[g.Name]; old != nil {
		c.weight -= old.weight
		c.tally.take(&old.tally)
	} else {
		i, _ := slices.BinarySearch(c.sorted, g.Name)
		c.sorted = slices.Insert(c.sorted, i, g.Name)
	}
	c.byName[g.Name] = e
	c.weigh(e)
	c.count(e)
	return e
}

// remove forgets a group.
func (c *coordinator) remove(e *coordinated) {
	if c.byName[e.Name] != e {
		return
	}
	delete(c.byName, e.Name)
	c.byName = core.ShrinkMap(c.byName, &c.peak)
	c.weight -= e.weight
	c.tally.take(&e.tally)
	i, _ := slices.BinarySearch(c.sorted, e.Name)
	c.sorted = core.ShrinkSlice(slices.Delete(c.sorted, i, i+1))
}

// groupEntryWeight is what an entry of a frame or a snapshot takes beside its group's name
// and record.
const groupEntryWeight = 1 + 2 + 5

// weigh counts what a group may take in a state file.
func (c *coordinator) weigh(e *coordinated) {
	weight := e.Weight() + len(e.Name) + groupEntryWeight
	c.weight += weight - e.weight
	e.weight = weight
}

// groupTally is what a snapshot shows of groups together. It is kept up to date, because
// there may be a hundred thousand.
type groupTally struct{ members, moving, leftOut int }

func (t *groupTally) give(o *groupTally) {
	t.members += o.members
	t.moving += o.moving
	t.leftOut += o.leftOut
}

func (t *groupTally) take(o *groupTally) {
	t.give(&groupTally{-o.members, -o.moving, -o.leftOut})
}

// count brings the tally up to date with a group.
func (c *coordinator) count(e *coordinated) {
	c.tally.take(&e.tally)
	e.tally = groupTally{members: len(e.Members), leftOut: e.LeftOut}
	if e.movingSince != 0 {
		e.tally.moving = 1
	}
	c.tally.give(&e.tally)
}

// allow tells a group how far it may grow.
func (c *coordinator) allow(e *coordinated) {
	left := core.GroupsBytesMax - (c.weight - e.weight) - len(e.Name) - groupEntryWeight
	e.WeightMax = min(left, core.GroupRecordBytesMax)
}

// changed goes on after a group may have changed: its record is stored, those who wait for
// another assignment get it, and its next deadline is armed.
func (c *coordinator) changed(e *coordinated) {
	m := c.machine()
	if e.Dirty && c.byName[e.Name] == e {
		c.weigh(e)
	}
	if e.Dirty && !e.dirty {
		e.dirty = true
		c.dirty = append(c.dirty, e)
		c.list()
	}
	if settled := e.Settled(); settled && e.movingSince != 0 {
		m.stats.Rebalances++
		m.stats.RebalanceNanos += m.now - e.movingSince
		e.movingSince = 0
	} else if !settled && e.movingSince == 0 {
		e.movingSince = max(1, m.now)
	}
	if c.byName[e.Name] == e {
		c.count(e)
	}
	if len(e.beats) > 0 {
		var due []*groupBeat
		for _, b := range e.beats {
			if b.over() || b.member.Version != b.applied {
				due = append(due, b)
			}
		}
		slices.SortFunc(due, func(a, b *groupBeat) int { // no order of a map reaches an output
			if a.request.Received != b.request.Received {
				return int(max(-1, min(1, a.request.Received-b.request.Received)))
			}
			return slices.Compare([]byte(a.member.ID), []byte(b.member.ID))
		})
		for _, b := range due {
			b.end()
		}
	}
	c.schedule(e)
}

func (c *coordinator) schedule(e *coordinated) {
	if at, ok := e.Deadline(); ok {
		c.machine().wheel.arm(&e.timer, e, at)
	} else {
		c.machine().wheel.disarm(&e.timer)
	}
}

// pauseNanos is how late a deadline may be noticed and still count: beyond it, it was this
// process that slept, and nobody could be heard.
const pauseNanos = int64(time.Second)

// expire removes members that were not heard of.
func (e *coordinated) expire() {
	c := e.coordinator
	m := c.machine()
	if at, ok := e.Deadline(); ok && m.now-at > pauseNanos {
		e.Postpone(m.now)
	}
	e.Expire(c.wallMillis(), m.now)
	c.changed(e)
}

// looksPerSecond bounds how many topics one coordinator holds against the patterns of its
// groups, so that many patterns and many new topics cost a part of a core, and the groups
// find the topics a little later.
const looksPerSecond = 200_000

// mayLook says whether another group may look for topics. A look is never cut short: what
// it takes beyond is paid back before the next one.
func (c *coordinator) mayLook() bool {
	now := c.machine().now
	elapsed := min(now-c.looksAt, int64(time.Second))
	if more := elapsed * looksPerSecond / int64(time.Second); more > 0 {
		c.looks, c.looksAt = min(c.looks+int(more), looksPerSecond), now
	}
	return c.looks > 0
}

// list puts the coordinator among those that have something for this turn's frames.
func (c *coordinator) list() {
	if !c.listed {
		c.listed = true
		m := c.machine()
		m.groupsDirty = append(m.groupsDirty, c)
	}
}

// reply answers once the group's record is durable; e may be nil.
func (c *coordinator) reply(r *mail.Request, e *coordinated, body proto.Message, err *proto.Error) {
	if e != nil && (e.Dirty || c.inFlight(e)) {
		c.fresh = append(c.fresh, &groupReply{request: *r, group: e, body: body, err: err})
		c.list()
		return
	}
	c.answer(&groupReply{request: *r, body: body, err: err})
}

// inFlight says whether a record of the group is on its way to the disk.
func (c *coordinator) inFlight(e *coordinated) bool {
	return e.stored > c.partition.log.DurableIndex()
}

func (c *coordinator) answer(a *groupReply) {
	if a.err != nil {
		c.machine().refuseRequest(&a.request, a.err)
	} else {
		c.machine().answerAdmin(&a.request, a.body)
	}
}

// flushGroups stores what changed in this turn.
func (m *Machine) flushGroups() {
	kept := m.groupsDirty[:0]
	for _, c := range m.groupsDirty {
		if c.flush() {
			c.listed = false
			continue
		}
		kept = append(kept, c)
	}
	clear(m.groupsDirty[len(kept):])
	m.groupsDirty = kept
}

// flush returns whether nothing is left to store.
func (c *coordinator) flush() bool {
	p, m := c.partition, c.machine()
	for len(c.dirty) > 0 {
		payload := append(m.cursorPayload[:0], groupFrameVersion)
		var undo []groupUndo
		n := 0
		for ; n < len(c.dirty); n++ {
			e := c.dirty[n]
			kind, record, body := byte(groupEntryRecord), []byte(nil), []byte(nil)
			if c.byName[e.Name] != e { // deleted
				kind, body = groupEntryGone, binary.BigEndian.AppendUint64(nil, uint64(e.Last))
			} else {
				record = e.AppendRecord(nil)
				body = record
			}
			if n > 0 && len(payload)+groupEntryWeight+len(e.Name)+len(body) > groupFrameBytesMax {
				break
			}
			payload = appendGroupEntry(payload, kind, e.Name, body)
			undo = append(undo, groupUndo{name: e.Name, before: e.record})
			e.record = record
		}
		m.cursorPayload = payload
		if err := m.store.AppendControl(p.log, segment.FrameCursor, payload, core.DurabilitySync, true); err != nil {
			for i, u := range undo {
				c.dirty[i].record = u.before
			}
			if errors.Is(err, segment.ErrStoreStopping) {
				c.failFresh(storageError(err))
				c.dirty = nil
				return true
			}
			return false
		}
		for i, u := range undo {
			u.index = p.log.LastIndex()
			c.undo.Push(u)
			c.dirty[i].dirty, c.dirty[i].Dirty, c.dirty[i].stored = false, false, u.index
		}
		c.dirty = slices.Delete(c.dirty, 0, n)
	}
	c.dirty = core.ShrinkSlice(c.dirty)
	// In the order of the log: a reply waits for the last frame of this turn at most.
	for _, a := range c.fresh {
		a.index = p.log.LastIndex()
		c.waiting.Push(*a)
	}
	clear(c.fresh)
	c.fresh = core.ShrinkSlice(c.fresh[:0])
	c.settle()
	return true
}

func appendGroupEntry(b []byte, kind byte, name string, body []byte) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// settle answers what has become durable.
func (c *coordinator) settle() {
	durable := c.partition.log.DurableIndex()
	for c.undo.Len() > 0 && c.undo.Front().index <= durable {
		c.undo.Pop()
	}
	c.undo.Rest()
	for c.waiting.Len() > 0 && c.waiting.Front().index <= durable {
		a := c.waiting.Pop()
		c.answer(&a)
	}
	c.waiting.Rest()
}

// rollBack takes groups back to what the log still says of them: it ends at last.
func (c *coordinator) rollBack(last core.Index, err *proto.Error) {
	m := c.machine()
	back := make(map[string][]byte)
	for c.undo.Len() > 0 && c.undo.At(c.undo.Len()-1).index > last {
		u := c.undo.PopBack()
		back[u.name] = u.before
	}
	for _, e := range c.dirty {
		if _, ok := back[e.Name]; !ok {
			back[e.Name] = e.record
		}
	}
	c.dirty = nil
	names := make([]string, 0, len(back))
	for name := range back {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var forget *groupForget
		if e := c.byName[name]; e != nil {
			m.wheel.disarm(&e.timer)
			e.endBeats(err)
			c.remove(e)
			forget = e.forgetting
		}
		if back[name] == nil {
			if forget != nil {
				c.asking--
			}
			continue
		}
		g, bad := group.ParseRecord(name, back[name], m.now)
		core.Assert(bad == nil, "a record that was written can be read")
		e := c.add(g)
		e.record, e.forgetting, e.stored = back[name], forget, last // of its frames the last one may be in flight
		c.schedule(e)
	}
	for n := c.waiting.Len(); n > 0; n-- {
		if a := c.waiting.Pop(); a.index <= last {
			c.waiting.Push(a)
		} else {
			m.refuseRequest(&a.request, err)
		}
	}
	c.failFresh(err)
}

func (c *coordinator) failFresh(err *proto.Error) {
	fresh := c.fresh
	c.fresh = nil
	for _, a := range fresh {
		c.machine().refuseRequest(&a.request, err)
	}
}

// end refuses everything that waits.
func (c *coordinator) end(err *proto.Error) {
	for _, name := range c.sorted {
		c.byName[name].endBeats(err)
	}
	c.machine().wheel.disarm(&c.sweep)
}

// replay learns from a frame of the log.
func (c *coordinator) replay(payload []byte) error {
	if len(payload) == 0 || payload[0] != groupFrameVersion {
		return fmt.Errorf("frame of groups of %d bytes: not of version %d, which this build reads", len(payload), groupFrameVersion)
	}
	for rest := payload[1:]; len(rest) > 0; {
		kind := rest[0]
		name, after, ok := cutText(rest[1:])
		if !ok {
			return errors.New("frame of groups: an entry is cut short")
		}
		body, after, ok := cutText(after)
		if !ok {
			return fmt.Errorf("frame of groups: the entry of group %s is cut short", core.Quote(string(name)))
		}
		rest = after
		switch {
		case kind == groupEntryRecord:
			g, err := group.ParseRecord(string(name), body, c.machine().now)
			if err != nil {
				return err
			}
			c.add(g).record = slices.Clone(body)
		case kind == groupEntryGone && len(body) == 8:
			if e := c.byName[string(name)]; e != nil {
				c.remove(e)
			}
			c.floor = max(c.floor, int64(binary.BigEndian.Uint64(body)))
		default:
			return fmt.Errorf("frame of groups: an entry of kind %d, which this build does not read", kind)
		}
	}
	return nil
}

func cutText(b []byte) (head, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	return b[width : width+int(n)], b[width+int(n):], true
}

// snapshot appends the records of the log's end: floor i64, then a frame's payload.
func (c *coordinator) snapshot(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.floor))
	b = append(b, groupFrameVersion)
	for _, name := range c.sorted {
		if record := c.byName[name].record; record != nil {
			b = appendGroupEntry(b, groupEntryRecord, name, record)
		}
	}
	return b
}

// restore replaces everything by what snapshot wrote; nothing is an empty log.
func (c *coordinator) restore(b []byte) error {
	c.byName, c.peak, c.sorted, c.weight, c.tally, c.floor = make(map[string]*coordinated), 0, nil, 0, groupTally{}, 0
	if len(b) == 0 {
		return nil
	}
	if len(b) < 9 {
		return fmt.Errorf("state of groups of %d bytes is cut short", len(b))
	}
	c.floor = int64(binary.BigEndian.Uint64(b))
	return c.replay(b[8:])
}
