package core

// View is an immutable picture of the cluster's metadata. The shard that owns the
// metadata partition publishes a new one after each change; reactors read the
// newest and answer METADATA and topic look-ups from it without a hop.
type View interface {
	// Epoch rises with every metadata change.
	Epoch() uint64
	ClusterID() string
	// Brokers are in ascending order of their ids. The slice is read-only.
	Brokers() []Broker
	// TopicByName and TopicByID return nil when there is no such topic.
	TopicByName(name string) *Topic
	TopicByID(id TopicID) *Topic
	// Topics is the number of topics.
	Topics() int
	// TopicsAfter calls each for topics in ascending order of names, beginning after
	// the given name, until each returns false.
	TopicsAfter(name string, each func(*Topic) bool)
}

// Broker is a node as clients reach it; the address of this node is the
// listener's own business (advertised address).
type Broker struct {
	ID NodeID
}

// Topic is one topic of a View. It is immutable.
type Topic struct {
	ID   TopicID
	Name string
	// Replicas is the replication factor.
	Replicas int
	// Partitions is indexed by partition number.
	Partitions []TopicPartition
	Config     TopicConfig
	// Overrides are the settings given for this topic, as given; the rest are defaults.
	Overrides map[string]string
}

// TopicPartition is what the metadata knows of a partition.
type TopicPartition struct {
	ID     PartitionID
	Leader NodeID
	// LeaderEpoch is -1 in a View; the leader itself tells it in its answers.
	LeaderEpoch LeaderEpoch
}
