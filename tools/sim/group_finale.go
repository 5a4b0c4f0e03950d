package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// configure sets what groups choose of a node's configuration.
func (g *groups) configure(c *core.Config) {
	if g != nil && g.retention > 0 {
		c.Offsets.Retention = time.Duration(g.retention) * time.Millisecond
	}
}

// calm ends what members do that is not in order. Sessions get long: from here on nobody is removed.
func (g *groups) calm() {
	if g == nil {
		return
	}
	for _, c := range g.all {
		for _, m := range c.members {
			m.session, m.rebalance, m.pace, m.again, m.nextBeat = 20e9, 20e9, 10e6, true, 0
			if m.peer.wire != nil {
				m.peer.wire.resume()
			}
		}
	}
}

// finale holds groups to settling: every partition has one owner, which has come to its end.
func (g *groups) finale() {
	if g == nil || g.world.failed != nil {
		return
	}
	w := g.world
	for _, c := range g.all {
		if len(c.members) == 0 && !c.rests {
			c.spawn("")
		}
	}
	g.calm()
	if !g.settle() {
		return
	}
	for _, c := range g.all {
		c.audit()
	}
	// A broker that is started again moves nothing.
	before := g.owners()
	n := w.nodes[0]
	if g.random.IntN(2) == 0 {
		n.kill()
	} else {
		n.powerCut()
	}
	if !w.until(w.clock.monotonic+healTime, func() bool { return n.state == nodeUp }) {
		w.fail("the node does not serve %d seconds after it was killed", healTime/1e9)
		return
	}
	if !g.settle() {
		return
	}
	if after := g.owners(); !slices.Equal(before, after) {
		w.fail("a restart of the node moves partitions of groups: from %v to %v", before, after)
	}
	for _, c := range g.all {
		for _, m := range slices.Clone(c.members) {
			m.leave()
		}
	}
	if !w.until(w.clock.monotonic+healTime, func() bool {
		return !slices.ContainsFunc(g.all, func(c *consumerGroup) bool { return len(c.members) > 0 })
	}) {
		w.fail("members of groups cannot leave within %d seconds", healTime/1e9)
	}
}

// settle waits until there is nothing to say against any group.
func (g *groups) settle() bool {
	w := g.world
	for _, c := range g.all {
		c.problem = "not looked at yet"
		c.look()
	}
	for by := w.clock.monotonic + healTime; w.failed == nil; {
		w.until(w.clock.monotonic+50e6, nil)
		i := slices.IndexFunc(g.all, func(c *consumerGroup) bool { return c.problem != "" })
		if i < 0 {
			return w.failed == nil
		}
		if w.clock.monotonic > by {
			g.all[i].fail("is not settled %d seconds after the last fault: %s", healTime/1e9, g.all[i].problem)
		}
	}
	return false
}

// look finds what is to be said against the group, until there is nothing.
func (c *consumerGroup) look() {
	w := c.world
	again := func(problem string) {
		c.problem = problem
		w.after(30e6, c.look)
	}
	if c.rests {
		again("it is being deleted")
		return
	}
	if len(c.members) == 0 { // it was being deleted when every group got a member for the end
		c.spawn("")
		w.groups.calm()
		again("nobody has joined yet")
		return
	}
	if problem := c.unsettled(); problem != "" {
		again(problem)
		return
	}
	c.describe(func(r *proto.DescribeGroupResponse) {
		if r == nil {
			again("it cannot be described")
			return
		}
		if problem := c.differs(r); problem != "" {
			again(problem)
			return
		}
		c.lag(again)
	})
}

// wanted are the partitions that the group has to share.
func (c *consumerGroup) wanted() (logs []*plog) {
	for _, t := range c.world.topics {
		if t.made && !t.deleting && c.wants(t) {
			logs = append(logs, t.logs...)
		}
	}
	return logs
}

// unsettled says what members have not come to yet.
func (c *consumerGroup) unsettled() string {
	has := map[*plog]*member{}
	for _, m := range c.members {
		if m.epoch == 0 || m.again || m.joining || m.leaving || m.wanted != m.applied || !m.peer.open || m.heardIn != m.peer.node.life {
			return fmt.Sprintf("%s has assignment %d and has applied %d, member epoch %d", m.id, m.wanted, m.applied, m.epoch)
		}
		for _, h := range m.holds {
			if h.progress == nil || !h.owned || h.revoked {
				return fmt.Sprintf("%s has not taken partition %d of topic %x over", m.id, h.number, h.topic)
			}
			l := h.progress.log
			if other := has[l]; other != nil {
				return fmt.Sprintf("partition %d of %s is owned by %s and %s", l.number, l.topic.name, other.id, m.id)
			}
			has[l] = m
		}
	}
	wanted := c.wanted()
	for _, l := range wanted {
		if has[l] == nil {
			return fmt.Sprintf("partition %d of %s has no owner", l.number, l.topic.name)
		}
	}
	if len(has) != len(wanted) {
		return fmt.Sprintf("%d partitions have owners, and there are %d", len(has), len(wanted))
	}
	most, least := 0, len(wanted)
	for _, m := range c.members {
		most, least = max(most, len(m.holds)), min(least, len(m.holds))
	}
	if most > least+1 {
		return fmt.Sprintf("a member has %d partitions, another %d", most, least)
	}
	return ""
}

// differs compares a description with what members know.
func (c *consumerGroup) differs(r *proto.DescribeGroupResponse) string {
	if r.State != proto.GroupStateSettled || len(r.Members) != len(c.members) {
		return fmt.Sprintf("it is described as %v with %d members of %d", r.State, len(r.Members), len(c.members))
	}
	for i := range r.Members {
		d := &r.Members[i]
		at := slices.IndexFunc(c.members, func(m *member) bool { return m.id == d.MemberID })
		if at < 0 {
			return "it is described with a member " + d.MemberID + " that is none"
		}
		m, n := c.members[at], 0
		for _, t := range d.Assignment.Topics {
			for _, p := range t.Partitions {
				n++
				if !slices.ContainsFunc(m.holds, func(h *hold) bool { return h.topic == t.TopicID && h.number == p.Partition && h.epoch == p.OwnerEpoch }) {
					return fmt.Sprintf("%s is described as owning partition %d of %s under epoch %d and does not", m.id, p.Partition, t.Name, p.OwnerEpoch)
				}
			}
		}
		if n != len(m.holds) || d.MemberEpoch != m.epoch || len(d.Leaving) > 0 {
			return fmt.Sprintf("%s is described with %d partitions and has %d", m.id, n, len(m.holds))
		}
	}
	return ""
}

// lag looks whether the group has come to the end of every partition.
func (c *consumerGroup) lag(again func(string)) {
	request := &proto.FetchOffsetsRequest{Group: c.name}
	wanted := c.wanted()
	var then []promise
	for _, l := range wanted {
		request.Items = append(request.Items, proto.FetchOffsetsItem{TopicID: l.topic.id, Partition: l.number, OwnerEpoch: -1})
		then = append(then, c.of(l).promised())
	}
	if len(wanted) == 0 {
		c.problem = ""
		return
	}
	c.request(request, func(m proto.Message, e *proto.Error) {
		r, ok := m.(*proto.FetchOffsetsResponse)
		if !ok {
			again("its offsets cannot be fetched")
			return
		}
		for i := range r.Items {
			item := &r.Items[i]
			if item.Error.Failed() {
				again(item.Error.Error())
				return
			}
			c.of(wanted[i]).observe(item, then[i], false)
			if item.Committed != item.HighWatermark && (item.Committed >= 0 || item.LogStartOffset < item.HighWatermark) {
				again(fmt.Sprintf("partition %d of %s is committed up to %d of %d", wanted[i].number, wanted[i].topic.name, item.Committed, item.HighWatermark))
				return
			}
		}
		c.problem = ""
	})
}

// audit holds the group to having read every record of the topics that never lose any.
func (c *consumerGroup) audit() {
	for _, l := range c.wanted() {
		if l.topic.wasWeak || l.reading == nil {
			continue
		}
		p := c.of(l)
		for _, base := range l.reading.bases {
			if !p.covers(base) {
				p.fail("the record at %d was never read; read were %v", base, p.read)
				return
			}
		}
	}
}

// owner is who has a partition, and under which epoch.
type owner struct {
	group, member string
	log           int64
	epoch         int64
}

func (g *groups) owners() (list []owner) {
	for _, c := range g.all {
		for _, l := range c.wanted() {
			for _, m := range c.members {
				for _, h := range m.holds {
					if h.progress != nil && h.progress.log == l {
						list = append(list, owner{c.name, m.id, l.key(), h.epoch})
					}
				}
			}
		}
	}
	return list
}
