package main

import (
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// sessionMax is the longest time-out that a member names.
const sessionMax = int64(60e9)

// member is a member of a consumer group: it joins, sends heartbeats, applies assignments, reads what it has and
// commits. It may sleep for longer than its session lasts, and go on as if nothing had happened.
type member struct {
	world     *world
	group     *consumerGroup
	peer      *peer
	id        string
	instance  string
	session   int64
	rebalance int64
	pace      int64

	epoch    int64 // of the membership; 0 none
	joining  bool
	joins    int // sent for this membership
	joinedAt int64
	span     int64 // the least of the time-outs of the membership
	heardIn  int   // the life of the node that last answered a heartbeat
	again    bool  // JOIN_GROUP is repeated
	beating  bool
	nextBeat int64
	applied  int64
	wanted   int64 // version to name once what was given up is committed

	holds   []*hold
	held    map[*progress]int64 // told, with the epoch, and not given up
	leaving bool
	gone    bool
	ticking bool

	shared bool // another process has been the same instance

	// sureUntil: before that the coordinator cannot have removed it.
	sureUntil int64
}

func (m *member) sure() bool {
	now := m.world.clock.monotonic
	return m.epoch > 0 && !m.gone && !m.leaving && !m.shared && now < m.sureUntil && now > m.group.doubtUntil
}

func (m *member) tick() {
	if m.ticking || m.gone {
		return
	}
	m.ticking = true
	m.world.after(m.world.groups.between(m.pace/2, m.pace), func() {
		m.ticking = false
		m.run()
	})
}

// run does what is due.
func (m *member) run() {
	defer m.tick()
	if m.gone || !m.peer.open {
		return
	}
	w := m.world
	if m.epoch == 0 && m.leaving && !m.joining {
		m.vanish()
		return
	}
	if m.epoch == 0 || m.again {
		if !m.joining && !m.leaving && m.peer.room(512) {
			m.join()
		}
		if m.epoch == 0 {
			return
		}
	}
	for _, h := range slices.Clone(m.holds) {
		h.run()
	}
	if m.leaving {
		m.sayGoodbye(false)
		return
	}
	if !m.beating && w.clock.monotonic >= m.nextBeat && m.peer.room(256) {
		m.beat()
	}
}

// cut is the loss of the connection: nothing is under way any more.
func (m *member) cut() {
	m.joining, m.beating = false, false
	for _, h := range m.holds {
		h.owning, h.fetching, h.committing = false, false, 0
		h.committed, h.sentUpTo = 0, 0 // it commits once more: nobody knows what an end has taken along
	}
}

func (m *member) join() {
	w, c := m.world, m.group
	m.joining = true
	m.again = false
	m.joins++
	first, sent, id := m.joins == 1, w.clock.monotonic, m.id
	span := min(m.session, m.rebalance)
	if m.joins > 1 { // shorter time-outs may hold from now on, whatever a heartbeat that waits was promised
		m.span, m.sureUntil = min(m.span, span), min(m.sureUntil, sent+span)
	}
	m.peer.ask(&proto.JoinGroupRequest{
		Group: c.name, Kind: proto.GroupKindStream, MemberID: m.id, InstanceID: m.instance, ClientName: "sim",
		SessionTimeoutMs: uint32(m.session / 1e6), RebalanceTimeoutMs: uint32(m.rebalance / 1e6), Topics: c.names, Pattern: c.pattern,
	}, func(answer proto.Message, e *proto.Error) {
		m.joining = false
		if answer == nil || m.gone || m.id != id {
			if e != nil && !passing(e) {
				c.fail("%s may not join: %v", m.id, e)
			}
			return
		}
		r := answer.(*proto.JoinGroupResponse)
		w.note("joined", int64(c.number), r.MemberEpoch, r.Assignment.Version)
		w.counts.joins++
		m.epoch = r.MemberEpoch
		m.span = span
		m.joinedAt = w.clock.monotonic
		if first && sent > c.doubtUntil {
			m.sureUntil = sent + span
		}
		if m == c.steady && w.groups.forgets() && sent > c.doubtUntil {
			c.loose = false
		}
		m.told(&r.Assignment, sent)
	})
}

func (m *member) beat() {
	w, c := m.world, m.group
	m.beating = true
	sent, epoch := w.clock.monotonic, m.epoch
	applied := m.applied
	if m.wanted > m.applied && !slices.ContainsFunc(m.holds, func(h *hold) bool { return h.revoked }) {
		m.applied = m.wanted
		applied = m.wanted
		m.gaveUp()
	}
	span := m.span // as the coordinator knows it
	wait := w.groups.random.Int64N(span/3/1e6 + 1)
	m.peer.ask(&proto.HeartbeatRequest{
		Group: c.name, MemberID: m.id, InstanceID: m.instance, MemberEpoch: epoch, Applied: applied, WaitMs: uint32(wait),
	}, func(answer proto.Message, e *proto.Error) {
		m.beating = false
		if m.gone || m.epoch != epoch {
			return
		}
		m.nextBeat = w.clock.monotonic + w.groups.between(0, min(span/5, 300e6))
		switch {
		case answer != nil:
			w.counts.beats++
			m.heardIn = m.peer.node.life
			if a := answer.(*proto.HeartbeatResponse).Assignment; a != nil {
				m.told(a, sent)
			} else if applied == m.applied && sent > c.doubtUntil {
				m.sureUntil = max(m.sureUntil, sent+span)
			}
		case e == nil:
		case e.Code == proto.CodeUnknownMember || e.Code == proto.CodeStaleEpoch || e.Code == proto.CodeUnknownGroup:
			if m.sure() {
				c.fail("%s is told %v although it was heard of within its time-outs", m.id, e)
			}
			w.note("member lost", int64(c.number), epoch, int64(e.Code))
			m.lost()
		case !passing(e):
			c.fail("%s is told %v", m.id, e)
		}
	})
}

// told takes an assignment.
func (m *member) told(a *proto.GroupAssignment, sent int64) {
	w, c := m.world, m.group
	if a.Version < m.wanted || a.Version < m.applied {
		return // an answer that was overtaken
	}
	w.note("assigned", int64(c.number), m.epoch, a.Version, int64(len(a.Topics)))
	m.wanted = a.Version
	keep := map[*hold]bool{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			at := slices.IndexFunc(m.holds, func(h *hold) bool {
				return h.topic == t.TopicID && h.number == p.Partition && h.epoch == p.OwnerEpoch
			})
			if at < 0 {
				m.holds = append(m.holds, &hold{member: m, topic: t.TopicID, number: p.Partition, epoch: p.OwnerEpoch, sent: sent})
				at = len(m.holds) - 1
			}
			keep[m.holds[at]] = true
			m.holds[at].revoked = m.leaving
			m.holds[at].resolve()
		}
	}
	for _, h := range slices.Clone(m.holds) {
		if !keep[h] {
			h.revoke()
		}
	}
}

// gaveUp is the moment in which the coordinator may give to others what is not assigned any more.
func (m *member) gaveUp() {
	for p, epoch := range m.held {
		if !slices.ContainsFunc(m.holds, func(h *hold) bool { return h.progress == p && h.epoch == epoch }) {
			delete(m.held, p)
		}
	}
}

// lost: the membership is over, and partitions may be somebody else's. What was under way goes on for a while.
func (m *member) lost() {
	for _, h := range m.holds {
		h.haunt()
	}
	c := m.group
	m.holds, m.held = nil, nil
	m.epoch, m.applied, m.wanted, m.joins, m.sureUntil = 0, -1, 0, 0, 0
	if m == c.steady && m.world.groups.forgets() {
		c.loose = true
		c.forget()
	}
	m.id += "'"
	if len(m.id) > 50 || slices.ContainsFunc(c.members, func(other *member) bool { return other != m && m.shared && other.instance == m.instance }) {
		m.vanish() // the other process of this instance stays
	}
}

// leave ends the membership in peace: everything is committed first.
func (m *member) leave() {
	if m == m.group.steady && !m.world.healed {
		return
	}
	m.leaving = true
	for _, h := range m.holds {
		h.revoked = true
	}
	if m.epoch == 0 && !m.joining {
		m.vanish()
	}
}

func (m *member) sayGoodbye(returning bool) {
	if len(m.holds) > 0 && !returning || m.beating && m.world.groups.random.IntN(2) == 0 || !m.peer.room(256) {
		return
	}
	m.held = nil
	m.beating = true
	m.peer.ask(&proto.LeaveGroupRequest{Group: m.group.name, MemberID: m.id, InstanceID: m.instance, MemberEpoch: m.epoch, Returning: returning}, func(answer proto.Message, e *proto.Error) {
		m.beating = false
		if answer != nil || e != nil && !passing(e) {
			m.world.note("left", int64(m.group.number), m.epoch)
			m.vanish()
		}
	})
}

// vanish is a process that ends without a word.
func (m *member) vanish() {
	if m.gone || m == m.group.steady && !m.world.healed {
		return
	}
	m.gone = true
	m.sureUntil = 0
	m.group.drop(m)
	m.peer.close()
	if m.group.steady == m {
		m.group.steady = nil
	}
}

// restart has another process join as the same instance: after a word, or with the old one still running.
func (m *member) restart() {
	if m.instance == "" || m == m.group.steady {
		return
	}
	c, r := m.group, m.world.groups.random
	if slices.ContainsFunc(c.members, func(other *member) bool { return other != m && other.instance == m.instance }) {
		return
	}
	next := c.spawn(m.instance)
	next.session, next.rebalance = m.session, m.rebalance
	m.shared, next.shared = true, true
	m.held = nil
	switch r.IntN(3) {
	case 0:
		if m.peer.open && m.epoch > 0 {
			m.sayGoodbye(true)
		}
		m.vanishSoon()
	case 1:
		m.vanishSoon()
	}
}

func (m *member) vanishSoon() { m.world.after(m.world.groups.between(1e6, 50e6), m.vanish) }

// passing says whether an error goes by, so that the same may be sent again.
func passing(e *proto.Error) bool {
	switch e.Code {
	case proto.CodeOverloaded, proto.CodeTimedOut, proto.CodeStorageError, proto.CodeStorageFull, proto.CodePartitionUnavailable:
		return true
	}
	return e.Code.Retriable()
}
