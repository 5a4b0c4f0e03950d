package netio

import (
	"math"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// lendBytesMax is the largest piece of credit that is with one shard at a time.
// It bounds what a shard may read ahead of what the client has asked for.
const lendBytesMax = core.AnswerChunkBytesMax

// subscription is a list of partitions whose records are pushed, with the credit
// that the client has given.
//
// The credit is kept here and lent to shards in pieces. The same credit is lent
// to each shard: split up, an idle shard would sit on a part that a busy one
// needs, and with little credit nothing would move. What the shards have pushed
// beyond the credit waits in held, so that the client never gets more than the
// protocol allows: the last push may overdraw by one batch.
//
// Invariants: held is empty or credit <= 0;
// its bytes are at most one piece and one batch per shard.
type subscription struct {
	session    *Session
	id         uint64
	credit     int64
	partitions map[core.PartitionID]*subscribed
	shards     []shardLoan
	held       core.Queue[outgoing]

	change  *subscribeParts // the SUBSCRIBE under way
	changes core.Queue[*subscribeParts]
}

// shardLoan is what a subscription has with one shard.
type shardLoan struct {
	partitions int
	lent       int64 // credit that the shard has not used; negative when it overdrew
}

// subscribed is one partition of a subscription.
type subscribed struct {
	topic   core.TopicID
	number  uint32
	cookie  uint32
	shard   core.ShardID
	part    int  // of the change that adds it, while it waits
	waiting bool // for the shard's answer; what is pushed before it belongs to an earlier time
}

// find looks a partition up by its topic, which may have been deleted meanwhile.
func (sub *subscription) find(topic core.TopicID, number uint32) (core.PartitionID, *subscribed) {
	if t := sub.session.reactor.view.TopicByID(topic); t != nil {
		if uint64(number) < uint64(len(t.Partitions)) {
			id := t.Partitions[number].ID
			return id, sub.partitions[id]
		}
		return 0, nil
	}
	for id, at := range sub.partitions {
		if at.topic == topic && at.number == number {
			return id, at
		}
	}
	return 0, nil
}

// remove ends the pushing of a partition.
func (sub *subscription) remove(id core.PartitionID, at *subscribed) {
	sub.tell(at.shard, mail.Request{Kind: mail.RequestUnsubscribe, Partition: id})
	sub.forget(id, at)
	for range sub.held.Len() {
		if o := sub.held.Pop(); o.answer.Partition == id {
			sub.session.reactor.giveBack(o.shard, o.answer.Parcel)
		} else {
			sub.held.Push(o)
		}
	}
}

// forget drops a partition that the shard does not push any more. With its last
// one a shard is told to forget the subscription, so that credit which it has
// left is not lent to it again.
func (sub *subscription) forget(id core.PartitionID, at *subscribed) {
	delete(sub.partitions, id)
	loan := &sub.shards[at.shard]
	if loan.partitions--; loan.partitions == 0 {
		loan.lent = 0
		sub.tell(at.shard, mail.Request{Kind: mail.RequestUnsubscribe})
	}
}

// tell sends a shard something about the subscription that it cannot refuse.
func (sub *subscription) tell(shard core.ShardID, request mail.Request) {
	request.Conn, request.ID = sub.session.ref, sub.id
	sub.session.reactor.must(shard, &request)
}

// close ends the subscription.
func (sub *subscription) close() {
	s := sub.session
	for shard := range sub.shards {
		if sub.shards[shard].partitions > 0 {
			sub.tell(core.ShardID(shard), mail.Request{Kind: mail.RequestUnsubscribe})
		}
	}
	sub.dropHeld()
	delete(s.subscriptions, sub.id)
	s.reactor.stats.Subscriptions--
}

// answerSubscription takes an answer about a partition of a subscription.
func (s *Session) answerSubscription(shard core.ShardID, a *mail.Answer) {
	sub := s.subscriptions[a.ID]
	if sub == nil {
		s.reactor.giveBack(shard, a.Parcel)
		return
	}
	at := sub.partitions[a.Partition]
	if a.Kind == mail.AnswerSubscribe {
		s.reactor.giveBack(shard, a.Parcel)
		if at == nil || !at.waiting || sub.change == nil {
			return
		}
		at.waiting = false
		part := at.part
		if a.Err != nil {
			sub.forget(a.Partition, at)
		}
		sub.change.sc.answered(part, a)
		return
	}
	bytes := int64(0)
	if a.Parcel != nil {
		bytes = int64(a.Parcel.Bytes)
	}
	sub.shards[shard].lent -= bytes
	if at == nil || at.waiting {
		// Pushed before the partition was removed, or moved.
		s.reactor.giveBack(shard, a.Parcel)
		sub.lend(shard)
		return
	}
	o := outgoing{answer: *a, shard: shard, cookie: at.cookie, topic: at.topic, number: at.number}
	if a.Err != nil {
		sub.forget(a.Partition, at)
		s.reactor.stats.fail(a.Err.Code)
	}
	if sub.held.Len() > 0 || sub.credit <= 0 && bytes > 0 {
		sub.held.Push(o)
		return
	}
	sub.deliver(o)
	sub.lend(shard)
}

// deliver queues a push for the socket.
func (sub *subscription) deliver(o outgoing) {
	if o.answer.Parcel != nil {
		sub.credit -= int64(o.answer.Parcel.Bytes)
	}
	sub.session.pushData(o)
}

// addCredit adds what the client allows; the sum saturates.
func (sub *subscription) addCredit(bytes uint64) {
	if bytes > uint64(math.MaxInt64) {
		bytes = math.MaxInt64
	}
	if sub.credit > 0 && int64(bytes) > math.MaxInt64-sub.credit {
		sub.credit = math.MaxInt64
	} else {
		sub.credit += int64(bytes)
	}
	for sub.held.Len() > 0 {
		o := sub.held.Front()
		if sub.credit <= 0 && o.answer.Parcel != nil {
			break
		}
		sub.deliver(sub.held.Pop())
	}
	sub.lendAll()
}

func (sub *subscription) lendAll() {
	for shard := range sub.shards {
		sub.lend(core.ShardID(shard))
	}
}

// lend tops up what a shard may push, once it has used half of its piece.
func (sub *subscription) lend(shard core.ShardID) {
	s, loan := sub.session, &sub.shards[shard]
	if sub.credit <= 0 || loan.partitions == 0 || s.state != stateOpen || s.reactor.draining || s.full() {
		return
	}
	piece := min(sub.credit, lendBytesMax)
	if loan.lent > piece/2 {
		return
	}
	more := min(piece-loan.lent, math.MaxUint32) // lent is below 0 after an overdraft
	loan.lent += more
	sub.tell(shard, mail.Request{Kind: mail.RequestCredit, Bytes: uint32(more)})
}

// lendAll tops up every subscription, after the client has read.
func (s *Session) lendAll() {
	for _, id := range s.subscriptionIDs() {
		s.subscriptions[id].lendAll()
	}
	for _, l := range s.leasings {
		l.lend()
	}
}

// subscriptionIDs are the session's subscriptions in the order of their ids, so that
// what is sent for them has the same order each time.
func (s *Session) subscriptionIDs() []uint64 {
	ids := s.reactor.ids[:0]
	for id := range s.subscriptions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	s.reactor.ids = ids
	return ids
}

func (sub *subscription) dropHeld() {
	for sub.held.Len() > 0 {
		o := sub.held.Pop()
		sub.session.reactor.giveBack(o.shard, o.answer.Parcel)
	}
}

func (s *Session) dropHeld() {
	for _, id := range s.subscriptionIDs() {
		s.subscriptions[id].dropHeld()
	}
}

// credit lets a subscription push more. It has no answer.
func (s *Session) credit(id uint64, p []byte) {
	m := &s.reactor.encode.creditRequest
	if err := m.Decode(p); err != nil {
		s.fail(id, proto.AsError(err))
		return
	}
	sub := s.subscriptions[m.Subscription]
	switch {
	case sub == nil:
		s.fail(id, unknownSubscription(m.Subscription))
	case m.Bytes == 0:
		s.fail(id, proto.CodeInvalidRequest.Errorf("a credit of 0 bytes: at least 1 is given"))
	default:
		sub.addCredit(m.Bytes)
	}
}
