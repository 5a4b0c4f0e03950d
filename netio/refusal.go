package netio

import (
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// The texts of refusals that carry details: what was given, what is allowed, what to do.

func versionText(h *proto.FrameHeader, served proto.VersionRange) string {
	return fmt.Sprintf("version %d of %v is not served: %d to %d are", h.Version, h.Command, served.VersionMin, served.VersionMax)
}

func windowRequestsText(limit int) string {
	return fmt.Sprintf("more than %d requests unanswered; wait for answers, HELLO and CREDIT say how many are allowed", limit)
}

func windowBytesText(bytes, unanswered, window int64) string {
	return fmt.Sprintf("a request of %d bytes with %d bytes unanswered passes the window of %d; wait for answers, HELLO and CREDIT say how much is allowed", bytes, unanswered, window)
}

func unknownTopicID(id core.TopicID) *proto.Error {
	return proto.CodeUnknownTopic.Errorf("no topic has the id %v; refresh the metadata", id)
}

func unknownTopicName(name string) *proto.Error {
	if problem := core.TopicNameProblem(name); problem != "" && name != core.GroupsTopic { // which is made with the first group
		return &proto.Error{Code: proto.CodeInvalidName, Text: problem}
	}
	return proto.CodeUnknownTopic.Errorf("there is no topic %s", core.Quote(name))
}

func invalidPartition(topic *core.Topic, number uint32) *proto.Error {
	return &proto.Error{
		Code:  proto.CodeInvalidPartition,
		Text:  fmt.Sprintf("partition %d of topic %s: it has the partitions 0 to %d", number, core.Quote(topic.Name), len(topic.Partitions)-1),
		Limit: uint64(len(topic.Partitions)),
	}
}

func notLeader(p *core.TopicPartition) *proto.Error {
	return &proto.Error{
		Code:   proto.CodeNotLeader,
		Text:   fmt.Sprintf("node %d leads the partition", p.Leader),
		Leader: &proto.LeaderHint{NodeID: uint32(p.Leader), LeaderEpoch: int32(p.LeaderEpoch)},
	}
}

func batchTooLarge(bytes, limit int) *proto.Error {
	return &proto.Error{
		Code:  proto.CodeBatchTooLarge,
		Text:  fmt.Sprintf("the batch has %d bytes, the topic allows %d (max.message.bytes); send smaller batches", bytes, limit),
		Limit: uint64(limit),
	}
}

func tooManyRecords(count, limit int) *proto.Error {
	return &proto.Error{
		Code:  proto.CodeBatchTooLarge,
		Text:  fmt.Sprintf("the batch has %d records, the broker allows %d (producer.max-batch-size); send smaller batches", count, limit),
		Limit: uint64(limit),
	}
}

// partition finds a partition that this node leads.
func (r *Reactor) partition(id [16]byte, number uint32) (*core.Topic, *core.TopicPartition, *proto.Error) {
	topic := r.view.TopicByID(core.TopicID(id))
	if topic == nil {
		return nil, nil, unknownTopicID(core.TopicID(id))
	}
	if uint64(number) >= uint64(len(topic.Partitions)) {
		return nil, nil, invalidPartition(topic, number)
	}
	p := &topic.Partitions[number]
	if p.Leader != r.settings.NodeID {
		return nil, nil, notLeader(p)
	}
	return topic, p, nil
}

// topic finds a topic by its name or its id, of which exactly one is given.
func (r *Reactor) topic(name string, id [16]byte) (*core.Topic, *proto.Error) {
	byID := core.TopicID(id) != core.TopicID{}
	switch {
	case byID == (name != ""):
		return nil, proto.CodeInvalidRequest.Errorf("a topic is named by its name or its id: exactly one of the two is given")
	case byID:
		if topic := r.view.TopicByID(core.TopicID(id)); topic != nil {
			return topic, nil
		}
		return nil, unknownTopicID(core.TopicID(id))
	}
	if topic := r.view.TopicByName(name); topic != nil {
		return topic, nil
	}
	return nil, unknownTopicName(name)
}

func slowConsumerText(waiting int, timeout int64) string {
	return fmt.Sprintf("%d bytes wait and none was taken for %v; read faster or ask for less", waiting, time.Duration(timeout))
}
