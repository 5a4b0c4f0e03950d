package fakebroker

import (
	"crypto/rand"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Cluster is the state that all nodes share.
type Cluster struct {
	mu           sync.Mutex
	id           string
	epoch        uint64
	nodes        []*Node
	topics       map[string]*topic
	fault        func(proto.Message) Fault
	nextProducer int64
	requests     map[proto.Command]int

	groups  map[string]map[string]*member // by name and member id
	queues  map[queueKey]*queue
	leases  map[leaseKey]*lease
	settled map[proto.Settlement]int

	// LeaseTimeout is how long a lease lasts that says nothing else, DeliveriesMax how often a record is delivered.
	LeaseTimeout  time.Duration
	DeliveriesMax int

	// What HELLO says. Set before the first connection.
	Limits         proto.Limits
	KeepaliveMs    uint32
	WindowBytes    uint64
	WindowRequests uint32
	Commands       []proto.CommandRange

	// Durability is what produce answers name.
	Durability proto.Durability

	// FrameBatches is the number of batches in each frame of an answer to FETCH; 0 is one.
	FrameBatches int

	// PageTopics is the number of topics on a page of METADATA; 0 is all.
	PageTopics int
}

// topic is a topic with its logs.
type topic struct {
	name       string
	id         [16]byte
	configs    map[string]string
	partitions []*partition
}

// New makes a cluster of so many nodes on 127.0.0.1, numbered from 1.
func New(nodes int) *Cluster {
	c := &Cluster{
		id:       fmt.Sprintf("fake-%x", random()),
		topics:   map[string]*topic{},
		requests: map[proto.Command]int{},
		groups:   map[string]map[string]*member{},
		queues:   map[queueKey]*queue{},
		leases:   map[leaseKey]*lease{},
		settled:  map[proto.Settlement]int{},

		LeaseTimeout:  30 * time.Second,
		DeliveriesMax: 5,
		epoch:         1,
		Limits: proto.Limits{
			FrameBytesMax: 8 << 20, BatchBytesMax: 1 << 20, BatchRecordsMax: 1 << 20,
			FetchBytesMax: 8 << 20, FetchRecordsMax: 1 << 20, FetchWaitMsMax: 30000,
			ProducerBatchesInFlightMax: 5, SubscriptionsMax: 16, SubscriptionPartitionsMax: 1 << 16,
		},
		WindowBytes:    32 << 20,
		WindowRequests: 1024,
		Durability:     proto.DurabilitySync,
	}
	for _, info := range proto.Commands() {
		c.Commands = append(c.Commands, proto.CommandRange{Command: info.Command, VersionMin: info.VersionMin, VersionMax: info.VersionMax})
	}
	for i := range nodes {
		n := &Node{cluster: c, ID: uint32(i + 1), sessions: map[*session]struct{}{}}
		c.nodes = append(c.nodes, n)
		if err := n.Start("127.0.0.1:0"); err != nil {
			panic(err)
		}
	}
	return c
}

func random() (id [16]byte) {
	rand.Read(id[:])
	return id
}

// Node is the node with a number from 1.
func (c *Cluster) Node(id uint32) *Node { return c.nodes[id-1] }

// Addresses is the broker list.
func (c *Cluster) Addresses() string {
	s := "mq://"
	for i, n := range c.nodes {
		if i > 0 {
			s += ","
		}
		s += n.Address()
	}
	return s
}

// Close stops every node.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.Stop()
	}
}

// Requests is how many requests of a command have come in.
func (c *Cluster) Requests(command proto.Command) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[command]
}

// Create makes a topic whose partitions are led by the nodes in turn.
func (c *Cluster) Create(name string, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.create(name, partitions, nil)
}

func (c *Cluster) create(name string, partitions int, configs map[string]string) *topic {
	t := &topic{name: name, id: random(), configs: map[string]string{"retention.ms": "604800000"}}
	for k, v := range configs {
		t.configs[k] = v
	}
	c.grow(t, partitions)
	c.topics[name] = t
	return t
}

func (c *Cluster) grow(t *topic, partitions int) {
	for i := len(t.partitions); i < partitions; i++ {
		t.partitions = append(t.partitions, newPartition(uint32(i%len(c.nodes)+1)))
	}
	c.epoch++
}

// Grow adds partitions to a topic.
func (c *Cluster) Grow(name string, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grow(c.topics[name], partitions)
}

// Delete removes a topic.
func (c *Cluster) Delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delete(c.topics[name])
}

func (c *Cluster) delete(t *topic) {
	delete(c.topics, t.name)
	c.epoch++
	for _, p := range t.partitions {
		p.wake()
	}
}

// MoveLeader makes another node the leader of a partition, in a new epoch.
func (c *Cluster) MoveLeader(name string, partition int, node uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics[name].partitions[partition]
	p.leader = node
	p.leaderEpoch++
	c.epoch++
	p.wake()
	c.moveQueues(proto.TopicPartition{TopicID: c.topics[name].id, Partition: uint32(partition)})
}

// Partition gives f the log of a partition to look at or to change.
func (c *Cluster) Partition(name string, partition int, f func(*Log)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics[name].partitions[partition]
	f(&p.Log)
	p.wake()
}

func (c *Cluster) byID(id [16]byte) *topic {
	for _, t := range c.topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (c *Cluster) names() []string {
	names := make([]string, 0, len(c.topics))
	for name := range c.topics {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// find is the partition that a request is about, or why this node cannot serve it. Called with the lock held.
func (c *Cluster) find(node uint32, id [16]byte, number uint32, epoch int32) (*partition, *proto.Error) {
	t := c.byID(id)
	if t == nil {
		return nil, proto.CodeUnknownTopic.Errorf("no topic has the id %x", id)
	}
	if int(number) >= len(t.partitions) {
		return nil, &proto.Error{Code: proto.CodeInvalidPartition, Limit: uint64(len(t.partitions)),
			Text: fmt.Sprintf("partition %d of %d", number, len(t.partitions))}
	}
	p := t.partitions[number]
	if p.leader == 0 {
		return nil, proto.CodePartitionUnavailable.Errorf("partition %d has no leader now", number)
	}
	hint := &proto.LeaderHint{NodeID: p.leader, LeaderEpoch: p.leaderEpoch, Address: c.nodes[p.leader-1].Address()}
	switch {
	case p.leader != node:
		return nil, &proto.Error{Code: proto.CodeNotLeader, Text: "not the leader", Leader: hint}
	case epoch >= 0 && epoch < p.leaderEpoch:
		return nil, &proto.Error{Code: proto.CodeFencedLeaderEpoch, Text: "an old epoch", Leader: hint}
	case epoch > p.leaderEpoch:
		return nil, &proto.Error{Code: proto.CodeUnknownLeaderEpoch, Text: "a future epoch", Leader: hint}
	}
	return p, nil
}
