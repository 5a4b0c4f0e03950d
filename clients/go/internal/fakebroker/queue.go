package fakebroker

import (
	"context"
	"regexp"
	"slices"
	"sort"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Queue groups: every member is assigned every partition that it reads, and records are leased one by one.

// member of a group. The fake removes none for its silence: see RemoveMember.
type member struct {
	epoch    int64
	instance string
	topics   []string
	pattern  string
}

// queueKey is a group's place in a partition.
type queueKey struct {
	group     string
	topic     [16]byte
	partition uint32
}

// queue is how a group stands in a partition.
type queue struct {
	high    int64 // nothing from here on has been leased
	records map[int64]*queued
}

// queued is a record between the first lease and the outcome.
type queued struct {
	attempt uint32
	lease   *lease // nil while nobody has it
	member  string
	until   time.Time // of the lease, or of the delay
	dead    string    // the reason; records that are dead stay
}

// lease is a subscription of LEASE.
type lease struct {
	session *session
	id      uint64
	group   string
	member  string
	credit  int
	timeout time.Duration
	parts   map[proto.TopicPartition]bool
}

// join makes a member. Called with the lock held.
func (c *Cluster) join(r *proto.JoinGroupRequest) (proto.Message, error) {
	g := c.groups[r.Group]
	if g == nil {
		g = map[string]*member{}
		c.groups[r.Group] = g
	}
	for id, m := range g {
		if r.InstanceID != "" && m.instance == r.InstanceID && id != r.MemberID {
			delete(g, id)
		}
	}
	c.epoch++
	m := &member{epoch: int64(c.epoch), instance: r.InstanceID, topics: r.Topics, pattern: r.Pattern}
	g[r.MemberID] = m
	return &proto.JoinGroupResponse{MemberEpoch: m.epoch, GroupEpoch: m.epoch, Assignment: c.assignment(m)}, nil
}

func (c *Cluster) assignment(m *member) proto.GroupAssignment {
	a := proto.GroupAssignment{Version: int64(c.epoch), Settled: true}
	for _, name := range c.names() {
		if !slices.Contains(m.topics, name) && (m.pattern == "" || !regexp.MustCompile("^(?:"+m.pattern+")$").MatchString(name)) {
			continue
		}
		t := proto.AssignedTopic{Name: name, TopicID: c.topics[name].id}
		for i := range c.topics[name].partitions {
			t.Partitions = append(t.Partitions, proto.AssignedPartition{Partition: uint32(i), OwnerEpoch: m.epoch})
		}
		a.Topics = append(a.Topics, t)
	}
	return a
}

// heartbeat waits for another assignment.
func (s *session) heartbeat(id uint64, r *proto.HeartbeatRequest) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(r.WaitMs)*time.Millisecond)
	defer cancel()
	for {
		s.cluster.mu.Lock()
		m, refusal := s.cluster.member(r.Group, r.MemberID, r.InstanceID, r.MemberEpoch)
		var answer proto.HeartbeatResponse
		if refusal == nil && int64(s.cluster.epoch) != r.Applied {
			a := s.cluster.assignment(m)
			answer.Assignment = &a
		}
		s.cluster.mu.Unlock()
		if refusal != nil {
			s.send(id, 0, refusal)
			return
		}
		if answer.Assignment != nil || ctx.Err() != nil {
			s.send(id, 0, &answer)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *Cluster) member(group, id, instance string, epoch int64) (*member, *proto.Error) {
	m := c.groups[group][id]
	switch {
	case m != nil && m.epoch == epoch:
		return m, nil
	case m != nil:
		return nil, proto.CodeStaleEpoch.Errorf("epoch %d", epoch)
	}
	for _, other := range c.groups[group] {
		if instance != "" && other.instance == instance {
			return nil, proto.CodeStaleEpoch.Errorf("another process is instance %s", instance)
		}
	}
	return nil, proto.CodeUnknownMember.Errorf("no member %s", id)
}

// RemoveMember removes a member, as if it had been silent for too long.
func (c *Cluster) RemoveMember(group, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups[group], id)
}

// Members are the ids of a group's members.
func (c *Cluster) Members(group string) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.groups[group] {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// Leased is how many records of a group are leased, Dead the reasons of those that are dead, by offset and all partitions together.
func (c *Cluster) Leased(group string) (n int) {
	c.each(group, func(_ int64, r *queued) {
		if r.lease != nil {
			n++
		}
	})
	return n
}

// Dead are the reasons of the dead records of a group, by offset.
func (c *Cluster) Dead(group string) map[int64]string {
	dead := map[int64]string{}
	c.each(group, func(at int64, r *queued) {
		if r.dead != "" {
			dead[at] = r.dead
		}
	})
	return dead
}

// Unsettled is how many records that a group has begun have no outcome.
func (c *Cluster) Unsettled(group string) (n int) {
	c.each(group, func(int64, *queued) { n++ })
	return n
}

func (c *Cluster) each(group string, f func(int64, *queued)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, q := range c.queues {
		if key.group == group {
			for at, r := range q.records {
				f(at, r)
			}
		}
	}
}

// lease makes or changes a subscription. Called with the lock held.
func (s *session) lease(id uint64, r *proto.LeaseRequest) (proto.Message, error) {
	c := s.cluster
	l := c.leases[leaseKey{s, r.Subscription}]
	if r.Subscription == 0 {
		l = &lease{session: s, id: id, group: r.Group, member: r.MemberID, timeout: c.LeaseTimeout, parts: map[proto.TopicPartition]bool{}}
		c.leases[leaseKey{s, id}] = l
	}
	if l == nil {
		return nil, proto.CodeUnknownSubscription.Errorf("%d", r.Subscription)
	}
	if r.AckTimeoutMs > 0 {
		l.timeout = time.Duration(r.AckTimeoutMs) * time.Millisecond
	}
	l.credit += int(r.CreditRecords)
	for _, tp := range r.Remove {
		delete(l.parts, tp)
	}
	if r.Close {
		c.endLease(l)
	}
	answer := &proto.LeaseResponse{Subscription: l.id}
	for _, add := range r.Add {
		p, refusal := c.find(s.node.ID, add.TopicID, add.Partition, add.LeaderEpoch)
		key := queueKey{l.group, add.TopicID, add.Partition}
		if refusal == nil && c.queues[key] == nil {
			if add.StartOffset < p.Start || add.StartOffset > p.End {
				refusal = &proto.Error{Code: proto.CodeOffsetOutOfRange, Text: "the group has not begun", Offsets: &proto.OffsetRange{Earliest: p.Start, Latest: p.End}}
			} else {
				c.queues[key] = &queue{high: add.StartOffset, records: map[int64]*queued{}}
			}
		}
		if refusal != nil {
			answer.Errors = append(answer.Errors, proto.PartitionError{TopicID: add.TopicID, Partition: add.Partition, Error: *refusal})
			continue
		}
		l.parts[proto.TopicPartition{TopicID: add.TopicID, Partition: add.Partition}] = true
	}
	return answer, nil
}

type leaseKey struct {
	session *session
	id      uint64
}

// endLease gives everything back. Called with the lock held.
func (c *Cluster) endLease(l *lease) {
	delete(c.leases, leaseKey{l.session, l.id})
	for _, q := range c.queues {
		for _, r := range q.records {
			if r.lease == l {
				c.giveBack(r, "the connection ended")
			}
		}
	}
}

// giveBack ends a lease without an outcome.
func (c *Cluster) giveBack(r *queued, reason string) {
	r.lease, r.member, r.until = nil, "", time.Time{}
	if int(r.attempt) >= c.DeliveriesMax {
		r.dead = reason
	}
}

// moveQueues ends the leases of a partition whose leader has moved. Called with the lock held.
func (c *Cluster) moveQueues(tp proto.TopicPartition) {
	for key, q := range c.queues {
		if key.topic != tp.TopicID || key.partition != tp.Partition {
			continue
		}
		for _, r := range q.records {
			if r.lease != nil {
				c.giveBack(r, "the leader has moved")
			}
		}
	}
	for _, l := range c.leases {
		if l.parts[tp] {
			delete(l.parts, tp)
			l.session.leased(l.id, &proto.LeasedPush{TopicID: tp.TopicID, Partition: tp.Partition, LeaderEpoch: -1, Error: proto.CodeNotLeader.Errorf("leadership has moved")})
		}
	}
	c.pumpQueues()
}

// endSession gives back what a connection leased.
func (c *Cluster) endSession(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, l := range c.leases {
		if key.session == s {
			c.endLease(l)
		}
	}
	c.pumpQueues()
}

// settle takes outcomes. Called with the lock held.
func (s *session) settle(r *proto.SettleRequest) (proto.Message, error) {
	c := s.cluster
	if _, refusal := c.find(s.node.ID, r.TopicID, r.Partition, -1); refusal != nil {
		return nil, refusal
	}
	key := queueKey{r.Group, r.TopicID, r.Partition}
	q := c.queues[key]
	if q == nil {
		return nil, proto.CodeUnknownGroup.Errorf("%s has not begun", r.Group)
	}
	answer := &proto.SettleResponse{}
	next := int64(0)
	for i := range r.Ranges {
		in := &r.Ranges[i]
		if in.BaseOffset < next || in.NextOffset <= in.BaseOffset {
			return nil, proto.CodeInvalidRequest.Errorf("ranges overlap")
		}
		next = in.NextOffset
		if in.Outcome == proto.SettlementNack && in.DelayMs > proto.NackDelayMsMax {
			return nil, proto.CodeInvalidTimeout.Errorf("delay_ms is %d", in.DelayMs)
		}
		var result proto.SettledResult
		for at := in.BaseOffset; at < in.NextOffset; at++ {
			record := q.records[at]
			if record == nil || record.lease == nil || record.member != r.MemberID || record.attempt != in.Attempt {
				result.Error = *proto.CodeLeaseLost.Errorf("offset %d is not leased to %s in attempt %d", at, r.MemberID, in.Attempt)
				continue
			}
			result.Settled++
			c.settled[in.Outcome]++
			switch in.Outcome {
			case proto.SettlementAck:
				delete(q.records, at)
			case proto.SettlementNack:
				c.giveBack(record, in.Reason)
				record.until = time.Now().Add(time.Duration(in.DelayMs) * time.Millisecond)
			case proto.SettlementReject:
				record.lease, record.dead = nil, in.Reason
			case proto.SettlementExtend:
				record.until = time.Now().Add(record.lease.timeout)
			case proto.SettlementRelease:
				record.lease, record.member, record.until = nil, "", time.Time{}
				record.attempt--
			}
		}
		answer.Ranges = append(answer.Ranges, result)
	}
	return answer, nil
}

// Settled is how often an outcome has been taken.
func (c *Cluster) Settled(outcome proto.Settlement) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled[outcome]
}

// pumpQueues leases what can be leased. Called with the lock held.
func (c *Cluster) pumpQueues() {
	now := time.Now()
	var later time.Duration
	wait := func(until time.Time) {
		if d := until.Sub(now) + time.Millisecond; later == 0 || d < later {
			later = d
		}
	}
	for key, q := range c.queues {
		t := c.byID(key.topic)
		if t == nil {
			continue
		}
		p := t.partitions[key.partition]
		for _, r := range q.records {
			if r.lease != nil && !now.Before(r.until) {
				c.giveBack(r, "the lease has run out")
			}
		}
		tp := proto.TopicPartition{TopicID: key.topic, Partition: key.partition}
		for at := p.Start; at < p.End; at++ {
			r := q.records[at]
			switch {
			case r == nil && at < q.high: // settled
				continue
			case r != nil && (r.lease != nil || now.Before(r.until)):
				wait(r.until)
				continue
			case r != nil && r.dead != "":
				continue
			}
			l := c.takes(key.group, tp, p.leader)
			if l == nil {
				break
			}
			if r == nil {
				r = &queued{}
				q.records[at], q.high = r, at+1
			}
			l.credit--
			r.attempt++
			r.lease, r.member, r.until = l, l.member, now.Add(l.timeout)
			wait(r.until)
			batches, _ := p.read(at, 1)
			push := &proto.LeasedPush{TopicID: key.topic, Partition: key.partition, LeaderEpoch: p.leaderEpoch, TimeoutMs: uint32(l.timeout.Milliseconds()),
				Leases: []proto.LeasedRange{{BaseOffset: at, NextOffset: at + 1, Attempt: r.attempt}}}
			if len(batches) > 0 {
				push.Batches = batches[0]
			}
			l.session.leased(l.id, push)
		}
	}
	if later > 0 {
		time.AfterFunc(later, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pumpQueues()
		})
	}
}

// leased sends a push; the lock of the cluster is held, so it does not wait for the socket.
func (s *session) leased(id uint64, push *proto.LeasedPush) {
	last := s.pushed
	done := make(chan struct{})
	s.pushed = done
	go func() { // sending to a connection that is gone ends at once
		defer close(done)
		if last != nil {
			<-last
		}
		s.send(id, 0, push)
	}()
}

// takes is the subscription that a record goes to: that with the most credit.
func (c *Cluster) takes(group string, tp proto.TopicPartition, leader uint32) *lease {
	var best *lease
	for _, l := range c.leases {
		if l.group == group && l.parts[tp] && l.credit > 0 && l.session.node.ID == leader && l.session.ctx.Err() == nil && (best == nil || l.credit > best.credit) {
			best = l
		}
	}
	return best
}
