package netio

import (
	"math"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// leasing is a subscription of LEASE: partitions whose records are leased to one member
// of a queue group, with the credit that the member has given.
//
// The credit is lent to shards in parts (mail.Lease), never twice as that of a
// subscription is: a lease that waits in a buffer for credit would run out, and count as a
// delivery. A shard that has records says so and gets an even part of what is not lent;
// when nothing is left, the others are asked for what they have not used.
//
// Invariant: what is lent to shards together is at most credit.
type leasing struct {
	session       *Session
	id            uint64 // of the wire
	serial        uint64 // what shards know it by: no late answer can be for another that has the same id
	group, member string
	credit        int64 // records
	partitions    map[core.PartitionID]*leased
	shards        []leaseLoan
	turn          int // the shard that is lent to first

	change  *leaseParts // the LEASE under way
	changes core.Queue[*leaseParts]
}

// leaseLoan is what a leasing has with one shard.
type leaseLoan struct {
	partitions int
	lent       int64 // credit that the shard has not used
	known      bool  // the shard has heard of the leasing
	wants      bool  // it has said that it has records and no credit; so it does not again until it gets some
	recalled   bool  // it has been asked for what it has not used
}

// leased is one partition of a leasing.
type leased struct {
	topic   core.TopicID
	number  uint32
	shard   core.ShardID
	part    int  // of the change that adds it, while it waits
	waiting bool // for the shard's answer
}

// leasing finds one by its serial.
func (s *Session) leasing(serial uint64) *leasing {
	for _, l := range s.leasings {
		if l.serial == serial {
			return l
		}
	}
	return nil
}

// find looks a partition up by its topic, which may have been deleted meanwhile.
func (l *leasing) find(topic core.TopicID, number uint32) (core.PartitionID, *leased) {
	if t := l.session.reactor.view.TopicByID(topic); t != nil {
		if uint64(number) < uint64(len(t.Partitions)) {
			id := t.Partitions[number].ID
			return id, l.partitions[id]
		}
		return 0, nil
	}
	for id, at := range l.partitions {
		if at.topic == topic && at.number == number {
			return id, at
		}
	}
	return 0, nil
}

// remove ends the leasing from a partition. What is leased already stays with the member.
func (l *leasing) remove(id core.PartitionID, at *leased) {
	l.tell(at.shard, mail.Request{Kind: mail.RequestUnlease, Partition: id})
	l.forget(id, at)
}

// forget drops a partition that the shard does not lease from any more. Credit that lies
// with a shard without partitions comes back.
func (l *leasing) forget(id core.PartitionID, at *leased) {
	delete(l.partitions, id)
	loan := &l.shards[at.shard]
	if loan.partitions--; loan.partitions == 0 {
		l.recall(at.shard)
	}
}

// tell sends a shard something about the leasing that it cannot refuse.
func (l *leasing) tell(shard core.ShardID, request mail.Request) {
	request.Conn, request.ID = l.session.ref, l.serial
	l.session.reactor.must(shard, &request)
}

// close ends the leasing and gives its leases back.
func (l *leasing) close() {
	s := l.session
	for shard := range l.shards {
		if l.shards[shard].known {
			l.tell(core.ShardID(shard), mail.Request{Kind: mail.RequestUnlease})
		}
	}
	for i, other := range s.leasings {
		if other == l {
			s.leasings = append(s.leasings[:i], s.leasings[i+1:]...)
			break
		}
	}
	s.reactor.stats.Subscriptions--
}

// answerLeasing takes an answer about a leasing.
func (s *Session) answerLeasing(shard core.ShardID, a *mail.Answer) {
	l := s.leasing(a.ID)
	if l == nil { // closed, with which its leases went back
		s.reactor.giveBack(shard, a.Parcel)
		return
	}
	loan := &l.shards[shard]
	loan.wants = loan.wants || a.More
	switch a.Kind {
	case mail.AnswerLease:
		l.added(a)
		return
	case mail.AnswerLeaseCredit:
		core.Assert(int64(a.Records) <= loan.lent, "a shard gives back what it was lent")
		loan.lent -= int64(a.Records)
		loan.recalled = loan.recalled && !a.Recalled
	case mail.AnswerLeased:
		l.leased(shard, a)
	}
	l.lend()
}

// added ends a part of the change that is under way.
func (l *leasing) added(a *mail.Answer) {
	at := l.partitions[a.Partition]
	if at == nil || !at.waiting || l.change == nil {
		return
	}
	at.waiting = false
	part := at.part
	if a.Err != nil {
		l.forget(a.Partition, at)
	}
	l.change.sc.answered(part, a)
}

// leased hands a push on. Records that are leased are the member's, also when it has
// taken the partition off meanwhile.
func (l *leasing) leased(shard core.ShardID, a *mail.Answer) {
	o := outgoing{answer: *a, shard: shard}
	o.answer.ID = l.id
	if a.Err != nil {
		at := l.partitions[a.Partition]
		if at == nil || at.waiting { // of an earlier time
			return
		}
		o.topic, o.number = at.topic, at.number
		l.forget(a.Partition, at)
		l.session.reactor.stats.fail(a.Err.Code)
	} else {
		body := a.Body.(*mail.Leased)
		core.Assert(int64(body.Records) <= l.shards[shard].lent, "a shard leases what it was lent")
		o.topic, o.number = body.Topic, uint32(body.Number)
		l.shards[shard].lent -= int64(body.Records)
		l.credit -= int64(body.Records)
	}
	l.session.pushData(o)
}

// unlent is the credit that no shard has.
func (l *leasing) unlent() int64 {
	free := l.credit
	for i := range l.shards {
		free -= l.shards[i].lent
	}
	return free
}

// lend gives credit to the shards that want some.
func (l *leasing) lend() {
	s := l.session
	if s.state != stateOpen || s.reactor.draining || s.full() {
		return
	}
	free := l.unlent()
	without, wanting := int64(0), false
	for i := range l.shards {
		if loan := &l.shards[i]; loan.partitions > 0 && loan.lent == 0 {
			without++
		}
		wanting = wanting || l.waits(i)
	}
	if !wanting {
		return
	}
	for range l.shards {
		i := l.turn
		l.turn = (l.turn + 1) % len(l.shards)
		loan := &l.shards[i]
		if !l.waits(i) || free == 0 {
			continue
		}
		part := min((free+without-1)/without, math.MaxUint32)
		loan.wants, loan.lent = false, part
		free -= part
		without--
		l.tell(core.ShardID(i), mail.Request{Kind: mail.RequestLeaseCredit, Records: uint32(part)})
	}
	for i := range l.shards {
		if l.waits(i) { // so nothing is left
			l.recallOthers(i)
			return
		}
	}
}

// waits says whether a shard has records to lease and no credit.
func (l *leasing) waits(shard int) bool {
	loan := &l.shards[shard]
	return loan.wants && loan.partitions > 0 && loan.lent == 0
}

// recallOthers asks the shards that do not need it for their credit.
func (l *leasing) recallOthers(wanting int) {
	for i := range l.shards {
		if i != wanting {
			l.recall(core.ShardID(i))
		}
	}
}

func (l *leasing) recall(shard core.ShardID) {
	loan := &l.shards[shard]
	if loan.lent > 0 && !loan.recalled {
		loan.recalled = true
		l.tell(shard, mail.Request{Kind: mail.RequestLeaseRecall})
	}
}

// addCredit adds what the member allows; the sum saturates.
func (l *leasing) addCredit(records uint32) {
	l.credit = min(l.credit+int64(records), math.MaxInt32)
}
