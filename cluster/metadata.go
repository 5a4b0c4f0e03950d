package cluster

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Options are what a broker brings to the metadata. They are this node's own and
// never part of the replicated state: a changed default reaches every topic that
// has no setting of its own.
type Options struct {
	ClusterID string
	// Defaults hold for topics that do not say otherwise.
	Defaults core.TopicConfig
}

// Metadata is the state that the commands make. It is not safe for concurrent
// use; Views of it are.
//
// Invariants: every topic is in byName and byID; ranges are those of the topics'
// partitions, disjoint, and below partitionNext; partitions is their number;
// deadLetters counts how many topics name each dead-letter topic.
type Metadata struct {
	options Options

	epoch         uint64 // rises by one with every command, refused ones included
	byName        tree[string, *core.Topic]
	byID          tree[core.TopicID, *core.Topic]
	ranges        tree[core.PartitionID, partitionRange] // by first id
	deadLetters   tree[string, int]                      // by name
	partitions    int
	partitionNext core.PartitionID
	producerNext  core.ProducerID
	nodes         []Node // ascending ids; copied on change
	featureLevel  uint16

	view   *view
	faults core.Faults
}

// Node is a registered broker and the data folder that it owns.
type Node struct {
	ID          core.NodeID
	Incarnation [16]byte
}

// partitionRange is a run of consecutive partition ids of one topic.
type partitionRange struct {
	topic core.TopicID
	first core.PartitionNumber
	count uint32
}

// Change says what a command did.
type Change struct {
	// Epoch is the metadata epoch after the command.
	Epoch uint64
	// Topic is the topic after the command; of a deletion it is the topic as it was.
	Topic *core.Topic
	// PartitionsBefore is how many of the topic's partitions existed before.
	PartitionsBefore int
	// Deleted says that the topic is gone.
	Deleted bool
	// Configured says that the topic's effective configuration may have changed.
	Configured bool
	// ProducerFirst and ProducerCount are the block that was reserved.
	ProducerFirst core.ProducerID
	ProducerCount uint32
}

// NewMetadata returns the state before the first command.
func NewMetadata(o Options) *Metadata {
	return &Metadata{
		options:       o,
		byName:        tree[string, *core.Topic]{compare: strings.Compare},
		byID:          tree[core.TopicID, *core.Topic]{compare: compareTopicIDs},
		ranges:        tree[core.PartitionID, partitionRange]{compare: cmp.Compare[core.PartitionID]},
		deadLetters:   tree[string, int]{compare: strings.Compare},
		partitionNext: core.PartitionIDFirst,
	}
}

func compareTopicIDs(a, b core.TopicID) int { return bytes.Compare(a[:], b[:]) }

// Epoch rises with every command.
func (m *Metadata) Epoch() uint64 { return m.epoch }

// FeatureLevel is the finalized feature level.
func (m *Metadata) FeatureLevel() uint16 { return m.featureLevel }

// Partitions is the number of partitions of all topics.
func (m *Metadata) Partitions() int { return m.partitions }

// Nodes are the registered nodes in ascending order of ids. The slice is read-only.
func (m *Metadata) Nodes() []Node { return m.nodes }

// Faults are settings of stored topics that this build or this broker's defaults
// do not allow any more. The rest of such a topic's settings hold.
func (m *Metadata) Faults() core.Faults { return m.faults }

// PartitionState says what the metadata knows of a partition id.
type PartitionState uint8

const (
	// PartitionUnknown was never given out: what is found under it is kept aside.
	PartitionUnknown PartitionState = iota
	// PartitionLive belongs to a topic.
	PartitionLive
	// PartitionDeleted belonged to a topic whose deletion is recorded.
	PartitionDeleted
)

// Partition finds the topic of a partition id; it is nil unless the state is PartitionLive.
func (m *Metadata) Partition(id core.PartitionID) (*core.Topic, core.PartitionNumber, PartitionState) {
	if id == core.MetadataPartition {
		return nil, 0, PartitionLive
	}
	if id < core.PartitionIDFirst || id >= m.partitionNext {
		return nil, 0, PartitionUnknown
	}
	first, run, ok := m.ranges.floor(id)
	if !ok || uint64(id-first) >= uint64(run.count) {
		return nil, 0, PartitionDeleted
	}
	topic, ok := m.byID.get(run.topic)
	core.Assert(ok, "a range of partition ids belongs to a topic")
	return topic, run.first + core.PartitionNumber(id-first), PartitionLive
}

// Apply changes the state by one command. A *proto.Error says why a command was
// refused; it then changed nothing but the epoch.
func (m *Metadata) Apply(c Command) (Change, *proto.Error) {
	m.epoch++
	m.view = nil
	change := Change{Epoch: m.epoch}
	var err *proto.Error
	switch c := c.(type) {
	case *TopicCreate:
		err = m.topicCreate(c, &change)
	case *TopicDelete:
		err = m.topicDelete(c, &change)
	case *TopicAlter:
		err = m.topicAlter(c, &change)
	case *ProducerReserve:
		change.ProducerFirst, change.ProducerCount = m.producerNext, c.Count
		m.producerNext += core.ProducerID(c.Count)
	case *NodeRegister:
		err = m.nodeRegister(c)
	case *FeatureFinalize:
		m.featureLevel = max(m.featureLevel, c.Level)
	default:
		core.Assert(false, "every kind of command has its rule")
	}
	return change, err
}

func (m *Metadata) topicCreate(c *TopicCreate, change *Change) *proto.Error {
	if err := m.topicFree(c.Name); err != nil {
		return err
	}
	if _, taken := m.byID.get(c.Topic); taken {
		return proto.CodeTopicExists.Errorf("a topic with the id %v exists", c.Topic)
	}
	// Others may have been created since this was planned.
	if err := m.partitionsAllowed(c.Name, c.Partitions, 0); err != nil {
		return err
	}
	topic := &core.Topic{ID: c.Topic, Name: c.Name, Replicas: int(c.Replicas), Overrides: map[string]string{}}
	for _, s := range c.Overrides {
		topic.Overrides[s.Key] = s.Value
	}
	topic.Config = m.config(topic)
	if err := m.deadLetterAllowed(topic.Name, core.TopicConfig{}, topic.Config); err != nil {
		return err
	}
	m.partitionsAdd(topic, int(c.Partitions), c.Leader)
	m.topicPut(topic, "")
	change.Topic = topic
	return nil
}

func (m *Metadata) topicDelete(c *TopicDelete, change *Change) *proto.Error {
	topic, ok := m.byID.get(c.Topic)
	if !ok {
		return topicUnknown("", c.Topic)
	}
	if err := m.deadLetterFree(topic); err != nil {
		return err
	}
	m.deadLetterMoved(topic.Config.Queue.DeadLetterTopic, "")
	m.byName, m.byID = m.byName.without(topic.Name), m.byID.without(topic.ID)
	for _, run := range runs(topic.Partitions) {
		m.ranges = m.ranges.without(run.first)
	}
	m.partitions -= len(topic.Partitions)
	change.Topic, change.PartitionsBefore, change.Deleted = topic, len(topic.Partitions), true
	return nil
}

func (m *Metadata) topicAlter(c *TopicAlter, change *Change) *proto.Error {
	before, ok := m.byID.get(c.Topic)
	if !ok {
		return topicUnknown("", c.Topic)
	}
	if c.Partitions != 0 && int(c.Partitions) < len(before.Partitions) {
		return partitionsFewer(before, c.Partitions)
	}
	if c.Partitions != 0 {
		if err := m.partitionsAllowed(before.Name, c.Partitions, len(before.Partitions)); err != nil {
			return err
		}
	}
	topic := *before
	topic.Overrides = make(map[string]string, len(before.Overrides)+len(c.Set))
	for key, value := range before.Overrides {
		topic.Overrides[key] = value
	}
	for _, key := range c.Unset {
		delete(topic.Overrides, key)
	}
	for _, s := range c.Set {
		topic.Overrides[s.Key] = s.Value
	}
	topic.Config = m.config(&topic)
	if err := m.deadLetterAllowed(topic.Name, before.Config, topic.Config); err != nil {
		return err
	}
	if count := int(c.Partitions); count > len(before.Partitions) {
		m.partitionsAdd(&topic, count-len(before.Partitions), c.Leader)
	}
	m.topicPut(&topic, before.Config.Queue.DeadLetterTopic)
	change.Topic, change.PartitionsBefore = &topic, len(before.Partitions)
	change.Configured = topic.Config != before.Config
	return nil
}

func (m *Metadata) nodeRegister(c *NodeRegister) *proto.Error {
	at, known := slices.BinarySearchFunc(m.nodes, c.Node, func(n Node, id core.NodeID) int { return cmp.Compare(n.ID, id) })
	if known && m.nodes[at].Incarnation == c.Incarnation {
		return nil
	}
	if err := m.nodeAllowed(c.Node, c.Incarnation); err != nil {
		return err
	}
	m.nodes = slices.Insert(slices.Clone(m.nodes), at, Node{c.Node, c.Incarnation})
	return nil
}

// topicPut makes topic the current one of its name and id; deadLetter is the
// dead-letter topic that it had before.
func (m *Metadata) topicPut(topic *core.Topic, deadLetter string) {
	m.deadLetterMoved(deadLetter, topic.Config.Queue.DeadLetterTopic)
	m.byName, m.byID = m.byName.with(topic.Name, topic), m.byID.with(topic.ID, topic)
}

// partitionsAdd gives count new partitions to a topic that is not shared yet.
func (m *Metadata) partitionsAdd(topic *core.Topic, count int, leader core.NodeID) {
	number := len(topic.Partitions)
	partitions := append(make([]core.TopicPartition, 0, number+count), topic.Partitions...)
	for i := range count {
		partitions = append(partitions, core.TopicPartition{ID: m.partitionNext + core.PartitionID(i), Leader: leader, LeaderEpoch: -1})
	}
	topic.Partitions = partitions
	m.rangePut(m.partitionNext, partitionRange{topic.ID, core.PartitionNumber(number), uint32(count)})
	m.partitionNext += core.PartitionID(count)
	m.partitions += count
}

// rangePut adds a run of ids, joined to the run before it when it goes on there,
// so that what runs finds always begins where a range begins or lies inside one.
func (m *Metadata) rangePut(first core.PartitionID, run partitionRange) {
	if run.count == 0 {
		return
	}
	beforeFirst, before, ok := m.ranges.floor(first)
	if ok && before.topic == run.topic && beforeFirst+core.PartitionID(before.count) == first {
		first, run.first, run.count = beforeFirst, before.first, before.count+run.count
	}
	m.ranges = m.ranges.with(first, run)
}

// idRun is a run of consecutive ids with one leader in a topic's list of partitions.
type idRun struct {
	first  core.PartitionID
	count  uint32
	leader core.NodeID
}

// runs splits a list of partitions into its maximal runs.
func runs(partitions []core.TopicPartition) []idRun {
	var found []idRun
	for _, p := range partitions {
		if n := len(found); n > 0 && found[n-1].first+core.PartitionID(found[n-1].count) == p.ID && found[n-1].leader == p.Leader {
			found[n-1].count++
			continue
		}
		found = append(found, idRun{p.ID, 1, p.Leader})
	}
	return found
}

// config is the effective configuration of a topic. Stored settings were valid
// when they were given; another build or other defaults may refuse them now.
// Then those that are still allowed hold, for dropping all could silently lower
// a topic's durability.
func (m *Metadata) config(topic *core.Topic) core.TopicConfig {
	config, faults := core.ParseTopicConfig(topic.Overrides, m.options.Defaults)
	if len(faults) == 0 {
		return config
	}
	config = m.options.Defaults
	keys := make([]string, 0, len(topic.Overrides))
	for key := range topic.Overrides {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		next, faults := core.ParseTopicConfig(map[string]string{key: topic.Overrides[key]}, config)
		if len(faults) > 0 {
			faults[0].Source = "topic " + topic.Name
			m.faults = append(m.faults, faults[0])
			continue
		}
		config = next
	}
	return config
}

// Clone returns a second state machine in the same state. It copies next to
// nothing: the trees are shared and never changed.
func (m *Metadata) Clone() *Metadata {
	c := *m
	c.faults = slices.Clip(c.faults)
	return &c
}
