package shard

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/group"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// The allowed time-outs of a member.
const (
	sessionTimeoutMin   = 500 * time.Millisecond
	sessionTimeoutMax   = 30 * time.Minute
	rebalanceTimeoutMin = 500 * time.Millisecond
	rebalanceTimeoutMax = time.Hour
)

// groupsPageMax bounds a page of LIST_GROUPS.
const groupsPageMax = 1_000

// groupCommand takes one command about a group that this shard coordinates.
func (m *Machine) groupCommand(r *mail.Request) {
	p, err := m.serve(r.Partition, -1)
	if err == nil && p.coordinator == nil {
		err = proto.CodeInvalidRequest.Errorf("partition %d of topic %s keeps no groups", p.number, p.topic.Name)
	}
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	c := p.coordinator
	command := r.Body.(*mail.GroupCommand)
	if c.waiting.Len()+len(c.fresh) >= groupRepliesMax {
		m.refuseRequest(r, errOverloadedGroups)
		return
	}
	switch body := command.Message.(type) {
	case *proto.JoinGroupRequest:
		err = c.join(r, body, command)
	case *proto.HeartbeatRequest:
		err = c.heartbeat(r, body, command)
	case *proto.LeaveGroupRequest:
		err = c.leave(r, body)
	case *proto.FenceGroupRequest:
		err = c.fence(r, body)
	case *proto.ListGroupsRequest:
		err = c.listGroups(r, body)
	case *proto.DescribeGroupRequest:
		err = c.describe(r, body)
	case *proto.DeleteGroupRequest:
		err = c.delete(r, body)
	default:
		err = proto.CodeUnknownCommand.Errorf("a coordinator has no command of type %T", command.Message)
	}
	if err != nil {
		m.refuseRequest(r, err)
	}
}

func unknownGroup(name string) *proto.Error {
	return proto.CodeUnknownGroup.Errorf("group %s does not exist", core.Quote(name))
}

// existing finds a group that is not being deleted.
func (c *coordinator) existing(name string) (*coordinated, *proto.Error) {
	e := c.byName[name]
	switch {
	case e == nil:
		return nil, unknownGroup(name)
	case e.forgetting != nil:
		return nil, errForgetting
	}
	return e, nil
}

// wanted finds a group, or makes it.
func (c *coordinator) wanted(name string, kind group.Kind) (*coordinated, *proto.Error) {
	e := c.byName[name]
	switch {
	case e != nil && e.forgetting != nil:
		return nil, errForgetting
	case e != nil:
		return e, nil
	case len(c.byName) >= core.GroupsPerCoordinatorMax:
		err := proto.CodeGroupFull.Errorf("partition %d of %s keeps %d groups, as many as it may: delete groups that are done", c.partition.number, core.GroupsTopic, len(c.byName))
		err.Limit = core.GroupsPerCoordinatorMax
		return nil, err
	case c.weight+newGroupWeight+len(name) > core.GroupsBytesMax:
		err := proto.CodeGroupFull.Errorf("partition %d of %s keeps %d groups of %d bytes, and allowed are %d bytes: delete groups that are done", c.partition.number, core.GroupsTopic, len(c.byName), c.weight, core.GroupsBytesMax)
		err.Limit = core.GroupsBytesMax
		return nil, err
	}
	return c.add(group.New(name, kind, c.floor, c.wallMillis())), nil
}

// newGroupWeight is more than a group without members takes beside its name.
const newGroupWeight = 128

func timeoutAllowed(name string, millis uint32, least, most time.Duration) *proto.Error {
	d := time.Duration(millis) * time.Millisecond
	if d >= least && d <= most {
		return nil
	}
	err := proto.CodeInvalidTimeout.Errorf("%s is %d ms; allowed are %d to %d ms", name, millis, least.Milliseconds(), most.Milliseconds())
	err.Limit = uint64(min(max(d, least), most).Milliseconds())
	return err
}

// joinAllowed checks what a member says of itself.
func joinAllowed(b *proto.JoinGroupRequest) *proto.Error {
	invalid := func(format string, args ...any) *proto.Error { return proto.CodeInvalidRequest.Errorf(format, args...) }
	for _, f := range []struct {
		name, text string
		most       int
	}{{"member_id", b.MemberID, core.MemberIDBytesMax}, {"instance_id", b.InstanceID, core.GroupNameBytesMax}, {"client_name", b.ClientName, core.GroupNameBytesMax},
		{"pattern", b.Pattern, core.GroupPatternBytesMax}} {
		if len(f.text) > f.most {
			return invalid("%s has %d bytes; allowed are %d", f.name, len(f.text), f.most)
		}
	}
	switch {
	case b.MemberID == "":
		return invalid("member_id is empty: allowed are 1 to %d bytes, unlike those of any other member", core.MemberIDBytesMax)
	case !b.Kind.Valid():
		return invalid("kind %d: 0 (stream) and 1 (queue) are allowed", uint8(b.Kind))
	case len(b.Topics) == 0 && b.Pattern == "":
		return invalid("neither topics nor a pattern are given: say what to read")
	case len(b.Topics) > core.GroupTopicsMax:
		return invalid("%d topics; allowed are %d: use a pattern", len(b.Topics), core.GroupTopicsMax)
	}
	for _, name := range b.Topics {
		if problem := core.TopicNameProblem(name); problem != "" {
			return proto.CodeInvalidName.Errorf("%s", problem)
		}
	}
	if _, err := regexp.Compile(b.Pattern); err != nil {
		return invalid("pattern %s is no regular expression: %v", core.Quote(b.Pattern), err)
	}
	if err := timeoutAllowed("session_timeout_ms", b.SessionTimeoutMs, sessionTimeoutMin, sessionTimeoutMax); err != nil {
		return err
	}
	return timeoutAllowed("rebalance_timeout_ms", b.RebalanceTimeoutMs, rebalanceTimeoutMin, rebalanceTimeoutMax)
}

func (c *coordinator) join(r *mail.Request, b *proto.JoinGroupRequest, command *mail.GroupCommand) *proto.Error {
	if err := joinAllowed(b); err != nil {
		return err
	}
	e, err := c.wanted(b.Group, group.Kind(b.Kind))
	if err != nil {
		return err
	}
	if e.Kind != group.Kind(b.Kind) {
		if len(e.Members) > 0 || e.record != nil && e.Kind != group.Kind(b.Kind) {
			return proto.CodeGroupKindMismatch.Errorf("group %s is a %s group", core.Quote(b.Group), proto.GroupKind(e.Kind))
		}
	}
	c.allow(e)
	member, refused := e.Join(&group.Joining{
		ID: b.MemberID, Instance: b.InstanceID, Client: b.ClientName, Host: command.Host,
		Session: int64(b.SessionTimeoutMs) * int64(time.Millisecond), Rebalance: int64(b.RebalanceTimeoutMs) * int64(time.Millisecond),
		Names: b.Topics, Pattern: b.Pattern,
	}, command.View, c.machine().now)
	if refused != nil {
		full := proto.CodeGroupFull.Errorf("group %s: %v", core.Quote(b.Group), refused)
		full.Limit = core.GroupMembersMax
		var room *group.RoomError
		if errors.As(refused, &room) {
			full.Limit = uint64(max(0, room.Max))
		}
		if e.record == nil && !e.dirty { // it was made for this member
			c.remove(e)
		}
		return full
	}
	c.changed(e)
	c.reply(r, e, &proto.JoinGroupResponse{MemberEpoch: member.Epoch, GroupEpoch: e.Epoch, Assignment: assignment(e.Group, member)}, nil)
	return nil
}

// member finds who a command speaks of, or says why there is nobody.
func (c *coordinator) member(name, id, instance string, epoch int64) (*coordinated, *group.Member, *proto.Error) {
	e, err := c.existing(name)
	if err != nil {
		return nil, nil, err
	}
	m := e.Member(id)
	switch {
	case m == nil && e.Static(instance) != nil:
		return nil, nil, proto.CodeStaleEpoch.Errorf("another process has joined group %s as instance %s", core.Quote(name), core.Quote(instance))
	case m == nil:
		return nil, nil, proto.CodeUnknownMember.Errorf("group %s has no member %s: it was removed or has left; join again under a new id", core.Quote(name), core.Quote(id))
	case epoch != m.Epoch:
		return nil, nil, proto.CodeStaleEpoch.Errorf("member %s of group %s has epoch %d, not %d", core.Quote(id), core.Quote(name), m.Epoch, epoch)
	}
	return e, m, nil
}

func (c *coordinator) heartbeat(r *mail.Request, b *proto.HeartbeatRequest, command *mail.GroupCommand) *proto.Error {
	e, member, err := c.member(b.Group, b.MemberID, b.InstanceID, b.MemberEpoch)
	if err != nil {
		return err
	}
	if b.Applied > member.Version {
		return proto.CodeInvalidRequest.Errorf("applied %d: the newest assignment of the member is %d", b.Applied, member.Version)
	}
	m := c.machine()
	if old := e.beats[member]; old != nil { // the member asks again: nobody reads the older answer
		old.end()
	}
	e.Heartbeat(member, b.Applied, m.now)
	if c.mayLook() {
		c.allow(e)
		c.looks -= e.Refresh(command.View, m.now)
	}
	c.changed(e)
	wait := min(int64(b.WaitMs)*int64(time.Millisecond), member.Session/3)
	if member.Version != b.Applied || wait <= 0 {
		c.replyBeat(r, e, member, b.Applied)
		return nil
	}
	beat := &groupBeat{group: e, member: member, epoch: member.Epoch, request: *r, applied: b.Applied}
	if e.beats == nil {
		e.beats = make(map[*group.Member]*groupBeat)
	}
	e.beats[member] = beat
	m.wheel.arm(&beat.timer, beat, m.now+wait)
	return nil
}

func (c *coordinator) replyBeat(r *mail.Request, e *coordinated, member *group.Member, applied int64) {
	response := &proto.HeartbeatResponse{GroupEpoch: e.Epoch}
	if member.Version != applied {
		a := assignment(e.Group, member)
		response.Assignment = &a
	}
	c.reply(r, e, response, nil)
}

// expire answers a heartbeat that has waited long enough.
func (b *groupBeat) expire() { b.end() }

// end answers a heartbeat that waits.
func (b *groupBeat) end() {
	e := b.group
	c := e.coordinator
	c.machine().wheel.disarm(&b.timer)
	delete(e.beats, b.member)
	if !b.over() {
		c.replyBeat(&b.request, e, b.member, b.applied)
		return
	}
	err := proto.CodeUnknownMember.Errorf("the member was removed from group %s; join again under a new id", core.Quote(e.Name))
	if b.member.Instance != "" && e.Static(b.member.Instance) != nil {
		err = proto.CodeStaleEpoch.Errorf("another process has joined group %s as instance %s", core.Quote(e.Name), core.Quote(b.member.Instance))
	}
	c.reply(&b.request, e, nil, err)
}

// endBeats refuses the heartbeats that wait.
func (e *coordinated) endBeats(err *proto.Error) {
	for _, member := range e.Members {
		if b := e.beats[member]; b != nil {
			e.coordinator.machine().wheel.disarm(&b.timer)
			e.coordinator.machine().refuseRequest(&b.request, err)
		}
	}
	e.beats = nil
}

func (c *coordinator) leave(r *mail.Request, b *proto.LeaveGroupRequest) *proto.Error {
	e, member, err := c.member(b.Group, b.MemberID, b.InstanceID, b.MemberEpoch)
	if err != nil {
		return err
	}
	e.Leave(member, b.Returning, c.wallMillis(), c.machine().now)
	c.changed(e)
	c.reply(r, e, &proto.LeaveGroupResponse{GroupEpoch: e.Epoch}, nil)
	return nil
}

func notEmpty(e *coordinated) *proto.Error {
	return proto.CodeGroupNotEmpty.Errorf("group %s has %d members, the first is %s: stop them first", core.Quote(e.Name), len(e.Members), core.Quote(e.Members[0].ID))
}

func (c *coordinator) fence(r *mail.Request, b *proto.FenceGroupRequest) *proto.Error {
	e, err := c.wanted(b.Group, group.Stream)
	if err != nil {
		return err
	}
	if len(e.Members) > 0 && !b.Force {
		return notEmpty(e)
	}
	epoch := e.Fence(c.wallMillis())
	c.changed(e)
	c.reply(r, e, &proto.FenceGroupResponse{Epoch: epoch}, nil)
	return nil
}

func (e *coordinated) state() proto.GroupState {
	switch {
	case len(e.Members) == 0:
		return proto.GroupStateEmpty
	case e.movingSince != 0:
		return proto.GroupStateMoving
	}
	return proto.GroupStateSettled
}

// listGroups answers a page: groups behind a name, in the order of names. The cursor is the
// name of the last one; empty when there are no more here.
func (c *coordinator) listGroups(r *mail.Request, b *proto.ListGroupsRequest) *proto.Error {
	most := groupsPageMax
	if b.PageGroupsMax > 0 {
		most = int(min(b.PageGroupsMax, groupsPageMax))
	}
	response := &proto.ListGroupsResponse{}
	from, found := slices.BinarySearch(c.sorted, string(b.Cursor))
	if found {
		from++
	}
	for _, name := range c.sorted[from:] {
		if len(response.Groups) == most {
			response.Cursor = []byte(response.Groups[most-1].Group)
			break
		}
		e := c.byName[name]
		response.Groups = append(response.Groups, proto.ListedGroup{
			Group: name, Kind: proto.GroupKind(e.Kind), State: e.state(), Epoch: e.Epoch, Members: uint32(len(e.Members)),
		})
	}
	c.reply(r, nil, response, nil)
	return nil
}

func (c *coordinator) describe(r *mail.Request, b *proto.DescribeGroupRequest) *proto.Error {
	e := c.byName[b.Group]
	if e == nil {
		return unknownGroup(b.Group)
	}
	response := &proto.DescribeGroupResponse{Kind: proto.GroupKind(e.Kind), State: e.state(), Epoch: e.Epoch, EmptySinceMs: -1}
	if len(e.Members) == 0 {
		response.EmptySinceMs = e.EmptySince
	}
	for _, m := range e.Members {
		response.Members = append(response.Members, proto.GroupMember{
			MemberID: m.ID, InstanceID: m.Instance, ClientName: m.Client, Host: m.Host, MemberEpoch: m.Epoch,
			SessionTimeoutMs: uint32(m.Session / int64(time.Millisecond)), RebalanceTimeoutMs: uint32(m.Rebalance / int64(time.Millisecond)),
			HeardMs: (c.machine().now - m.Heard) / int64(time.Millisecond), Assignment: assignment(e.Group, m),
			Leaving: partitionsWhere(e.Group, func(p *group.Partition) bool { return p.Holder == m && p.Target != m }),
		})
	}
	c.reply(r, e, response, nil)
	return nil
}

// assignment is what a member may read.
func assignment(g *group.Group, m *group.Member) proto.GroupAssignment {
	settled := true
	topics := partitionsWhere(g, func(p *group.Partition) bool {
		if g.Kind == group.Queue {
			return p.Shares(m)
		}
		settled = settled && (p.Target != m || p.Holder == m)
		return p.Holder == m && p.Target == m
	})
	if g.Kind == group.Queue { // nothing moves between its members, so only the membership can pass
		for i := range topics {
			for k := range topics[i].Partitions {
				topics[i].Partitions[k].OwnerEpoch = m.Epoch
			}
		}
	}
	return proto.GroupAssignment{Version: m.Version, Settled: settled, Topics: topics}
}

func partitionsWhere(g *group.Group, holds func(*group.Partition) bool) (topics []proto.AssignedTopic) {
	for _, t := range g.Topics {
		var list []proto.AssignedPartition
		for i := range t.Partitions {
			if p := &t.Partitions[i]; holds(p) {
				list = append(list, proto.AssignedPartition{Partition: uint32(i), OwnerEpoch: p.Epoch})
			}
		}
		if list != nil {
			topics = append(topics, proto.AssignedTopic{TopicID: t.ID, Name: t.Name, Partitions: list})
		}
	}
	return topics
}

var (
	errForgetting       = &proto.Error{Code: proto.CodePartitionUnavailable, Text: "the group is being deleted: try again in a moment"}
	errGroupsTopic      = &proto.Error{Code: proto.CodeInvalidRequest, Text: fmt.Sprintf("topic %s is the broker's own and holds no records", core.GroupsTopic)}
	errOverloadedGroups = overloaded("too many commands about groups wait for the disk")
	errOverloadedCursor = overloaded("too many commits of this partition wait for the disk")
)
