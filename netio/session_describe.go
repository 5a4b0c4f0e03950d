package netio

import (
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// describeTopic answers DESCRIBE_TOPIC: a partition is a part.
func (s *Session) describeTopic(id uint64, p []byte) {
	var m proto.DescribeTopicRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	topic, e := s.reactor.topic(m.Name, m.TopicID)
	if e != nil {
		s.refuse(id, e)
		return
	}
	parts := &describeParts{reactor: s.reactor, version: s.in.header.Version, topic: topic}
	sc := s.gather(id, len(topic.Partitions), parts)
	if sc == nil {
		return
	}
	parts.response = proto.DescribeTopicResponse{
		TopicID:    topic.ID,
		Name:       topic.Name,
		Replicas:   uint16(topic.Replicas),
		Partitions: make([]proto.PartitionDescription, len(topic.Partitions)),
		Configs:    topicConfigs(topic),
	}
	sc.pump()
}

// describedDamagesMax bounds the damaged ranges that one answer lists, over all
// partitions: each partition says how many there are.
const describedDamagesMax = 1_000

type describeParts struct {
	reactor  *Reactor
	version  uint8
	topic    *core.Topic
	damages  int // listed so far
	response proto.DescribeTopicResponse
}

func (d *describeParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	partition := &d.topic.Partitions[i]
	if partition.Leader != d.reactor.settings.NodeID {
		return 0, notLeader(partition)
	}
	q.Kind = mail.RequestDescribe
	q.Version = d.version
	q.Partition = partition.ID
	q.LeaderEpoch = -1
	q.Wait = d.reactor.settings.RequestTimeout
	return d.reactor.shard(partition.ID), nil
}

func (d *describeParts) sent(int, *mail.Request, core.ShardID) {}

func (d *describeParts) fail(i int, e *proto.Error) {
	d.reactor.stats.fail(e.Code)
	leader := &d.topic.Partitions[i]
	d.response.Partitions[i] = proto.PartitionDescription{
		Error:          *e,
		Leader:         uint32(leader.Leader),
		LeaderEpoch:    int32(leader.LeaderEpoch),
		Replicas:       []uint32{uint32(leader.Leader)},
		LogStartOffset: -1,
		HighWatermark:  -1,
		LogEndOffset:   -1,
	}
}

func (d *describeParts) take(i int, a *mail.Answer) {
	leader := uint32(d.topic.Partitions[i].Leader)
	d.response.Partitions[i] = proto.PartitionDescription{
		Leader:         leader,
		LeaderEpoch:    int32(a.LeaderEpoch),
		Replicas:       []uint32{leader},
		LogStartOffset: int64(a.LogStartOffset),
		HighWatermark:  int64(a.HighWatermark),
		LogEndOffset:   int64(a.LogEndOffset),
		SizeBytes:      uint64(max(0, a.SizeBytes)),
		Storage:        d.storage(a),
	}
}

// storage is what a partition's leader knows of its records, within the answer's bound.
func (d *describeParts) storage(a *mail.Answer) *proto.PartitionStorage {
	s, _ := a.Body.(*proto.PartitionStorage)
	if s == nil {
		return nil
	}
	s.Damages = s.Damages[:min(len(s.Damages), describedDamagesMax-d.damages)]
	d.damages += len(s.Damages)
	return s
}

func (d *describeParts) finish() proto.Message { return &d.response }

// topicConfigs lists a topic's settings in the order of their keys.
func topicConfigs(topic *core.Topic) []proto.TopicConfigEntry {
	docs := make(map[string]string)
	for _, key := range core.TopicKeys() {
		docs[key.Name] = key.Doc
	}
	settings := topic.Config.List(topic.Overrides)
	slices.SortFunc(settings, func(a, b core.TopicSetting) int { return strings.Compare(a.Name, b.Name) })
	entries := make([]proto.TopicConfigEntry, len(settings))
	for i, setting := range settings {
		source := proto.ConfigSourceDefault
		if setting.Source == core.SourceTopic {
			source = proto.ConfigSourceTopic
		}
		entries[i] = proto.TopicConfigEntry{Key: setting.Name, Value: setting.Value, Source: source, Doc: docs[setting.Name]}
	}
	return entries
}
