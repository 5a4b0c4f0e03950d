package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/proto"
)

// leadersWaitMax bounds the wait for every partition of a new topic to have a leader.
const leadersWaitMax = 10 * time.Second

// TopicSpec names the topic of a run, and what it is created with when it is missing.
type TopicSpec struct {
	Name       string
	Partitions uint32 // 0 takes what there is, or the broker's default
	Replicas   uint16 // the same
	Durability string // empty takes what there is, or the broker's default
}

// Partition is a partition and who leads it.
type Partition struct {
	Number      uint32
	Leader      string // address
	LeaderEpoch int32
}

// Topic is the topic of a run.
type Topic struct {
	Name       string
	ID         [16]byte
	Created    bool        // by this run
	Partitions []Partition // by their number
	Replicas   uint16
	Configs    []proto.TopicConfigEntry
	Hello      proto.HelloResponse // of the broker that was asked
}

// Config is the value of a setting; empty when the broker has none of that name.
func (t *Topic) Config(key string) string {
	for i := range t.Configs {
		if t.Configs[i].Key == key {
			return t.Configs[i].Value
		}
	}
	return ""
}

// Leaders are the addresses of the brokers that lead partitions, each once, in the order of the partitions.
func (t *Topic) Leaders() []string {
	var leaders []string
	seen := make(map[string]bool)
	for _, p := range t.Partitions {
		if !seen[p.Leader] {
			seen[p.Leader] = true
			leaders = append(leaders, p.Leader)
		}
	}
	return leaders
}

// OpenTopic finds the topic, or creates it. brokers is a list HOST:PORT,... and may begin with mq://.
func OpenTopic(ctx context.Context, brokers, version string, spec TopicSpec) (*Topic, error) {
	l, err := dialAny(ctx, brokers, version)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	t := &Topic{Name: spec.Name, Hello: *l.Hello()}
	err = t.load(ctx, l)
	if errors.Is(err, proto.ErrUnknownTopic) {
		if err = t.create(ctx, l, spec); err == nil {
			err = t.load(ctx, l)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", spec.Name, err)
	}
	var described proto.DescribeTopicResponse
	if err := l.Call(ctx, &proto.DescribeTopicRequest{Name: spec.Name}, &described); err != nil {
		return nil, fmt.Errorf("topic %q: %w", spec.Name, err)
	}
	t.Configs, t.Replicas = described.Configs, described.Replicas
	if n := uint32(len(t.Partitions)); spec.Partitions != 0 && spec.Partitions != n {
		return nil, fmt.Errorf("topic %q has %d partitions, asked for were %d: leave that out or name another topic", spec.Name, n, spec.Partitions)
	}
	if spec.Replicas != 0 && spec.Replicas != t.Replicas {
		return nil, fmt.Errorf("topic %q has %d replicas, asked for were %d: leave that out or name another topic", spec.Name, t.Replicas, spec.Replicas)
	}
	if has := t.Config(proto.TopicConfigDurability); spec.Durability != "" && spec.Durability != has {
		return nil, fmt.Errorf("topic %q has durability %s, asked for was %s: leave that out or name another topic", spec.Name, has, spec.Durability)
	}
	return t, nil
}

// dialAny connects to one of the brokers.
func dialAny(ctx context.Context, brokers, version string) (*link.Link, error) {
	addresses := strings.Split(strings.TrimPrefix(brokers, "mq://"), ",")
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	var failed []error
	for _, address := range addresses {
		l, err := link.Dial(ctx, strings.TrimSpace(address), version)
		if err == nil {
			return l, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("no broker could be reached: %w", errors.Join(failed...))
}

func (t *Topic) create(ctx context.Context, l *link.Link, spec TopicSpec) error {
	request := proto.CreateTopicRequest{Name: spec.Name, Partitions: spec.Partitions, Replicas: spec.Replicas}
	if spec.Durability != "" {
		request.Configs = []proto.TopicConfig{{Key: proto.TopicConfigDurability, Value: spec.Durability}}
	}
	var created proto.CreateTopicResponse
	err := l.Call(ctx, &request, &created)
	if errors.Is(err, proto.ErrTopicExists) { // somebody else was quicker
		return nil
	}
	t.Created = err == nil
	return err
}

// Delete deletes the topic, and all that a run has written into it.
func (t *Topic) Delete(ctx context.Context, brokers, version string) error {
	l, err := dialAny(ctx, brokers, version)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Call(ctx, &proto.DeleteTopicRequest{TopicID: t.ID}, new(proto.DeleteTopicResponse)); err != nil {
		return fmt.Errorf("delete topic %q: %w", t.Name, err)
	}
	return nil
}

// load asks for the partitions until each has a leader.
func (t *Topic) load(ctx context.Context, l *link.Link) error {
	ctx, cancel := context.WithTimeout(ctx, leadersWaitMax)
	defer cancel()
	for {
		leaderless, err := t.metadata(ctx, l)
		if err != nil || leaderless == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d partitions have no leader: %w", leaderless, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (t *Topic) metadata(ctx context.Context, l *link.Link) (leaderless int, err error) {
	var answer proto.MetadataResponse
	request := proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{t.Name}}
	if err := l.Call(ctx, &request, &answer); err != nil {
		return 0, err
	}
	if len(answer.Topics) != 1 {
		return 0, fmt.Errorf("METADATA for one topic is answered with %d", len(answer.Topics))
	}
	if err := answer.Topics[0].Error.Err(); err != nil {
		return 0, err
	}
	addresses := make(map[uint32]string)
	for _, b := range answer.Brokers {
		addresses[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	t.ID, t.Partitions = answer.Topics[0].TopicID, nil
	for i, p := range answer.Topics[0].Partitions {
		leader := addresses[p.Leader]
		if leader == "" {
			leaderless++
		}
		t.Partitions = append(t.Partitions, Partition{Number: uint32(i), Leader: leader, LeaderEpoch: p.LeaderEpoch})
	}
	return leaderless, nil
}

// Offsets asks every leader for one kind of offset of its partitions, and returns them by the partition's number.
func (t *Topic) Offsets(ctx context.Context, version string, kind proto.OffsetKind) ([]int64, error) {
	offsets := make([]int64, len(t.Partitions))
	for _, leader := range t.Leaders() {
		if err := t.offsetsOf(ctx, leader, version, kind, offsets); err != nil {
			return nil, fmt.Errorf("topic %q at %s: %w", t.Name, leader, err)
		}
	}
	return offsets, nil
}

func (t *Topic) offsetsOf(ctx context.Context, leader, version string, kind proto.OffsetKind, offsets []int64) error {
	l, err := link.Dial(ctx, leader, version)
	if err != nil {
		return err
	}
	defer l.Close()
	var request proto.ListOffsetsRequest
	for _, p := range t.Partitions {
		if p.Leader == leader {
			request.Items = append(request.Items, proto.ListOffsetsItem{TopicID: t.ID, Partition: p.Number, LeaderEpoch: -1, Kind: kind})
		}
	}
	var answer proto.ListOffsetsResponse
	if err := l.Call(ctx, &request, &answer); err != nil {
		return err
	}
	if len(answer.Items) != len(request.Items) {
		return fmt.Errorf("LIST_OFFSETS for %d partitions is answered with %d", len(request.Items), len(answer.Items))
	}
	for i := range answer.Items {
		if err := answer.Items[i].Error.Err(); err != nil {
			return fmt.Errorf("partition %d: %w", request.Items[i].Partition, err)
		}
		offsets[request.Items[i].Partition] = answer.Items[i].Offset
	}
	return nil
}

// Share is what one connection works on.
type Share struct {
	Leader     string
	Partitions []Partition
}

// SharesForSending gives each connection a leader and all of its partitions: a sender spreads what it sends.
func (t *Topic) SharesForSending(connections int) ([]Share, error) {
	leaders := t.Leaders()
	if connections < len(leaders) {
		return nil, fmt.Errorf("%d connections: %d brokers lead partitions of topic %q, and each needs one", connections, len(leaders), t.Name)
	}
	shares := make([]Share, connections)
	for i := range shares {
		shares[i].Leader = leaders[i%len(leaders)]
		for _, p := range t.Partitions {
			if p.Leader == shares[i].Leader {
				shares[i].Partitions = append(shares[i].Partitions, p)
			}
		}
	}
	return shares, nil
}

// SharesForReading gives each partition to one connection; there are no more connections than partitions.
func (t *Topic) SharesForReading(connections int) ([]Share, error) {
	sending, err := t.SharesForSending(connections)
	if err != nil {
		return nil, err
	}
	of := make(map[string][]int) // leader: its connections
	for i, s := range sending {
		of[s.Leader] = append(of[s.Leader], i)
		sending[i].Partitions = nil
	}
	turn := make(map[string]int)
	for _, p := range t.Partitions {
		mine := of[p.Leader]
		i := mine[turn[p.Leader]%len(mine)]
		turn[p.Leader]++
		sending[i].Partitions = append(sending[i].Partitions, p)
	}
	var shares []Share
	for _, s := range sending {
		if len(s.Partitions) > 0 {
			shares = append(shares, s)
		}
	}
	return shares, nil
}
