package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// subscriptionsMax bounds the subscriptions of a connection.
	subscriptionsMax = 64

	// subscriptionPartitionsMax bounds the partitions of a subscription.
	subscriptionPartitionsMax = core.PartitionsPerTopicMax
)

// subscribe makes, changes or closes a subscription. Changes of one subscription
// take effect one after the other.
func (s *Session) subscribe(id uint64, p []byte) {
	parts := &subscribeParts{session: s, id: id, version: s.in.header.Version}
	m := &parts.request
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	sub, e := s.subscriptionFor(id, m)
	if e != nil {
		s.refuse(id, e)
		return
	}
	parts.sub = sub
	parts.response.Subscription = sub.id
	if sub.change != nil {
		sub.changes.Push(parts)
		return
	}
	sub.apply(parts)
}

// subscriptionFor finds or makes the subscription that a request is about.
func (s *Session) subscriptionFor(id uint64, m *proto.SubscribeRequest) (*subscription, *proto.Error) {
	switch {
	case m.Close && (len(m.Add) > 0 || len(m.Remove) > 0):
		return nil, proto.CodeInvalidRequest.Errorf("close with %d partitions to add and %d to remove: both lists must be empty", len(m.Add), len(m.Remove))
	case len(m.Add) > subscriptionPartitionsMax || len(m.Remove) > subscriptionPartitionsMax:
		return nil, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "a request may add and remove as many partitions as a subscription may have",
			Limit: subscriptionPartitionsMax,
		}
	case m.Subscription != 0:
		if sub := s.subscriptions[m.Subscription]; sub != nil {
			return sub, nil
		}
		return nil, unknownSubscription(m.Subscription)
	case m.Close:
		return nil, proto.CodeInvalidRequest.Errorf("close names the subscription to close")
	case id == 0 || s.subscriptions[id] != nil:
		return nil, proto.CodeInvalidRequest.Errorf("request id %d cannot name a new subscription: it is 0 or names one already", id)
	case len(s.subscriptions)+len(s.leasings) >= subscriptionsMax:
		return nil, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "the connection has as many subscriptions as it may; close one",
			Limit: subscriptionsMax,
		}
	}
	sub := &subscription{
		session:    s,
		id:         id,
		partitions: make(map[core.PartitionID]*subscribed),
		shards:     make([]shardLoan, len(s.reactor.links)),
	}
	if s.subscriptions == nil {
		s.subscriptions = make(map[uint64]*subscription)
	}
	s.subscriptions[id] = sub
	s.reactor.stats.Subscriptions++
	return sub, nil
}

func unknownSubscription(id uint64) *proto.Error {
	return proto.CodeUnknownSubscription.Errorf("the connection has no subscription %d", id)
}

// subscribeParts is one SUBSCRIBE; a partition to add is a part.
type subscribeParts struct {
	session  *Session
	sub      *subscription
	id       uint64
	version  uint8
	request  proto.SubscribeRequest
	response proto.SubscribeResponse
	sc       *scatter
}

// apply carries out one change: removals first.
func (sub *subscription) apply(parts *subscribeParts) {
	s, m := sub.session, &parts.request
	if m.Close {
		sub.close()
		s.settle(parts.id)
		s.push(parts.id, &parts.response)
		for sub.changes.Len() > 0 {
			s.refuse(sub.changes.Pop().id, unknownSubscription(sub.id))
		}
		return
	}
	for i := range m.Remove {
		if id, at := sub.find(core.TopicID(m.Remove[i].TopicID), m.Remove[i].Partition); at != nil {
			sub.remove(id, at)
		}
	}
	sub.change = parts
	sub.addCredit(m.CreditBytes)
	parts.sc = s.scatter(parts.id, len(m.Add), parts)
	parts.sc.pump()
}

func (p *subscribeParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	add, sub := &p.request.Add[i], p.sub
	_, partition, e := p.session.reactor.partition(add.TopicID, add.Partition)
	switch {
	case e != nil:
		return 0, e
	case add.Offset < 0:
		return 0, proto.CodeInvalidRequest.Errorf("offset %d: an offset is not negative; LIST_OFFSETS finds the earliest and latest", add.Offset)
	case sub.partitions[partition.ID] != nil:
		return 0, proto.CodeInvalidRequest.Errorf("partition %d is subscribed already; remove it in the same request to move it", add.Partition)
	case len(sub.partitions) >= subscriptionPartitionsMax:
		return 0, &proto.Error{
			Code:  proto.CodeTooManySubscriptions,
			Text:  "the subscription has as many partitions as it may; remove some or make another",
			Limit: subscriptionPartitionsMax,
		}
	}
	q.Kind = mail.RequestSubscribe
	q.Version = p.version
	q.ID = sub.id
	q.Partition = partition.ID
	q.Offset = core.Offset(add.Offset)
	q.LeaderEpoch = core.LeaderEpoch(add.LeaderEpoch)
	q.LastEpoch = core.LeaderEpoch(add.LastEpoch)
	return p.session.reactor.shard(partition.ID), nil
}

func (p *subscribeParts) sent(i int, q *mail.Request, shard core.ShardID) {
	add, sub := &p.request.Add[i], p.sub
	sub.partitions[q.Partition] = &subscribed{
		topic:   core.TopicID(add.TopicID),
		number:  add.Partition,
		cookie:  add.Cookie,
		shard:   shard,
		part:    i,
		waiting: true,
	}
	sub.shards[shard].partitions++
}

func (p *subscribeParts) fail(i int, e *proto.Error) {
	p.session.reactor.stats.fail(e.Code)
	add := &p.request.Add[i]
	p.response.Errors = append(p.response.Errors, proto.PartitionError{TopicID: add.TopicID, Partition: add.Partition, Error: *e})
}

func (p *subscribeParts) take(int, *mail.Answer) {}

// finish ends the change and lets the next one begin.
func (p *subscribeParts) finish() proto.Message {
	sub := p.sub
	sub.change = nil
	p.session.push(p.id, &p.response)
	sub.lendAll()
	if sub.changes.Len() > 0 {
		sub.apply(sub.changes.Pop())
	}
	return nil // already pushed: the next change may answer at once
}
