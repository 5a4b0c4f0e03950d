package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// groupsTopic is the topic whose partitions keep the groups.
const groupsTopic = "__groups"

// GroupKind says how the members of a group share partitions.
type GroupKind = proto.GroupKind

// GroupState says what a group is doing.
type GroupState = proto.GroupState

// The kinds and states of groups.
const (
	GroupStream = proto.GroupKindStream
	GroupQueue  = proto.GroupKindQueue

	GroupEmpty   = proto.GroupStateEmpty
	GroupSettled = proto.GroupStateSettled
	GroupMoving  = proto.GroupStateMoving
)

// GroupListing is a group in short.
type GroupListing struct {
	Group   string
	Kind    GroupKind
	State   GroupState
	Epoch   int64
	Members int
}

// GroupDescription is a group with its members.
type GroupDescription struct {
	Group      string
	Kind       GroupKind
	State      GroupState
	Epoch      int64
	EmptySince time.Time // zero while it has members
	Members    []GroupMember
}

// GroupMember is a member and what it has.
type GroupMember struct {
	ID, Instance, ClientName, Host string
	SessionTimeout                 time.Duration
	RebalanceTimeout               time.Duration
	Heard                          time.Duration // since it was last heard of
	Partitions                     []GroupPlace
	Leaving                        []GroupPlace // told to be given up, and not given up yet
}

// GroupPlace is a partition with the epoch under which a member has it.
type GroupPlace struct {
	Topic      string
	TopicID    TopicID
	Partition  uint32
	OwnerEpoch int64
}

// GroupOffset is how far a group has come in a partition.
type GroupOffset struct {
	Topic          string // empty when the topic's name could not be found out
	TopicID        TopicID
	Partition      uint32
	Committed      int64 // -1: nothing, it only owns the partition
	Metadata       string
	CommittedAt    time.Time // zero when nothing was
	OwnerEpoch     int64
	LogStartOffset int64
	HighWatermark  int64
	Err            error
}

// Lag is how many offsets are between what was committed, or the log start, and the end.
func (o GroupOffset) Lag() int64 {
	return max(0, o.HighWatermark-max(o.Committed, o.LogStartOffset))
}

// askCoordinator calls the broker that keeps a group, and once more when that has changed.
func askCoordinator[R any, P answerMessage[R]](ctx context.Context, c *Client, group string, request proto.Message) (*R, error) {
	for again := true; ; again = false {
		live, err := c.coordinator(ctx, group)
		if err != nil {
			return nil, err
		}
		answer, err := conn.Call[R, P](ctx, live, request)
		if err == nil || !again || !staleMetadata(err) && !errors.Is(err, ErrDisconnected) {
			return answer, err
		}
		if _, err := c.cluster.Refresh(ctx, groupsTopic); err != nil && !errors.Is(err, ErrUnknownTopic) {
			return nil, err
		}
	}
}

// coordinator connects to the broker that keeps a group; any, before there are groups.
func (c *Client) coordinator(ctx context.Context, group string) (*conn.Conn, error) {
	t, err := c.cluster.Topic(ctx, groupsTopic)
	switch {
	case errors.Is(err, ErrUnknownTopic):
		return c.cluster.Any(ctx)
	case err != nil:
		return nil, err
	}
	leader := t.Partitions[proto.PartitionForKey([]byte(group), uint32(len(t.Partitions)))].Leader
	if leader == 0 {
		return nil, ErrPartitionUnavailable.Errorf("the coordinator of group %q has no leader now", group)
	}
	return c.cluster.Link(cluster.RoleProduce, leader).Get(ctx)
}

// ListGroups lists the groups of the cluster, page by page. The loop gets an error as its last element when it could not
// go on.
func (a *Admin) ListGroups(ctx context.Context) iter.Seq2[GroupListing, error] {
	return func(yield func(GroupListing, error) bool) {
		nodes, err := a.groupNodes(ctx)
		if err != nil {
			yield(GroupListing{}, err)
			return
		}
		for _, node := range nodes {
			for cursor := []byte(nil); ; {
				answer, err := askNode[proto.ListGroupsResponse](ctx, a, node, &proto.ListGroupsRequest{Cursor: cursor})
				if err != nil {
					yield(GroupListing{}, err)
					return
				}
				for _, g := range answer.Groups {
					if !yield(GroupListing{Group: g.Group, Kind: g.Kind, State: g.State, Epoch: g.Epoch, Members: int(g.Members)}, nil) {
						return
					}
				}
				if cursor = answer.Cursor; len(cursor) == 0 {
					break
				}
			}
		}
	}
}

// groupNodes are the brokers that keep groups.
func (a *Admin) groupNodes(ctx context.Context) (nodes []uint32, err error) {
	t, err := a.client.cluster.Refresh(ctx, groupsTopic)
	if errors.Is(err, ErrUnknownTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seen := map[uint32]bool{0: true}
	for _, p := range t.Partitions {
		if !seen[p.Leader] {
			seen[p.Leader] = true
			nodes = append(nodes, p.Leader)
		}
	}
	return nodes, nil
}

// DescribeGroup tells who is in a group and what each has.
func (a *Admin) DescribeGroup(ctx context.Context, group string) (GroupDescription, error) {
	answer, err := askCoordinator[proto.DescribeGroupResponse](ctx, a.client, group, &proto.DescribeGroupRequest{Group: group})
	if err != nil {
		return GroupDescription{}, err
	}
	d := GroupDescription{Group: group, Kind: answer.Kind, State: answer.State, Epoch: answer.Epoch}
	if answer.EmptySinceMs >= 0 {
		d.EmptySince = time.UnixMilli(answer.EmptySinceMs)
	}
	for _, m := range answer.Members {
		d.Members = append(d.Members, GroupMember{
			ID: m.MemberID, Instance: m.InstanceID, ClientName: m.ClientName, Host: m.Host,
			SessionTimeout:   time.Duration(m.SessionTimeoutMs) * time.Millisecond,
			RebalanceTimeout: time.Duration(m.RebalanceTimeoutMs) * time.Millisecond,
			Heard:            time.Duration(m.HeardMs) * time.Millisecond,
			Partitions:       groupPlaces(m.Assignment.Topics), Leaving: groupPlaces(m.Leaving),
		})
	}
	return d, nil
}

func groupPlaces(topics []proto.AssignedTopic) (places []GroupPlace) {
	for _, t := range topics {
		for _, p := range t.Partitions {
			places = append(places, GroupPlace{Topic: t.Name, TopicID: t.TopicID, Partition: p.Partition, OwnerEpoch: p.OwnerEpoch})
		}
	}
	return places
}

// DeleteGroup deletes a group without members, with everything that it has committed.
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	_, err := askCoordinator[proto.DeleteGroupResponse](ctx, a.client, group, &proto.DeleteGroupRequest{Group: group})
	return err
}

// leaders are the brokers that lead partitions, and the names of all topics.
func (a *Admin) leaders(ctx context.Context) (names map[TopicID]string, leaders map[uint32]bool, err error) {
	names, leaders = map[TopicID]string{}, map[uint32]bool{}
	for topic, err := range a.Topics(ctx) {
		if err != nil {
			return nil, nil, err
		}
		names[topic.ID] = topic.Name
		for _, p := range topic.Partitions {
			leaders[p.Leader] = true
		}
	}
	delete(leaders, 0) // of partitions without a leader
	return names, leaders, nil
}

// GroupOffsets is how far a group has come in every partition that it has ever owned or committed to, by topic.
func (a *Admin) GroupOffsets(ctx context.Context, group string) ([]GroupOffset, error) {
	names, leaders, err := a.leaders(ctx)
	if err != nil {
		return nil, err
	}
	var all []GroupOffset
	for node := range leaders {
		answer, err := askNode[proto.FetchOffsetsResponse](ctx, a, node, &proto.FetchOffsetsRequest{Group: group, All: true})
		if err != nil {
			return nil, err
		}
		for i := range answer.Items {
			o := groupOffset(&answer.Items[i])
			o.Topic = names[o.TopicID]
			all = append(all, o)
		}
	}
	return all, nil
}

func groupOffset(r *proto.FetchOffsetsResult) GroupOffset {
	o := GroupOffset{TopicID: r.TopicID, Partition: r.Partition, Committed: r.Committed, Metadata: r.Metadata, OwnerEpoch: r.OwnerEpoch,
		LogStartOffset: r.LogStartOffset, HighWatermark: r.HighWatermark, Err: r.Error.Err()}
	if r.CommittedMs >= 0 && r.Committed >= 0 {
		o.CommittedAt = time.UnixMilli(r.CommittedMs)
	}
	return o
}

// SeekGroup sets what a group has committed to partitions of one topic, also back. The group must have no members, unless
// force is set: then they are removed first, and their late commits are refused.
func (a *Admin) SeekGroup(ctx context.Context, group, topic string, offsets map[uint32]int64, force bool) error {
	fence, err := askCoordinator[proto.FenceGroupResponse](ctx, a.client, group, &proto.FenceGroupRequest{Group: group, Force: force})
	if err != nil {
		return err
	}
	var commits []commit
	for number, offset := range offsets {
		commits = append(commits, commit{partKey{topic, number}, fence.Epoch, offset, -1})
	}
	var failed []error
	for _, o := range a.client.commitOffsets(ctx, group, commits, true) {
		if o.err != nil {
			failed = append(failed, fmt.Errorf("topic %q partition %d: %w", o.key.topic, o.key.number, o.err))
		}
	}
	return errors.Join(failed...)
}

// commit is what is to be committed to one partition.
type commit struct {
	key    partKey
	owner  int64
	offset int64
	epoch  int32
}

// committed is what became of a commit.
type committed struct {
	commit
	err error
}

// byLeader groups things by the leader of their partition. Those without one fail.
func byLeader[T any](ctx context.Context, c *Client, list []T, key func(T) partKey, fail func(T, error)) map[uint32][]T {
	topics := map[string]*cluster.Topic{}
	found := map[uint32][]T{}
	for _, item := range list {
		k := key(item)
		t := topics[k.topic]
		if t == nil {
			var err error
			if t, err = c.cluster.Topic(ctx, k.topic); err != nil {
				fail(item, err)
				continue
			}
			topics[k.topic] = t
		}
		switch {
		case int(k.number) >= len(t.Partitions):
			fail(item, partitionError(k.topic, k.number, len(t.Partitions)))
		case t.Partitions[k.number].Leader == 0:
			fail(item, ErrPartitionUnavailable.Errorf("topic %q partition %d has no leader now", k.topic, k.number))
		default:
			leader := t.Partitions[k.number].Leader
			found[leader] = append(found[leader], item)
		}
	}
	return found
}

// commitOffsets commits at every leader at the same time.
func (c *Client) commitOffsets(ctx context.Context, group string, commits []commit, seek bool) []committed {
	var mu sync.Mutex
	var results []committed
	done := func(k commit, err error) {
		mu.Lock()
		defer mu.Unlock()
		results = append(results, committed{k, err})
	}
	leaders := byLeader(ctx, c, commits, func(k commit) partKey { return k.key }, done)
	var all sync.WaitGroup
	for leader, list := range leaders {
		all.Go(func() {
			request := &proto.CommitOffsetRequest{Group: group, Seek: seek}
			for _, k := range list {
				t := c.cluster.Cached(k.key.topic)
				if t == nil {
					t = &cluster.Topic{}
				}
				request.Items = append(request.Items, proto.CommitOffsetItem{TopicID: t.ID, Partition: k.key.number, OwnerEpoch: k.owner, Offset: k.offset, LastEpoch: k.epoch})
			}
			live, err := c.cluster.Link(cluster.RoleProduce, leader).Get(ctx)
			var answer *proto.CommitOffsetResponse
			if err == nil {
				answer, err = conn.Call[proto.CommitOffsetResponse](ctx, live, request)
			}
			for i, k := range list {
				switch {
				case err != nil:
					done(k, err)
				case i >= len(answer.Items):
					done(k, ErrInternal.Errorf("the broker answered %d of %d commits", len(answer.Items), len(list)))
				default:
					done(k, answer.Items[i].Error.Err())
				}
			}
		})
	}
	all.Wait()
	return results
}
