package pulsemq

import (
	"math/rand/v2"

	"github.com/pulsemq/pulsemq/proto"
)

// Partitioner chooses the partition of a message that names none.
//
// It is called by every goroutine that sends, at the same time. partitions is at least 1. A number that is not below
// partitions fails the message with ErrInvalidPartition. Returning StickyPartition leaves the choice to the producer,
// which stays with one partition until its batch is full or sent and then takes another at random: small messages
// without a key share batches instead of spreading over many small ones.
type Partitioner func(m *Message, partitions uint32) uint32

// StickyPartition is what a Partitioner returns to leave the choice to the producer.
const StickyPartition uint32 = 1<<32 - 1

// PartitionByKey is the default: the murmur2 hash of the key decides, as with Kafka's clients, so that a key has the
// same partition whichever client sends it. A null key is StickyPartition. An empty key is a key.
func PartitionByKey(m *Message, partitions uint32) uint32 {
	if m.Key == nil {
		return StickyPartition
	}
	return proto.PartitionForKey(m.Key, partitions)
}

// PartitionAtRandom spreads messages evenly whatever their keys.
func PartitionAtRandom(_ *Message, partitions uint32) uint32 { return rand.Uint32N(partitions) }
