package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// queues is the part of a world that has queue groups. As with groups, which seeds have them and what they do comes from
// random numbers of their own.
type queues struct {
	world   *world
	random  *rand.Rand
	all     []*queueGroup
	letters *topic // that takes dead letters; it is not of the ledger, for the broker writes it
}

// queueShare is one in how many seeds has queue groups.
const queueShare = 3

// queueRules is how queue groups treat a topic's records.
type queueRules struct {
	ready   bool   // the broker has said that it knows them
	limit   uint32 // deliveries; 0 without one
	timeout int64
	window  int
	relaxed bool
	letters bool // dead records go to the topic for them
}

// queueGroup is a queue group as the outside knows it.
type queueGroup struct {
	world   *world
	name    string
	names   []string // of topics that its members want
	members []*queueMember
	spawned int
	rests   bool   // nobody joins
	made    bool   // somebody has joined since it was deleted last
	problem string // what is wrong with it, when everything should be right
	peer    *peer
	poison  int64 // one record in so many is never acked
	stands  []*stand
	byLog   map[*plog]*stand
	asked   map[*plog]bool // that a member has asked to lease from, whether or not it ever got a record
}

func (w *world) newQueues(seed uint64, forced bool) *queues {
	q := &queues{world: w, random: rand.New(rand.NewPCG(seed, 0x717565756573))}
	if q.random.IntN(queueShare) != 0 && !forced {
		return nil
	}
	return q
}

// begin makes the topic of dead letters and the groups.
func (q *queues) begin() {
	if q == nil {
		return
	}
	w := q.world
	q.letters = &topic{world: w, number: 1000, name: "letters", certain: true, level: proto.DurabilitySync}
	for i := range 1 + q.random.IntN(3) {
		q.letters.logs = append(q.letters.logs, &plog{world: w, topic: q.letters, number: uint32(i), sent: map[uint32][]*attempt{}})
	}
	w.admin.create(q.letters)
	for range 1 + q.random.IntN(2) {
		c := &queueGroup{world: w, name: fmt.Sprintf("q%d", len(q.all)), byLog: map[*plog]*stand{}, asked: map[*plog]bool{}, poison: 5 + q.random.Int64N(30)}
		for range 1 + q.random.IntN(3) {
			c.names = append(c.names, fmt.Sprintf("t%d", q.random.IntN(4)))
		}
		slices.Sort(c.names)
		c.names = slices.Compact(c.names)
		c.peer = w.peer("queue admin", w.nodes[0])
		c.peer.connect(0)
		q.all = append(q.all, c)
		for range 1 + q.random.IntN(4) {
			c.spawn()
		}
		w.faults.later(30e6, 400e6, c.churn)
	}
	q.rule()
}

func (q *queues) between(least, most int64) int64 { return least + q.random.Int64N(max(1, most-least)) }

// rule sets how topics are treated, each once, before anybody leases from them.
func (q *queues) rule() {
	w := q.world
	for _, t := range w.topics {
		if !t.made || t.deleting || t.queue != nil || !q.letters.made {
			continue
		}
		r := q.random
		t.queue = &queueRules{
			limit: uint32(r.IntN(6)), timeout: []int64{100e6, 300e6, 2e9, 20e9}[r.IntN(4)], window: []int{3, 20, 200, 10_000}[r.IntN(4)],
			relaxed: r.IntN(3) == 0, letters: r.IntN(4) > 0,
		}
		set := []proto.TopicConfig{
			{Key: "queue.ack.timeout.ms", Value: fmt.Sprint(t.queue.timeout / 1e6)}, {Key: "queue.window.max", Value: fmt.Sprint(t.queue.window)},
			{Key: "queue.max.deliveries", Value: "unlimited"},
		}
		if t.queue.limit > 0 {
			set[2].Value = fmt.Sprint(t.queue.limit)
		}
		if t.queue.relaxed {
			set = append(set, proto.TopicConfig{Key: "queue.attempts", Value: "relaxed"})
		}
		if t.queue.letters {
			set = append(set, proto.TopicConfig{Key: "dead.letter.topic", Value: q.letters.name})
		}
		if backoff := []string{"", "50", "20,200"}[r.IntN(3)]; backoff != "" {
			set = append(set, proto.TopicConfig{Key: "queue.backoff.ms", Value: backoff})
		}
		w.admin.insist(&proto.AlterTopicRequest{TopicID: t.id, Set: set}, t.gone, func(proto.Message) { t.queue.ready = true })
	}
	w.after(20e6, q.rule)
}

// wants says whether the group reads a topic.
func (c *queueGroup) wants(t *topic) bool { return slices.Contains(c.names, t.name) }

// wanted are the partitions that the group leases from.
func (c *queueGroup) wanted() (logs []*plog) {
	for _, t := range c.world.topics {
		if t.made && !t.deleting && c.wants(t) && t.queue != nil && t.queue.ready {
			logs = append(logs, t.logs...)
		}
	}
	return logs
}

// of is how the group stands in a log.
func (c *queueGroup) of(l *plog) *stand {
	s := c.byLog[l]
	if s == nil {
		s = &stand{group: c, log: l, records: map[int64]*passage{}, low: -1}
		if c.loose() {
			s.doubt()
		}
		c.byLog[l] = s
		c.stands = append(c.stands, s)
	}
	return s
}

func (c *queueGroup) fail(format string, args ...any) {
	c.world.fail("queue group %s: "+format, append([]any{c.name}, args...)...)
}

// churn does something to the group.
func (c *queueGroup) churn() {
	w := c.world
	r := w.queues.random
	var m *queueMember
	if len(c.members) > 0 {
		m = c.members[r.IntN(len(c.members))]
	}
	roll := r.IntN(20)
	if m == nil {
		roll = []int{0, 14, 16, 18}[r.IntN(4)]
	}
	switch roll {
	case 0, 1, 2:
		if len(c.members) < 6 && !c.rests {
			c.spawn()
		}
	case 3:
		m.leave()
	case 4, 5:
		m.vanish()
	case 6, 7, 8: // it sleeps, and its leases may end
		m.sleeps = w.clock.monotonic + w.queues.between(50e6, 2e9)
	case 9:
		m.resubscribe()
	case 10:
		if m.peer.open {
			m.peer.wire.reset()
		}
	case 11:
		m.epoch = 0 // it joins again, under its id
	case 12, 13, 14, 15:
		c.describe(nil)
	case 16, 17:
		c.ask(nil)
	case 18:
		c.seek(r.IntN(2) == 0)
	case 19:
		if r.IntN(3) == 0 {
			c.disband()
		}
	}
}

// spawn adds a member.
func (c *queueGroup) spawn() *queueMember {
	q := c.world.queues
	c.spawned++
	m := &queueMember{world: c.world, group: c, id: fmt.Sprintf("%s-m%d", c.name, c.spawned), applied: -1, has: map[*plog]int64{}, lengths: map[*plog]int64{}}
	m.session = []int64{500e6, 2e9, 20e9}[q.random.IntN(3)]
	m.pace = []int64{2e6, 10e6, 60e6}[q.random.IntN(3)]
	m.timeout = []int64{0, 0, 100e6, 1e9}[q.random.IntN(4)]
	m.creditMax = []int64{1, 5, 40, 500}[q.random.IntN(4)]
	m.peer = c.world.peer("queue member", c.world.nodes[0])
	m.peer.ready = m.run
	m.peer.gone = m.cut
	m.peer.leased = m.leased
	m.peer.connect(q.between(0, 50e6))
	if c.world.healed {
		m.calm()
	}
	c.members = append(c.members, m)
	return m
}

// request sends a command about the group, when the connection takes it.
func (c *queueGroup) request(m proto.Message, done func(proto.Message, *proto.Error)) {
	if !c.peer.room(2048) {
		done(nil, nil)
		return
	}
	c.peer.ask(m, done)
}

// describe asks how the group stands in its partitions; then gets nil when that was not answered.
func (c *queueGroup) describe(then func(logs []*plog, items []proto.QueuePartition)) {
	m := &proto.DescribeQueueRequest{Group: c.name}
	var logs []*plog
	var stood []standing
	for _, l := range c.wanted() {
		if len(m.Items) < 20 {
			m.Items = append(m.Items, proto.TopicPartition{TopicID: l.topic.id, Partition: l.number})
			logs, stood = append(logs, l), append(stood, c.of(l).standing())
		}
	}
	if then == nil {
		then = func([]*plog, []proto.QueuePartition) {}
	}
	if len(logs) == 0 {
		then(nil, nil)
		return
	}
	c.request(m, func(m proto.Message, e *proto.Error) {
		r, ok := m.(*proto.DescribeQueueResponse)
		if !ok {
			then(nil, nil)
			return
		}
		for i := range r.Items {
			if !r.Items[i].Error.Failed() {
				c.of(logs[i]).described(&r.Items[i], stood[i])
			}
		}
		then(logs, r.Items)
	})
}

// ask observes the low offsets as committed ones.
func (c *queueGroup) ask(then func(*proto.FetchOffsetsResponse)) {
	m := &proto.FetchOffsetsRequest{Group: c.name}
	var asked []*stand
	var stood []standing
	for _, s := range c.stands {
		if s.log.topic.made && !s.log.topic.deleting && len(asked) < 20 {
			m.Items = append(m.Items, proto.FetchOffsetsItem{TopicID: s.log.topic.id, Partition: s.log.number, OwnerEpoch: -1})
			asked, stood = append(asked, s), append(stood, s.standing())
		}
	}
	if len(asked) == 0 {
		return
	}
	c.request(m, func(m proto.Message, e *proto.Error) {
		r, ok := m.(*proto.FetchOffsetsResponse)
		if !ok {
			return
		}
		for i := range r.Items {
			if item := &r.Items[i]; !item.Error.Failed() && item.Committed >= 0 {
				asked[i].observeLow(item.Committed, stood[i])
			}
		}
	})
}

// loose says whether the group may be forgotten at any time that it is without members.
func (c *queueGroup) loose() bool {
	g := c.world.groups
	return g != nil && g.retention > 0 || c.world.plan.clockJumps
}

// inTheAir is how long what was sent before may still be on its way: connections do not read for a while.
const inTheAir = int64(4e9)

// doubt begins a time in which nothing counts.
func (c *queueGroup) doubt() {
	for _, s := range c.stands {
		s.doubt()
	}
}

// trustLater ends it when the last of what may be under way has arrived. Members begin anew, so that what they get under
// older credit is not taken for new.
func (c *queueGroup) trustLater(wait int64) {
	eras := 0
	for _, s := range c.stands {
		eras += s.eras
	}
	c.world.after(wait, func() {
		for _, s := range c.stands {
			eras -= s.eras
		}
		if eras != 0 {
			return // another one has begun
		}
		for _, s := range c.stands {
			if !c.loose() {
				s.trust()
			}
		}
		for _, m := range c.members {
			m.resubscribe()
		}
	})
}

// seek sets the group to another place, under a fence.
func (c *queueGroup) seek(force bool) {
	w := c.world
	if !c.made || c.rests || w.healed || c.loose() {
		return // a fence would make the group, and not a queue group
	}
	c.request(&proto.FenceGroupRequest{Group: c.name, Force: force}, func(m proto.Message, e *proto.Error) {
		response, ok := m.(*proto.FenceGroupResponse)
		if !ok || w.healed || c.rests {
			return
		}
		commit := &proto.CommitOffsetRequest{Group: c.name, Seek: true}
		var asked []*stand
		for _, s := range c.stands {
			l := s.log
			if l.topic.made && !l.topic.deleting && w.queues.random.IntN(2) == 0 && len(asked) < 8 {
				to := l.logStart + w.queues.random.Int64N(max(1, l.highWatermark-l.logStart+1))
				commit.Items = append(commit.Items, proto.CommitOffsetItem{TopicID: l.topic.id, Partition: l.number, OwnerEpoch: response.Epoch, Offset: to, LastEpoch: -1})
				asked = append(asked, s)
				s.passed = max(s.passed, to)
			}
		}
		if len(asked) == 0 {
			return
		}
		w.note("queue sought", response.Epoch)
		w.counts.seeks++
		c.doubt()
		c.request(commit, func(m proto.Message, e *proto.Error) {
			for i := range asked {
				if r, ok := m.(*proto.CommitOffsetResponse); ok {
					if at := &r.Items[i]; !at.Error.Failed() && at.Committed != commit.Items[i].Offset {
						asked[i].fail("a seek to %d is answered with %d", commit.Items[i].Offset, at.Committed)
					}
				}
			}
			c.trustLater(inTheAir)
		})
	})
}

// disband has all members leave, deletes the group, and has others begin it anew.
func (c *queueGroup) disband() {
	if c.rests || c.world.healed {
		return
	}
	c.rests = true
	for _, m := range slices.Clone(c.members) {
		m.leave()
	}
	c.world.after(c.world.queues.between(50e6, 600e6), func() { c.delete(0) })
}

// delete insists until it is answered.
func (c *queueGroup) delete(tries int) {
	w := c.world
	c.doubt()
	c.request(&proto.DeleteGroupRequest{Group: c.name}, func(m proto.Message, e *proto.Error) {
		settled := m != nil || e != nil && (e.Code == proto.CodeUnknownGroup || e.Code == proto.CodeGroupNotEmpty)
		if !settled && tries < 50 {
			w.after(w.queues.between(5e6, 100e6), func() { c.delete(tries + 1) })
			return
		}
		w.note("queue deleted", int64(tries))
		c.made = false
		c.trustLater(inTheAir)
		c.rests = false
		for range 1 + w.queues.random.IntN(3) {
			c.spawn()
		}
	})
}
