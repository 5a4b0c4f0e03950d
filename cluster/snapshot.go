package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// snapshotVersion is the version of the layout drawn in doc.go.
const snapshotVersion = 1

// AppendSnapshot appends the whole state to b. The same state always gives the
// same bytes.
func (m *Metadata) AppendSnapshot(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint64(b, m.epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(m.partitionNext))
	b = binary.BigEndian.AppendUint64(b, uint64(m.producerNext))
	b = binary.BigEndian.AppendUint16(b, m.featureLevel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.nodes)))
	for _, n := range m.nodes {
		b = append(binary.BigEndian.AppendUint32(b, uint32(n.ID)), n.Incarnation[:]...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(m.byName.size))
	m.byName.all(func(_ string, topic *core.Topic) bool {
		b = appendTopic(b, topic)
		return true
	})
	return b
}

func appendTopic(b []byte, topic *core.Topic) []byte {
	b = appendText(append(b, topic.ID[:]...), topic.Name)
	b = binary.BigEndian.AppendUint16(b, uint16(topic.Replicas))
	found := runs(topic.Partitions)
	b = binary.BigEndian.AppendUint32(b, uint32(len(found)))
	for _, run := range found {
		b = binary.BigEndian.AppendUint64(b, uint64(run.first))
		b = binary.BigEndian.AppendUint32(b, run.count)
		b = binary.BigEndian.AppendUint32(b, uint32(run.leader))
	}
	settings := make([]Setting, 0, len(topic.Overrides))
	for key, value := range topic.Overrides {
		settings = append(settings, Setting{key, value})
	}
	sortSettings(settings)
	return appendSettings(b, settings)
}

// Restore replaces the state by that of a snapshot; after an error it is unchanged.
func (m *Metadata) Restore(snapshot []byte) error {
	r := reader{rest: snapshot}
	if version := r.u16(); r.short || version != snapshotVersion {
		return fmt.Errorf("metadata snapshot: version %d, this build reads version %d", version, snapshotVersion)
	}
	fresh := NewMetadata(m.options)
	fresh.epoch = r.u64()
	fresh.partitionNext = core.PartitionID(r.u64())
	fresh.producerNext = core.ProducerID(r.u64())
	fresh.featureLevel = r.u16()
	for range r.count(4 + 16) {
		fresh.nodes = append(fresh.nodes, Node{core.NodeID(r.u32()), r.id()})
	}
	for range r.count(16 + 4 + 2 + 4 + 4) {
		if err := fresh.restoreTopic(&r); err != nil {
			return err
		}
	}
	if r.short || len(r.rest) != 0 {
		return fmt.Errorf("metadata snapshot of %d bytes: cut short or with bytes behind its end", len(snapshot))
	}
	*m = *fresh
	return nil
}

func (m *Metadata) restoreTopic(r *reader) error {
	topic := &core.Topic{ID: r.id(), Name: r.text(), Replicas: int(r.u16()), Overrides: map[string]string{}}
	for range r.count(8 + 4 + 4) {
		first, count, leader := core.PartitionID(r.u64()), r.u32(), core.NodeID(r.u32())
		if first < core.PartitionIDFirst || first > m.partitionNext || uint64(count) > uint64(m.partitionNext-first) ||
			len(topic.Partitions)+int(count) > core.PartitionsPerTopicMax {
			return fmt.Errorf("metadata snapshot: topic %s has partition ids that were never given out", core.Quote(topic.Name))
		}
		m.rangePut(first, partitionRange{topic.ID, core.PartitionNumber(len(topic.Partitions)), count})
		for i := range count {
			topic.Partitions = append(topic.Partitions, core.TopicPartition{ID: first + core.PartitionID(i), Leader: leader, LeaderEpoch: -1})
		}
	}
	topic.Partitions = slices.Clip(topic.Partitions)
	for _, s := range r.settings() {
		topic.Overrides[s.Key] = s.Value
	}
	topic.Config = m.config(topic)
	m.partitions += len(topic.Partitions)
	m.topicPut(topic, "")
	return nil
}
