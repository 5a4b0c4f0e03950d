package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// scatterIDBit marks the ids of the parts of a request that is scattered to many
// partitions. Ids of the wire have it clear.
const scatterIDBit = proto.ServerIDBit

// answer takes what a shard says about this connection.
func (s *Session) answer(shard core.ShardID, a *mail.Answer) {
	if a.Kind == mail.AnswerSubscribe || a.Kind == mail.AnswerDeliver {
		s.answerSubscription(shard, a)
		return
	}
	if a.Kind == mail.AnswerLease || a.Kind == mail.AnswerLeased || a.Kind == mail.AnswerLeaseCredit {
		s.answerLeasing(shard, a)
		return
	}
	if a.ID&scatterIDBit != 0 {
		s.reactor.giveBack(shard, a.Parcel)
		s.answerScatter(a)
		return
	}
	if a.Kind == mail.AnswerFetch {
		s.answerFetch(shard, a)
		return
	}
	s.reactor.giveBack(shard, a.Parcel)
	if s.autoCreated(a) {
		return
	}
	waiting := s.settle(a.ID)
	if a.Err != nil && s.listing != nil {
		delete(s.listing, a.ID)
	}
	if a.Err != nil || a.Kind == mail.AnswerError {
		if _, told := s.told[a.ID]; told { // a fetch that the shutdown has refused
			delete(s.told, a.ID)
			return
		}
		// Also when nobody waits: a PRODUCE without acks is told of its failure.
		s.withdraw(a.ID)
		s.fail(a.ID, errorOf(a))
		return
	}
	if !waiting {
		return
	}
	scratch := &s.reactor.encode
	switch a.Kind {
	case mail.AnswerProduce:
		m := &scratch.produceResponse
		*m = proto.ProduceResponse{
			BaseOffset:     int64(a.Offset),
			AppendTimeMs:   a.Timestamp,
			LogStartOffset: int64(a.LogStartOffset),
			Durability:     proto.Durability(a.Durability),
			Duplicate:      a.Duplicate,
		}
		if a.Duplicate {
			s.reactor.stats.Duplicates++
		}
		s.push(a.ID, m)
	case mail.AnswerTrim:
		m := &scratch.deleteRecords
		*m = proto.DeleteRecordsResponse{LogStartOffset: int64(a.LogStartOffset)}
		s.push(a.ID, m)
	case mail.AnswerSettle:
		m, ok := a.Body.(*proto.SettleResponse)
		core.Assert(ok, "the answer to SETTLE holds its response")
		s.push(a.ID, m)
	case mail.AnswerAdmin:
		m, ok := a.Body.(proto.Message)
		core.Assert(ok, "an admin answer holds a response")
		if list, ok := m.(*proto.ListGroupsResponse); ok {
			s.listed(a.ID, list)
		}
		s.push(a.ID, m)
	default:
		core.Assert(false, "a shard answers with a known kind")
	}
}

// errorOf is the error of a failed answer.
func errorOf(a *mail.Answer) *proto.Error {
	core.Assert(a.Err != nil, "a failed answer says why")
	return a.Err
}

// answerFetch queues one chunk of a FETCH answer.
func (s *Session) answerFetch(shard core.ShardID, a *mail.Answer) {
	if a.Err != nil {
		s.reactor.giveBack(shard, a.Parcel)
		if s.settle(a.ID) {
			s.withdraw(a.ID)
			s.fail(a.ID, a.Err)
		}
		return
	}
	if !a.More {
		if !s.settle(a.ID) {
			s.reactor.giveBack(shard, a.Parcel)
			return
		}
	} else if s.pendings.find(a.ID) == nil {
		s.reactor.giveBack(shard, a.Parcel)
		return
	}
	s.pushData(outgoing{answer: *a, shard: shard})
}
