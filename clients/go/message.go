package pulsemq

import "time"

// Message is what a producer sends. Its bytes are copied before Send or SendAsync returns, so the message and its
// slices may be used again at once.
type Message struct {
	// Topic names the topic. It has to exist, unless the broker creates topics by itself.
	Topic string

	// Partition fixes the partition: PartitionNumber(3). The zero value leaves the choice to the producer's partitioner.
	Partition PartitionChoice

	// Key and Value are any bytes. A nil slice is null, an empty one is empty: the two come back as they were sent.
	Key   []byte
	Value []byte

	// Headers travel with the message in their order; several may have one name. Names that begin with "mq-" are
	// reserved and refused.
	Headers []Header

	// Timestamp is the message's own time, kept in milliseconds. The zero value means the time of sending.
	Timestamp time.Time
}

// Header is a name and a value. A nil value is null, which is not the same as empty.
type Header struct {
	Key   string
	Value []byte
}

// HeaderPrefixReserved begins the header names that applications cannot set.
const HeaderPrefixReserved = "mq-"

// PartitionChoice is a partition number, or no choice when it is zero.
type PartitionChoice struct {
	set    bool
	number uint32
}

// PartitionNumber chooses a partition. Numbers begin with 0.
func PartitionNumber(n uint32) PartitionChoice { return PartitionChoice{set: true, number: n} }

// Number is the partition chosen; false when none was.
func (p PartitionChoice) Number() (uint32, bool) { return p.number, p.set }
