package shard

import (
	"math"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// A group whose time is over is forgotten in three steps: every shard says whether the group
// has committed to it lately, then every shard drops what the group has committed, durably,
// and then the coordinator drops the group. A group that is deleted begins at the second. A
// crash in between leaves a group without offsets, which is forgotten again.

// forgetAll is the time of a letter that asks for the second step.
const forgetAll = math.MaxInt64

// forgettingMax bounds the groups of one coordinator whose offsets are being dropped at a time.
const forgettingMax = 64

// groupForget is a group on its way out.
type groupForget struct {
	group   *coordinated
	number  uint64
	before  int64         // milliseconds: later commits keep the group; forgetAll: nothing does
	request *mail.Request // of DELETE_GROUP; nil when its time was over
	left    int           // shards that have not answered
	unsent  []core.ShardID
	kept    int64 // time of the latest commit that keeps the group; 0 none
}

func (c *coordinator) delete(r *mail.Request, b *proto.DeleteGroupRequest) *proto.Error {
	e, err := c.existing(b.Group)
	if err != nil {
		return err
	}
	if len(e.Members) > 0 {
		return notEmpty(e)
	}
	if c.asking >= forgettingMax {
		return errOverloadedGroups
	}
	request := *r
	c.beginForget(e, forgetAll, &request)
	return nil
}

// beginForget asks every shard.
func (c *coordinator) beginForget(e *coordinated, before int64, request *mail.Request) {
	m := c.machine()
	m.forgets++
	e.forgetting = &groupForget{group: e, number: m.forgets, before: before, request: request}
	c.asking++
	c.askShards(e)
}

func (c *coordinator) askShards(e *coordinated) {
	m := c.machine()
	for shard := range m.options.Shards {
		e.forgetting.unsent = append(e.forgetting.unsent, core.ShardID(shard))
	}
	e.forgetting.left = m.options.Shards
	c.forget.Push(e)
	if !slices.Contains(m.forgetters, c) {
		m.forgetters = append(m.forgetters, c)
	}
}

// sendForgets hands letters to the rings that have room.
func (m *Machine) sendForgets() {
	for n := len(m.forgetters); n > 0; n-- {
		c := m.forgetters[0]
		m.forgetters = slices.Delete(m.forgetters, 0, 1)
		if !c.sendForgets() && !slices.Contains(m.forgetters, c) {
			m.forgetters = append(m.forgetters, c)
		}
	}
}

func (c *coordinator) sendForgets() bool {
	m := c.machine()
	for c.forget.Len() > 0 {
		e := *c.forget.Front()
		f := e.forgetting
		for f != nil && len(f.unsent) > 0 {
			l := mail.Letter{Kind: mail.LetterForget, From: m.options.Shard, Change: f.number, Partition: c.partition.id, Group: e.Name, Time: f.before, Owner: ownerAny}
			shard := f.unsent[0]
			if shard != m.options.Shard && !m.ports.Out.Letter(shard, &l) {
				return false
			}
			f.unsent = f.unsent[1:]
			if shard == m.options.Shard {
				m.forget(&l)
			}
		}
		c.forget.Pop()
	}
	c.forget.Rest()
	return true
}

// forgetting is a shard's part: the entries that drop a group from its partitions.
type forgetting struct {
	machine *Machine
	letter  mail.Letter
	left    int
	kept    int64
}

// forget drops what a group has committed to the partitions of this shard.
func (m *Machine) forget(l *mail.Letter) {
	f := &forgetting{machine: m, letter: *l, left: 1}
	for _, p := range m.cursorPartitions {
		s, ok := p.cursors.table.Get(l.Group)
		switch {
		case !ok || p.gone || p.log == nil || l.Owner < ownerAny && p.cursors.newer(l.Group, l.Owner):
		case l.Time == forgetAll:
			f.left++
			p.wish(&cursorWish{entry: cursor.Entry{Kind: cursor.Forget, Group: l.Group}, forget: f})
		case s.Offset >= 0 && s.Time > l.Time:
			f.kept = max(f.kept, s.Time)
		}
	}
	f.done(nil)
}

// done counts one partition off, and tells the coordinator when it was the last.
func (f *forgetting) done(*partition) {
	if f.left--; f.left > 0 {
		return
	}
	m, l := f.machine, f.letter
	answer := mail.Letter{Kind: mail.LetterForgot, From: m.options.Shard, Change: l.Change, Partition: l.Partition, Group: l.Group, Time: f.kept}
	if l.From == m.options.Shard {
		m.forgot(&answer)
		return
	}
	m.letters.Push(letterOut{l.From, answer})
}

// forgot takes a shard's word to the coordinator that asked.
func (m *Machine) forgot(l *mail.Letter) {
	p := m.partitions[l.Partition]
	if p == nil || p.coordinator == nil {
		return
	}
	c := p.coordinator
	e := c.byName[l.Group]
	if e == nil || e.forgetting == nil || e.forgetting.number != l.Change {
		return
	}
	f := e.forgetting
	f.kept = max(f.kept, l.Time)
	if f.left--; f.left > 0 {
		return
	}
	if f.kept == 0 && f.before != forgetAll {
		f.before = forgetAll
		c.askShards(e)
		return
	}
	e.forgetting = nil
	c.asking--
	if f.kept != 0 { // somebody has committed since
		e.EmptySince, e.Dirty = f.kept, true
		c.changed(e)
		return
	}
	c.floor = max(c.floor, e.Last)
	c.remove(e)
	m.wheel.disarm(&e.timer)
	e.Dirty = true
	if !e.dirty {
		e.dirty = true
		c.dirty = append(c.dirty, e)
	}
	c.list()
	if f.request != nil {
		c.reply(f.request, e, &proto.DeleteGroupResponse{Epoch: e.Last}, nil)
	}
}

// armSweep sets when groups without members are looked at again.
func (c *coordinator) armSweep() {
	m := c.machine()
	every := min(max(int64(m.options.OffsetsRetention)/8, int64(100*time.Millisecond)), int64(time.Minute))
	if c.swept != "" {
		every = int64(100 * time.Millisecond)
	}
	m.wheel.arm(&c.sweep, c, m.now+every)
}

// sweepMax bounds the groups that one step of the sweep looks at.
const sweepMax = 1_000

// expire forgets groups that have had no members for too long, some at a time.
func (c *coordinator) expire() {
	before := c.wallMillis() - c.machine().options.OffsetsRetention.Milliseconds()
	from, found := slices.BinarySearch(c.sorted, c.swept)
	if found {
		from++
	}
	last, more := c.swept, false
	for n, name := range c.sorted[from:] {
		if c.asking >= forgettingMax || n == sweepMax {
			more = true
			break
		}
		last = name
		if e := c.byName[name]; len(e.Members) == 0 && e.EmptySince < before && e.forgetting == nil && !e.dirty {
			c.beginForget(e, before, nil)
		}
	}
	if c.swept = last; !more {
		c.swept = ""
	}
	c.armSweep()
}
