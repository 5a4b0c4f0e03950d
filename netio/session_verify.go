package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// verifyTopic answers VERIFY_TOPIC: a partition is a part.
func (s *Session) verifyTopic(id uint64, p []byte) {
	var m proto.VerifyTopicRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	topic, e := s.reactor.topic(m.Name, m.TopicID)
	if e != nil {
		s.refuse(id, e)
		return
	}
	parts := &verifyParts{reactor: s.reactor, version: s.in.header.Version, topic: topic}
	sc := s.gather(id, len(topic.Partitions), parts)
	if sc == nil {
		return
	}
	parts.response = proto.VerifyTopicResponse{TopicID: topic.ID, Name: topic.Name, Partitions: make([]proto.VerifyPartition, len(topic.Partitions))}
	sc.pump()
}

type verifyParts struct {
	reactor  *Reactor
	version  uint8
	topic    *core.Topic
	response proto.VerifyTopicResponse
}

func (v *verifyParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	partition := &v.topic.Partitions[i]
	if partition.Leader != v.reactor.settings.NodeID {
		return 0, notLeader(partition)
	}
	q.Kind = mail.RequestVerify
	q.Version = v.version
	q.Partition = partition.ID
	q.LeaderEpoch = -1
	q.Wait = v.reactor.settings.RequestTimeout
	return v.reactor.shard(partition.ID), nil
}

func (v *verifyParts) sent(int, *mail.Request, core.ShardID) {}

func (v *verifyParts) fail(i int, e *proto.Error) {
	v.reactor.stats.fail(e.Code)
	v.response.Partitions[i] = proto.VerifyPartition{Error: *e}
}

func (v *verifyParts) take(i int, a *mail.Answer) {
	if s, ok := a.Body.(*proto.PartitionStorage); ok {
		v.response.Partitions[i].SealedBytes = s.SealedBytes
	}
}

func (v *verifyParts) finish() proto.Message { return &v.response }
