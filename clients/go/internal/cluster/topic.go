package cluster

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Topic is what was known of a topic at one moment. It is never changed: a newer one takes its place.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition
	Fetched    time.Time
	Epoch      uint64 // of the metadata it came from
}

// Partition is who leads a partition.
type Partition struct {
	Leader      uint32 // 0 when there is none
	LeaderEpoch int32  // -1 when unknown
	Replicas    []uint32
}

func newTopic(m *proto.MetadataTopic, epoch uint64, now time.Time) *Topic {
	t := &Topic{Name: m.Name, ID: m.TopicID, Fetched: now, Epoch: epoch, Partitions: make([]Partition, len(m.Partitions))}
	for i := range m.Partitions {
		p := &m.Partitions[i]
		t.Partitions[i] = Partition{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas}
	}
	return t
}

// withLeader is the topic with another leader of one partition.
func (t *Topic) withLeader(partition uint32, leader uint32, epoch int32) *Topic {
	c := *t
	c.Partitions = append([]Partition(nil), t.Partitions...)
	c.Partitions[partition].Leader = leader
	c.Partitions[partition].LeaderEpoch = epoch
	return &c
}
