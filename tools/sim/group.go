package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// groups is the part of a world that has consumer groups. Which seeds have them, and what they do, comes from a stream
// of random numbers of their own, so that a seed without groups is the run that it would be without this file.
type groups struct {
	world  *world
	random *rand.Rand
	all    []*consumerGroup

	retention int64 // offsets.retention in milliseconds, 0 the default
}

// groupShare is one in how many seeds has groups.
const groupShare = 3

// consumerGroup is a group as the outside knows it.
type consumerGroup struct {
	world   *world
	number  int
	name    string
	names   []string // of topics that its members want
	pattern string
	members []*member // that may live
	spawned int
	rests   bool   // nobody joins
	problem string // what is wrong with it, when everything should be right
	peer    *peer

	progress []*progress // by log, in the order in which they were met
	byLog    map[*plog]*progress
	// loose: the broker may forget what was committed at any time, because the group is being deleted, or may be
	// without members for longer than its offsets are kept.
	loose     bool
	forgotten int // how often that began
	steady    *member
	// doubtUntil: members may be removed by force until then.
	doubtUntil int64
}

func (w *world) newGroups(seed uint64, grouped bool) *groups {
	g := &groups{world: w, random: rand.New(rand.NewPCG(seed, 0x67726f757073))}
	if g.random.IntN(groupShare) != 0 && !grouped {
		return nil
	}
	if g.random.IntN(3) == 0 {
		g.retention = 200 + g.random.Int64N(1500)
	}
	return g
}

// begin makes the groups.
func (g *groups) begin() {
	if g == nil {
		return
	}
	for range 1 + g.random.IntN(3) {
		c := &consumerGroup{world: g.world, number: len(g.all), byLog: map[*plog]*progress{}}
		c.name = fmt.Sprintf("g%d", c.number)
		c.wish()
		c.loose = g.forgets()
		c.peer = g.world.peer("group admin", g.world.nodes[0])
		c.peer.connect(0)
		g.all = append(g.all, c)
		for i := range 1 + g.random.IntN(4) {
			m := c.spawn("")
			if i == 0 && g.random.IntN(3) > 0 {
				m.session, m.rebalance = sessionMax, sessionMax
				c.steady = m
			}
		}
		g.world.faults.later(30e6, 400e6, c.churn)
	}
}

// forgets says whether a group that is without members may be forgotten within a run.
func (g *groups) forgets() bool { return g.retention > 0 || g.world.plan.clockJumps }

// between draws a time.
func (g *groups) between(least, most int64) int64 { return least + g.random.Int64N(max(1, most-least)) }

// wish chooses what members of the group read.
func (c *consumerGroup) wish() {
	r := c.world.groups.random
	c.names, c.pattern = nil, ""
	switch r.IntN(4) {
	case 0:
		c.pattern = "t.*"
	case 1:
		c.pattern = "t[0-2]"
		c.names = []string{"t3", "t9"}
	default:
		for range 1 + r.IntN(3) {
			c.names = append(c.names, fmt.Sprintf("t%d", r.IntN(4)))
		}
		slices.Sort(c.names)
		c.names = slices.Compact(c.names)
	}
}

// wants says whether the group reads a topic.
func (c *consumerGroup) wants(t *topic) bool {
	if slices.Contains(c.names, t.name) {
		return true
	}
	switch c.pattern {
	case "t.*":
		return true
	case "t[0-2]":
		return t.name == "t0" || t.name == "t1" || t.name == "t2"
	}
	return false
}

// churn does something to the group.
func (c *consumerGroup) churn() {
	w := c.world
	r := w.groups.random
	var m *member
	if len(c.members) > 0 {
		m = c.members[r.IntN(len(c.members))]
	}
	roll := r.IntN(20)
	if m == nil || m == c.steady && roll > 2 && roll < 12 {
		roll = []int{0, 12, 13, 15, 17}[r.IntN(5)]
	}
	switch roll {
	case 0, 1, 2:
		if len(c.members) < 6 && !c.rests {
			c.spawn("")
		}
	case 3, 4:
		m.leave()
	case 5:
		m.vanish()
	case 6, 7: // it sleeps, and may wake as a zombie
		m.nextBeat = w.clock.monotonic + w.groups.between(m.session/2, 2*m.session)
	case 8, 9:
		m.restart()
	case 10:
		m.epoch = 0 // it joins again, under its id
	case 11:
		m.again = true
	case 12, 13:
		c.describe(nil)
	case 14, 15:
		c.ask()
	case 16:
		c.list(nil, len(c.sure()) == 0)
	case 17:
		c.seek(r.IntN(2) == 0)
	case 18:
		if r.IntN(2) == 0 && c.steady == nil {
			c.disband()
		}
	case 19:
		c.seek(false)
	}
}

// spawn adds a member; with an instance it is a static one.
func (c *consumerGroup) spawn(instance string) *member {
	g := c.world.groups
	c.spawned++
	m := &member{world: c.world, group: c, id: fmt.Sprintf("%s-m%d", c.name, c.spawned), instance: instance, applied: -1}
	if instance == "" && g.random.IntN(4) == 0 {
		m.instance = fmt.Sprintf("%s-i%d", c.name, c.spawned)
	}
	m.session = []int64{500e6, 800e6, 2e9, 10e9}[g.random.IntN(4)]
	m.rebalance = []int64{500e6, 2e9, 10e9}[g.random.IntN(3)]
	if c.world.healed {
		m.session, m.rebalance = 20e9, 20e9
	}
	m.pace = []int64{2e6, 10e6, 60e6}[g.random.IntN(3)]
	m.peer = c.world.peer("member", c.world.nodes[0])
	m.peer.ready = m.run
	m.peer.gone = m.cut
	m.peer.connect(g.between(0, 50e6))
	c.members = append(c.members, m)
	return m
}

// drop takes a member off the list.
func (c *consumerGroup) drop(m *member) {
	if i := slices.Index(c.members, m); i >= 0 {
		c.members = slices.Delete(c.members, i, i+1)
	}
}

// of is what is known of the group's progress in a log.
func (c *consumerGroup) of(l *plog) *progress {
	p := c.byLog[l]
	if p == nil {
		p = &progress{group: c, log: l, owner: -1, attempts: map[try]int{}, owners: map[int64]*member{}}
		c.byLog[l] = p
		c.progress = append(c.progress, p)
	}
	return p
}

// forget drops what was promised of offsets and owners.
func (c *consumerGroup) forget() {
	for _, p := range c.progress {
		p.facts, p.owner = nil, -1
	}
	c.forgotten++
}

// logOf finds a partition; nil while its topic or its growth has not been heard of.
func (w *world) logOf(id [16]byte, number uint32) *plog {
	for _, t := range w.topics {
		if t.made && t.id == id && int(number) < len(t.logs) {
			return t.logs[number]
		}
	}
	return nil
}

func (c *consumerGroup) fail(format string, args ...any) {
	c.world.fail("group %s: "+format, append([]any{c.name}, args...)...)
}

// request sends a command about the group, when the connection takes it.
func (c *consumerGroup) request(m proto.Message, done func(proto.Message, *proto.Error)) {
	if !c.peer.room(512) {
		done(nil, nil)
		return
	}
	c.peer.ask(m, done)
}

// describe asks who has what; each partition has at most one member.
func (c *consumerGroup) describe(then func(*proto.DescribeGroupResponse)) {
	c.request(&proto.DescribeGroupRequest{Group: c.name}, func(m proto.Message, e *proto.Error) {
		response, ok := m.(*proto.DescribeGroupResponse)
		if ok {
			type place struct {
				topic     [16]byte
				partition uint32
			}
			has := map[place]string{}
			for _, member := range response.Members {
				for _, topics := range [][]proto.AssignedTopic{member.Assignment.Topics, member.Leaving} {
					for _, t := range topics {
						for _, p := range t.Partitions {
							at := place{t.TopicID, p.Partition}
							if other, twice := has[at]; twice {
								c.fail("partition %d of %s is described as owned by %s and by %s", p.Partition, t.Name, other, member.MemberID)
							}
							has[at] = member.MemberID
						}
					}
				}
			}
		}
		if then != nil {
			then(response)
		}
	})
}

// list looks for the group among all, page by page.
func (c *consumerGroup) list(cursor []byte, found bool) {
	sure := len(c.sure()) > 0
	c.request(&proto.ListGroupsRequest{Cursor: cursor, PageGroupsMax: 1}, func(m proto.Message, e *proto.Error) {
		r, ok := m.(*proto.ListGroupsResponse)
		if !ok {
			return
		}
		found = found || slices.ContainsFunc(r.Groups, func(g proto.ListedGroup) bool { return g.Group == c.name })
		switch {
		case len(r.Cursor) > 0:
			c.list(r.Cursor, found)
		case !found && sure && len(c.sure()) > 0 && len(cursor) > 0:
			c.fail("has members and is not listed")
		}
	})
}

// sure are the members that cannot have been removed.
func (c *consumerGroup) sure() (sure []*member) {
	for _, m := range c.members {
		if m.sure() {
			sure = append(sure, m)
		}
	}
	return sure
}

// ask observes what is committed, as an outsider.
func (c *consumerGroup) ask() {
	m := &proto.FetchOffsetsRequest{Group: c.name}
	var asked []*progress
	var then []promise
	for _, p := range c.progress {
		if !p.log.topic.deleting && p.log.topic.made && len(asked) < 20 {
			m.Items = append(m.Items, proto.FetchOffsetsItem{TopicID: p.log.topic.id, Partition: p.log.number, OwnerEpoch: -1})
			asked, then = append(asked, p), append(then, p.promised())
		}
	}
	if len(asked) == 0 {
		return
	}
	c.request(m, func(m proto.Message, e *proto.Error) {
		if response, ok := m.(*proto.FetchOffsetsResponse); ok {
			for i := range response.Items {
				if r := &response.Items[i]; !r.Error.Failed() {
					asked[i].observe(r, then[i], false)
				}
			}
		}
	})
}

// disband has all members leave, deletes the group, and has others begin it anew.
func (c *consumerGroup) disband() {
	w := c.world
	c.rests = true
	for _, m := range slices.Clone(c.members) {
		m.leave()
	}
	w.after(w.groups.between(20e6, 400e6), func() { c.delete(0) })
}

// delete insists until it is answered; what is committed may be forgotten from the first time on.
func (c *consumerGroup) delete(tries int) {
	w := c.world
	c.loose = true
	c.forget()
	c.request(&proto.DeleteGroupRequest{Group: c.name}, func(m proto.Message, e *proto.Error) {
		settled := m != nil || e != nil && (e.Code == proto.CodeUnknownGroup || e.Code == proto.CodeGroupNotEmpty)
		if !settled && tries < 50 {
			w.after(w.groups.between(5e6, 100e6), func() { c.delete(tries + 1) })
			return
		}
		w.note("group deleted", int64(c.number), int64(tries))
		w.after(1e9, func() { // what was sent before, over connections that are gone, has arrived by then
			c.forget()
			c.loose = w.groups.forgets()
		})
		c.rests = false
		for range 1 + w.groups.random.IntN(3) {
			c.spawn("")
		}
	})
}

// seek sets the group to another place, under a fence.
func (c *consumerGroup) seek(force bool) {
	w := c.world
	if c.loose && !w.groups.forgets() || w.healed {
		return // it is being deleted
	}
	if force {
		for _, m := range c.members {
			m.sureUntil, m.held = 0, nil
		}
		c.doubtUntil = math.MaxInt64
		if w.groups.forgets() {
			c.loose = true
			c.forget()
		}
	}
	sent := w.clock.monotonic
	c.request(&proto.FenceGroupRequest{Group: c.name, Force: force}, func(m proto.Message, e *proto.Error) {
		if force { // members joined before it took effect, or behind it
			for _, m := range c.members {
				m.sureUntil, m.held = 0, nil
			}
			if c.doubtUntil = w.clock.monotonic; m == nil && e == nil {
				c.doubtUntil += 1e9 // it may arrive later
			}
		}
		response, ok := m.(*proto.FenceGroupResponse)
		if !ok {
			if e != nil && e.Code == proto.CodeGroupNotEmpty && force {
				c.fail("a fence by force is told that there are members: %v", e)
			}
			return
		}
		if !force {
			if sure := c.sure(); len(sure) > 0 && sure[0].joinedAt < sent {
				c.fail("was fenced without force although %s is a member", sure[0].id)
			}
		}
		commit := &proto.CommitOffsetRequest{Group: c.name, Seek: true}
		var asked []*progress
		for _, p := range c.progress {
			l := p.log
			if l.topic.made && !l.topic.deleting && w.groups.random.IntN(2) == 0 && len(asked) < 8 {
				to := l.logStart + w.groups.random.Int64N(max(1, l.highWatermark-l.logStart+1))
				if response.Epoch <= p.told && p.toldAt < sent {
					c.fail("a fence gives epoch %d, and %d has owned partition %d of %s", response.Epoch, p.told, l.number, l.topic.name)
				}
				commit.Items = append(commit.Items, proto.CommitOffsetItem{TopicID: l.topic.id, Partition: l.number, OwnerEpoch: response.Epoch, Offset: to, LastEpoch: -1})
				asked = append(asked, p)
				p.tries(try{response.Epoch, to})
				p.seeks = append(p.seeks, try{response.Epoch, to})
				p.excuse(0, to)
			}
		}
		if len(asked) == 0 {
			return
		}
		w.note("seek", int64(c.number), response.Epoch)
		c.request(commit, func(m proto.Message, e *proto.Error) {
			if m == nil {
				return
			}
			for i, r := range m.(*proto.CommitOffsetResponse).Items {
				at := try{commit.Items[i].OwnerEpoch, commit.Items[i].Offset}
				if r.Error.Failed() {
					asked[i].refused(at)
					if r.Error.Code == proto.CodeStaleEpoch && asked[i].highest <= at.epoch {
						c.fail("a seek of partition %d of %s under epoch %d is refused, and nobody had a later one: %v", asked[i].log.number, asked[i].log.topic.name, at.epoch, &r.Error)
					}
					continue
				}
				if r.Committed != at.offset {
					c.fail("a seek to %d is answered with %d", at.offset, r.Committed)
				}
				asked[i].owned(at.epoch)
				asked[i].learn(at.epoch, at.offset, true)
				w.counts.seeks++
			}
		})
	})
}
