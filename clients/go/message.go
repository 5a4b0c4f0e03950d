package pulsemq

import (
	"strings"
	"time"
)

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

const (
	// messagePartBytesMax keeps every sum of lengths far from where a batch's 31-bit lengths end.
	messagePartBytesMax = 1 << 30

	// headerBytesExtraMax is more than a header takes beside its name and value.
	headerBytesExtraMax = 10
)

// PartitionChoice is a partition number, or no choice when it is zero.
type PartitionChoice struct {
	set    bool
	number uint32
}

// PartitionNumber chooses a partition. Numbers begin with 0.
func PartitionNumber(n uint32) PartitionChoice { return PartitionChoice{set: true, number: n} }

// Number is the partition chosen; false when none was.
func (p PartitionChoice) Number() (uint32, bool) { return p.number, p.set }

// validate refuses what no broker takes, and returns at least the bytes that the message will take in a batch.
func (m *Message) validate() (size int, err error) {
	if m.Topic == "" {
		return 0, ErrInvalidName.Errorf("the message names no topic")
	}
	if len(m.Key) > messagePartBytesMax || len(m.Value) > messagePartBytesMax {
		return 0, ErrBatchTooLarge.Errorf("a message for topic %q has a key of %d bytes and a value of %d: at most %d each are allowed",
			m.Topic, len(m.Key), len(m.Value), messagePartBytesMax)
	}
	if !m.Timestamp.IsZero() && m.Timestamp.UnixMilli() < 0 {
		return 0, ErrInvalidTimestamp.Errorf("a message for topic %q has the time %s: times begin with 1970", m.Topic, m.Timestamp.UTC().Format(time.RFC3339))
	}
	size = recordBytesExtraMax + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		h := &m.Headers[i]
		if strings.HasPrefix(h.Key, HeaderPrefixReserved) {
			return 0, ErrInvalidRequest.Errorf("header %q of a message for topic %q: names that begin with %q are reserved, choose another",
				h.Key, m.Topic, HeaderPrefixReserved)
		}
		size += headerBytesExtraMax + len(h.Key) + len(h.Value)
	}
	if size > messagePartBytesMax {
		return 0, ErrBatchTooLarge.Errorf("a message for topic %q takes %d bytes: at most %d are allowed", m.Topic, size, messagePartBytesMax)
	}
	return size, nil
}
