package pulsemq

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// Admin creates, changes and looks at topics. It has no state of its own and is safe for use by many goroutines. Its
// calls connect when there is no connection, for as long as their context allows. They do not repeat a request that may
// have been carried out: Retriable tells whether trying again makes sense.
type Admin struct{ client *Client }

// TopicCreated is what CreateTopic made.
type TopicCreated struct {
	Name       string
	ID         TopicID // zeros with ValidateOnly
	Partitions uint32
	Replicas   uint16
}

// CreateTopic creates a topic. When it returns, the topic is durable and can be used.
func (a *Admin) CreateTopic(ctx context.Context, spec TopicSpec) (TopicCreated, error) {
	answer, err := ask[proto.CreateTopicResponse](ctx, a, &proto.CreateTopicRequest{
		Name: spec.Name, Partitions: spec.Partitions, Replicas: spec.Replicas, Configs: topicConfigs(spec.Config),
		ValidateOnly: spec.ValidateOnly, TimeoutMs: timeoutMs(ctx)})
	if err != nil {
		return TopicCreated{}, err
	}
	return TopicCreated{Name: spec.Name, ID: answer.TopicID, Partitions: answer.Partitions, Replicas: answer.Replicas}, nil
}

// DeleteTopic deletes a topic with its records. When it returns, the deletion is durable and the name free.
func (a *Admin) DeleteTopic(ctx context.Context, name string) (TopicID, error) {
	answer, err := ask[proto.DeleteTopicResponse](ctx, a, &proto.DeleteTopicRequest{Name: name, TimeoutMs: timeoutMs(ctx)})
	if err != nil {
		return TopicID{}, err
	}
	return answer.TopicID, nil
}

// DeleteTopicID deletes the topic that has this id, never a namesake that was created meanwhile.
func (a *Admin) DeleteTopicID(ctx context.Context, id TopicID) error {
	_, err := ask[proto.DeleteTopicResponse](ctx, a, &proto.DeleteTopicRequest{TopicID: id, TimeoutMs: timeoutMs(ctx)})
	return err
}

// AlterTopic changes a topic's settings or adds partitions, and returns the number of partitions it has now.
func (a *Admin) AlterTopic(ctx context.Context, name string, change TopicChange) (partitions uint32, err error) {
	answer, err := ask[proto.AlterTopicResponse](ctx, a, &proto.AlterTopicRequest{
		Name: name, Set: topicConfigs(change.Set), Unset: change.Unset, Partitions: change.Partitions,
		ValidateOnly: change.ValidateOnly, TimeoutMs: timeoutMs(ctx)})
	if err != nil {
		return 0, err
	}
	a.client.cluster.RefreshLater(name)
	return answer.Partitions, nil
}

// DescribeTopic asks every leader of the topic for its partitions. Those whose leader does not answer have their Err
// set.
func (a *Admin) DescribeTopic(ctx context.Context, name string) (TopicDescription, error) {
	answer, err := ask[proto.DescribeTopicResponse](ctx, a, &proto.DescribeTopicRequest{Name: name})
	if err != nil {
		return TopicDescription{}, err
	}
	d := TopicDescription{Name: answer.Name, ID: answer.TopicID, Replicas: answer.Replicas}
	elsewhere := map[uint32]bool{}
	for i := range answer.Partitions {
		p := describePartition(i, &answer.Partitions[i])
		d.Partitions = append(d.Partitions, p)
		if answer.Partitions[i].Error.Code == proto.CodeNotLeader && p.Leader != 0 {
			elsewhere[p.Leader] = true
		}
	}
	for _, c := range answer.Configs {
		d.Config = append(d.Config, ConfigEntry{Key: c.Key, Value: c.Value, Source: c.Source, Doc: c.Doc})
	}
	if len(elsewhere) > 0 {
		if err := a.learn(ctx, name); err != nil {
			return TopicDescription{}, err
		}
	}
	for leader := range elsewhere {
		theirs, err := askNode[proto.DescribeTopicResponse](ctx, a, leader, &proto.DescribeTopicRequest{TopicID: answer.TopicID})
		for i := range d.Partitions {
			switch {
			case d.Partitions[i].Leader != leader || d.Partitions[i].Err == nil:
			case err != nil:
				d.Partitions[i].Err = err
			case i < len(theirs.Partitions):
				d.Partitions[i] = describePartition(i, &theirs.Partitions[i])
			}
		}
	}
	return d, nil
}

func describePartition(number int, p *proto.PartitionDescription) PartitionDescription {
	return PartitionDescription{
		TopicPartition: TopicPartition{Number: uint32(number), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas},
		LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, LogEndOffset: p.LogEndOffset, SizeBytes: p.SizeBytes,
		Storage: describeStorage(p.Storage), Err: p.Error.Err(),
	}
}

func describeStorage(s *proto.PartitionStorage) *PartitionStorage {
	if s == nil {
		return nil
	}
	d := &PartitionStorage{Verifying: s.Verifying, SealedBytes: s.SealedBytes, DamagesTotal: s.DamagesTotal}
	if s.VerifiedMs >= 0 {
		d.VerifiedSince = time.UnixMilli(s.VerifiedMs)
	}
	for _, one := range s.Damages {
		d.Damages = append(d.Damages, StoredDamage{Base: one.Range.BaseOffset, Next: one.Range.NextOffset,
			Found: time.UnixMilli(one.FoundMs), File: one.File, Text: one.Text})
	}
	return d
}

// VerifyTopic has everything stored of a topic read again from the disk and verified, ahead of the brokers' own passes
// and within their budget. It returns when that has been put down, with one entry per partition. DescribeTopic tells
// how far it is and what is damaged.
func (a *Admin) VerifyTopic(ctx context.Context, name string) ([]Verification, error) {
	answer, err := ask[proto.VerifyTopicResponse](ctx, a, &proto.VerifyTopicRequest{Name: name})
	if err != nil {
		return nil, err
	}
	all := make([]Verification, len(answer.Partitions))
	type theirs struct {
		answer *proto.VerifyTopicResponse
		err    error
	}
	elsewhere := map[uint32]theirs{}
	for i := range answer.Partitions {
		all[i] = verification(i, &answer.Partitions[i])
		hint := answer.Partitions[i].Error.Leader
		if hint == nil || hint.NodeID == 0 {
			continue
		}
		leader, asked := elsewhere[hint.NodeID]
		if !asked {
			if leader.err = a.learn(ctx, name); leader.err == nil {
				leader.answer, leader.err = askNode[proto.VerifyTopicResponse](ctx, a, hint.NodeID, &proto.VerifyTopicRequest{TopicID: answer.TopicID})
			}
			elsewhere[hint.NodeID] = leader
		}
		if leader.err != nil {
			all[i].Err = leader.err
		} else if i < len(leader.answer.Partitions) {
			all[i] = verification(i, &leader.answer.Partitions[i])
		}
	}
	return all, nil
}

func verification(number int, p *proto.VerifyPartition) Verification {
	return Verification{Partition: uint32(number), SealedBytes: p.SealedBytes, Err: p.Error.Err()}
}

// Topics walks over all topics in the order of their names, page by page. Topics that are created or deleted meanwhile
// may be there or not.
func (a *Admin) Topics(ctx context.Context) iter.Seq2[Topic, error] {
	return func(yield func(Topic, error) bool) {
		var cursor []byte
		for {
			page, err := ask[proto.MetadataResponse](ctx, a, &proto.MetadataRequest{Selection: proto.TopicSelectionAll, Cursor: cursor})
			if err != nil {
				yield(Topic{}, err)
				return
			}
			for i := range page.Topics {
				m := &page.Topics[i]
				if err := m.Error.Err(); err != nil {
					if !yield(Topic{Name: m.Name, ID: m.TopicID}, err) {
						return
					}
					continue
				}
				t := Topic{Name: m.Name, ID: m.TopicID, Partitions: make([]TopicPartition, len(m.Partitions))}
				for n, p := range m.Partitions {
					t.Partitions[n] = TopicPartition{Number: uint32(n), Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas}
				}
				if !yield(t, nil) {
					return
				}
			}
			if cursor = page.Cursor; len(cursor) == 0 {
				return
			}
		}
	}
}

// ListTopics is all of Topics, or the first error.
func (a *Admin) ListTopics(ctx context.Context) ([]Topic, error) {
	var all []Topic
	for t, err := range a.Topics(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Broker is a broker of the cluster and where clients reach it.
type Broker struct {
	NodeID uint32
	Host   string
	Port   uint16
}

// Brokers lists the brokers of the cluster.
func (a *Admin) Brokers(ctx context.Context) ([]Broker, error) {
	answer, err := ask[proto.MetadataResponse](ctx, a, &proto.MetadataRequest{Selection: proto.TopicSelectionNames})
	if err != nil {
		return nil, err
	}
	var brokers []Broker
	for _, b := range answer.Brokers {
		brokers = append(brokers, Broker{NodeID: b.NodeID, Host: b.Host, Port: b.Port})
	}
	return brokers, nil
}

// BeforeHighWatermark makes DeleteRecords drop everything that consumers can see.
const BeforeHighWatermark int64 = -1

// DeleteRecords drops the records of a partition below an offset, and returns where its log starts now.
func (a *Admin) DeleteRecords(ctx context.Context, topic string, partition uint32, before int64) (logStart int64, err error) {
	err = a.withLeader(ctx, topic, partition, func(live *conn.Conn, t *cluster.Topic) error {
		answer, err := conn.Call[proto.DeleteRecordsResponse](ctx, live, &proto.DeleteRecordsRequest{
			TopicID: t.ID, Partition: partition, LeaderEpoch: t.Partitions[partition].LeaderEpoch,
			BeforeOffset: before, TimeoutMs: timeoutMs(ctx)})
		if err == nil {
			logStart = answer.LogStartOffset
		}
		return err
	})
	return logStart, err
}

// withLeader calls f with a connection to a partition's leader. When the leader has changed it is called once more.
func (a *Admin) withLeader(ctx context.Context, topic string, partition uint32, f func(*conn.Conn, *cluster.Topic) error) error {
	c := a.client.cluster
	t, err := c.Refresh(ctx, topic)
	for again := true; err == nil; {
		if int(partition) >= len(t.Partitions) {
			return partitionError(topic, partition, len(t.Partitions))
		}
		leader := t.Partitions[partition].Leader
		if leader == 0 {
			return ErrPartitionUnavailable.Errorf("topic %q partition %d has no leader now", topic, partition)
		}
		var live *conn.Conn
		if live, err = c.Link(cluster.RoleProduce, leader).Get(ctx); err != nil {
			return err
		}
		if err = f(live, t); err == nil || !again || !staleMetadata(err) {
			return err
		}
		again = false
		t, err = c.Refresh(ctx, topic)
	}
	return err
}

// staleMetadata reports whether an error says that the metadata used is out of date.
func staleMetadata(err error) bool {
	code, ok := proto.CodeOf(err)
	if !ok {
		return false
	}
	switch code {
	case ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrUnknownTopic, ErrInvalidPartition:
		return true
	}
	return false
}

func partitionError(topic string, partition uint32, partitions int) error {
	return &proto.Error{Code: proto.CodeInvalidPartition, Limit: uint64(partitions),
		Text: proto.CodeInvalidPartition.Errorf("partition %d of topic %q: it has %d, 0 to %d are allowed", partition, topic, partitions, partitions-1).Text}
}

// learn asks for a topic and the brokers' addresses.
func (a *Admin) learn(ctx context.Context, topic string) error {
	_, err := a.client.cluster.Refresh(ctx, topic)
	return err
}

type answerMessage[R any] interface {
	*R
	proto.Message
}

// ask calls any broker. A question that changes nothing is asked once more when its connection ends: that a broker was
// started again since the last call is not the caller's concern.
func ask[R any, P answerMessage[R]](ctx context.Context, a *Admin, request proto.Message) (*R, error) {
	for again := readOnly(request.Command()); ; again = false {
		live, err := a.client.cluster.Any(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := conn.Call[R, P](ctx, live, request)
		if !again || !errors.Is(err, ErrDisconnected) {
			return answer, err
		}
	}
}

func readOnly(command proto.Command) bool {
	return command == proto.CommandMetadata || command == proto.CommandDescribeTopic || command == proto.CommandVerifyTopic
}

// askNode calls one broker.
func askNode[R any, P answerMessage[R]](ctx context.Context, a *Admin, node uint32, request proto.Message) (*R, error) {
	live, err := a.client.cluster.Link(cluster.RoleProduce, node).Get(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Call[R, P](ctx, live, request)
}

// timeoutMs is what the broker may take: all of the context but a little, in which its answer comes back.
func timeoutMs(ctx context.Context) uint32 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	left -= min(left/10, time.Second)
	return uint32(max(min(left.Milliseconds(), 1<<31-1), 1))
}

// topicConfigs puts settings in the order of their keys, so that a request is the same each time.
func topicConfigs(m map[string]string) []proto.TopicConfig {
	var list []proto.TopicConfig
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, proto.TopicConfig{Key: key, Value: m[key]})
	}
	return list
}
