package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// groupCommand passes a command about a group to the group's coordinator: the owner of the
// partition of core.GroupsTopic that the group's name belongs to. The message is a fresh one:
// the shard keeps it beyond this event.
func (s *Session) groupCommand(id uint64, command proto.Command, p []byte) {
	m := proto.NewRequest(command)
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	if list, ok := m.(*proto.ListGroupsRequest); ok {
		list.Cursor = append([]byte(nil), list.Cursor...) // it lies in the frame, which is gone after this event
		s.listGroups(id, list)
		return
	}
	name, makes := groupOf(m)
	if problem := core.GroupNameProblem(name); problem != "" {
		s.refuse(id, proto.CodeInvalidName.Errorf("%s", problem))
		return
	}
	topic := s.reactor.view.TopicByName(core.GroupsTopic)
	switch {
	case topic != nil:
		s.sendGroup(id, m, &topic.Partitions[proto.PartitionForKey([]byte(name), uint32(len(topic.Partitions)))])
	case makes:
		s.createGroups(id, m)
	default:
		s.refuse(id, proto.CodeUnknownGroup.Errorf("group %s does not exist", core.Quote(name)))
	}
}

// groupOf is which group a command speaks of, and whether the command makes it.
func groupOf(m proto.Message) (name string, makes bool) {
	switch m := m.(type) {
	case *proto.JoinGroupRequest:
		return m.Group, true
	case *proto.FenceGroupRequest:
		return m.Group, true
	case *proto.HeartbeatRequest:
		return m.Group, false
	case *proto.LeaveGroupRequest:
		return m.Group, false
	case *proto.DescribeGroupRequest:
		return m.Group, false
	case *proto.DeleteGroupRequest:
		return m.Group, false
	}
	core.Assert(false, "a command about a group names it")
	return "", false
}

func (s *Session) sendGroup(id uint64, m proto.Message, partition *core.TopicPartition) {
	r := s.reactor
	if partition.Leader != r.settings.NodeID {
		s.refuse(id, notLeader(partition))
		return
	}
	request := mail.Request{
		Kind: mail.RequestGroup, Version: 1, ID: id, Partition: partition.ID, LeaderEpoch: -1,
		Wait: r.settings.RequestTimeout, Received: r.now,
		Body: &mail.GroupCommand{Message: m, View: r.view, Host: s.conn.Remote()},
	}
	if !s.send(r.shard(partition.ID), &request) {
		s.refuse(id, errOverloaded)
	}
}

// createGroups has the groups' topic made, with the first group. The command goes on when it is there.
func (s *Session) createGroups(id uint64, m proto.Message) {
	request := mail.Request{
		Kind: mail.RequestAdmin, Version: 1, ID: id, Partition: core.MetadataPartition,
		Wait: s.reactor.settings.RequestTimeout, Received: s.reactor.now, Body: &mail.GroupsTopicWanted{},
	}
	if !s.send(s.reactor.shard(core.MetadataPartition), &request) {
		s.refuse(id, errOverloaded)
		return
	}
	s.awaitCreation(id, m)
}

// listGroups answers a page of the groups of one partition of the groups' topic after the
// other. Cursors are the partition's number in two bytes and the name of the last group.
func (s *Session) listGroups(id uint64, m *proto.ListGroupsRequest) {
	topic := s.reactor.view.TopicByName(core.GroupsTopic)
	number := 0
	if n := len(m.Cursor); n > 0 {
		if n < 2 || topic == nil {
			s.refuse(id, proto.CodeInvalidRequest.Errorf("the cursor of %d bytes is none of this broker's", n))
			return
		}
		number = int(m.Cursor[0])<<8 | int(m.Cursor[1])
		m.Cursor = m.Cursor[2:]
	}
	for topic != nil && number < len(topic.Partitions) && topic.Partitions[number].Leader != s.reactor.settings.NodeID {
		number++
		m.Cursor = nil
	}
	if topic == nil || number >= len(topic.Partitions) {
		s.settle(id)
		s.push(id, &proto.ListGroupsResponse{})
		return
	}
	if s.listing == nil {
		s.listing = make(map[uint64]groupPage)
	}
	s.listing[id] = groupPage{number, len(topic.Partitions)}
	s.sendGroup(id, m, &topic.Partitions[number])
}

// groupPage is which partition a LIST_GROUPS asks, of how many.
type groupPage struct{ number, partitions int }

// listed turns a coordinator's page into the client's.
func (s *Session) listed(id uint64, m *proto.ListGroupsResponse) {
	page := s.listing[id]
	delete(s.listing, id)
	next := []byte{byte(page.number >> 8), byte(page.number)}
	switch {
	case len(m.Cursor) > 0:
		m.Cursor = append(next, m.Cursor...)
	case page.number+1 < page.partitions:
		page.number++
		m.Cursor = []byte{byte(page.number >> 8), byte(page.number)}
	}
}
