package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// lease makes, changes or closes a leasing. Changes of one take effect one after the other.
func (s *Session) lease(id uint64, p []byte) {
	parts := &leaseParts{session: s, id: id}
	m := &parts.request
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	l, e := s.leasingFor(id, m)
	if e != nil {
		s.refuse(id, e)
		return
	}
	parts.leasing = l
	parts.response.Subscription = l.id
	if l.change != nil {
		l.changes.Push(parts)
		return
	}
	l.apply(parts)
}

// leasingFor finds or makes the leasing that a request is about.
func (s *Session) leasingFor(id uint64, m *proto.LeaseRequest) (*leasing, *proto.Error) {
	invalid := proto.CodeInvalidRequest.Errorf
	switch {
	case m.Close && (len(m.Add) > 0 || len(m.Remove) > 0):
		return nil, invalid("close with %d partitions to add and %d to remove: both lists must be empty", len(m.Add), len(m.Remove))
	case len(m.Add) > subscriptionPartitionsMax || len(m.Remove) > subscriptionPartitionsMax:
		return nil, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "a request may add and remove as many partitions as a subscription may have",
			Limit: subscriptionPartitionsMax,
		}
	case m.AckTimeoutMs != 0 && !leaseTimeoutAllowed(m.AckTimeoutMs):
		return nil, leaseTimeout("ack_timeout_ms", m.AckTimeoutMs)
	case m.Subscription != 0 && (m.Group != "" || m.MemberID != ""):
		return nil, invalid("group and member_id belong to the LEASE that makes a subscription: they are empty when subscription is not 0")
	case m.Subscription != 0:
		for _, l := range s.leasings {
			if l.id == m.Subscription {
				return l, nil
			}
		}
		return nil, unknownSubscription(m.Subscription)
	case m.Close:
		return nil, invalid("close names the subscription to close")
	case id == 0:
		return nil, invalid("request id 0 cannot name a new subscription")
	case m.MemberID == "" || len(m.MemberID) > core.MemberIDBytesMax:
		return nil, invalid("member_id has %d bytes; 1 to %d are allowed", len(m.MemberID), core.MemberIDBytesMax)
	case len(s.subscriptions)+len(s.leasings) >= subscriptionsMax:
		return nil, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "the connection has as many subscriptions as it may; close one",
			Limit: subscriptionsMax,
		}
	}
	if problem := core.GroupNameProblem(m.Group); problem != "" {
		return nil, proto.CodeInvalidName.Errorf("%s", problem)
	}
	for _, l := range s.leasings {
		if l.id == id {
			return nil, invalid("request id %d names a subscription already", id)
		}
	}
	s.leaseSerial++
	l := &leasing{
		session: s, id: id, serial: s.leaseSerial, group: m.Group, member: m.MemberID,
		partitions: make(map[core.PartitionID]*leased), shards: make([]leaseLoan, len(s.reactor.links)),
	}
	s.leasings = append(s.leasings, l)
	s.reactor.stats.Subscriptions++
	return l, nil
}

// The bounds of how long a lease may last, and of how long a record waits that was given back; milliseconds.
const (
	leaseMillisMin = uint32(proto.LeaseTimeoutMsMin)
	leaseMillisMax = uint32(proto.LeaseTimeoutMsMax)
	nackMillisMax  = uint32(proto.NackDelayMsMax)
)

func leaseTimeoutAllowed(ms uint32) bool { return ms >= leaseMillisMin && ms <= leaseMillisMax }

func leaseTimeout(field string, ms uint32) *proto.Error {
	e := proto.CodeInvalidTimeout.Errorf("%s is %d ms; allowed are %d to %d ms", field, ms, leaseMillisMin, leaseMillisMax)
	e.Limit = uint64(min(max(ms, leaseMillisMin), leaseMillisMax))
	return e
}

// leaseParts is one LEASE; a partition to add is a part.
type leaseParts struct {
	session  *Session
	leasing  *leasing
	id       uint64
	request  proto.LeaseRequest
	response proto.LeaseResponse
	sc       *scatter
}

// apply carries out one change: removals first.
func (l *leasing) apply(parts *leaseParts) {
	s, m := l.session, &parts.request
	if m.Close {
		l.close()
		s.settle(parts.id)
		s.push(parts.id, &parts.response)
		for l.changes.Len() > 0 {
			s.refuse(l.changes.Pop().id, unknownSubscription(l.id))
		}
		return
	}
	for i := range m.Remove {
		if id, at := l.find(core.TopicID(m.Remove[i].TopicID), m.Remove[i].Partition); at != nil {
			l.remove(id, at)
		}
	}
	l.change = parts
	l.addCredit(m.CreditRecords)
	parts.sc = s.scatter(parts.id, len(m.Add), parts)
	parts.sc.pump()
}

func (p *leaseParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	add, l := &p.request.Add[i], p.leasing
	r := p.session.reactor
	_, partition, e := r.partition(add.TopicID, add.Partition)
	switch {
	case e != nil:
		return 0, e
	case add.OwnerEpoch < 0:
		return 0, proto.CodeInvalidRequest.Errorf("owner_epoch %d: an epoch of an assignment", add.OwnerEpoch)
	case add.StartOffset < -1:
		return 0, proto.CodeInvalidRequest.Errorf("start_offset %d: an offset, or -1 to begin nothing", add.StartOffset)
	case l.partitions[partition.ID] != nil:
		return 0, proto.CodeInvalidRequest.Errorf("partition %d is subscribed already", add.Partition)
	case len(l.partitions) >= subscriptionPartitionsMax:
		return 0, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "the subscription has as many partitions as it may; remove some or make another",
			Limit: subscriptionPartitionsMax,
		}
	}
	q.Kind, q.Version, q.ID = mail.RequestLease, 1, l.serial
	q.Partition, q.LeaderEpoch, q.Wait = partition.ID, core.LeaderEpoch(add.LeaderEpoch), r.settings.RequestTimeout
	q.Body = &mail.Lease{
		Group: l.group, Member: l.member, Owner: add.OwnerEpoch, Start: core.Offset(add.StartOffset), TimeoutMillis: p.request.AckTimeoutMs,
	}
	return r.shard(partition.ID), nil
}

func (p *leaseParts) sent(i int, q *mail.Request, shard core.ShardID) {
	add, l := &p.request.Add[i], p.leasing
	l.partitions[q.Partition] = &leased{topic: core.TopicID(add.TopicID), number: add.Partition, shard: shard, part: i, waiting: true}
	l.shards[shard].partitions++
	l.shards[shard].known = true
}

func (p *leaseParts) fail(i int, e *proto.Error) {
	p.session.reactor.stats.fail(e.Code)
	add := &p.request.Add[i]
	p.response.Errors = append(p.response.Errors, proto.PartitionError{TopicID: add.TopicID, Partition: add.Partition, Error: *e})
}

func (p *leaseParts) take(int, *mail.Answer) {}

// finish ends the change and lets the next one begin.
func (p *leaseParts) finish() proto.Message {
	l := p.leasing
	l.change = nil
	p.session.push(p.id, &p.response)
	l.lend()
	if l.changes.Len() > 0 {
		l.apply(l.changes.Pop())
	}
	return nil // already pushed: the next change may answer at once
}
