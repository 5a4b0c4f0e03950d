package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// admin passes a command about metadata to the shard of the metadata partition.
// The message is a fresh one: the shard keeps it beyond this event.
func (s *Session) admin(id uint64, command proto.Command, p []byte) {
	var m proto.Message
	var timeout *uint32
	switch command {
	case proto.CommandCreateTopic:
		request := &proto.CreateTopicRequest{}
		m, timeout = request, &request.TimeoutMs
	case proto.CommandDeleteTopic:
		request := &proto.DeleteTopicRequest{}
		m, timeout = request, &request.TimeoutMs
	case proto.CommandAlterTopic:
		request := &proto.AlterTopicRequest{}
		m, timeout = request, &request.TimeoutMs
	default:
		request := &proto.InitProducerRequest{}
		m, timeout = request, new(uint32)
	}
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	r := s.reactor
	request := mail.Request{
		Kind:      mail.RequestAdmin,
		Version:   s.in.header.Version,
		ID:        id,
		Partition: core.MetadataPartition,
		Wait:      s.wait(*timeout),
		Received:  r.now,
		Body:      m,
	}
	if !s.send(r.shard(core.MetadataPartition), &request) {
		s.refuse(id, errOverloaded)
	}
}

// deleteRecords passes DELETE_RECORDS to the owner of the partition.
func (s *Session) deleteRecords(id uint64, p []byte) {
	r := s.reactor
	var m proto.DeleteRecordsRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	_, partition, e := r.partition(m.TopicID, m.Partition)
	if e == nil && m.BeforeOffset < -1 {
		e = proto.CodeInvalidRequest.Errorf("before_offset %d: an offset, or -1 for the high watermark", m.BeforeOffset)
	}
	if e != nil {
		s.refuse(id, e)
		return
	}
	request := mail.Request{
		Kind:        mail.RequestTrim,
		Version:     s.in.header.Version,
		ID:          id,
		Partition:   partition.ID,
		LeaderEpoch: core.LeaderEpoch(m.LeaderEpoch),
		Offset:      core.Offset(m.BeforeOffset),
		Wait:        s.wait(m.TimeoutMs),
		Received:    r.now,
	}
	if !s.send(r.shard(partition.ID), &request) {
		s.refuse(id, errOverloaded)
	}
}
