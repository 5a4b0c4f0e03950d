package pulsemq

import (
	"context"
	"iter"
)

// Consumer reads the partitions that it is given.
type Consumer struct {
	client *Client
	config consumerConfig
}

// NewConsumer makes a consumer that reads nothing yet: see AssignTopic and AssignPartition.
func (c *Client) NewConsumer(options ...ConsumerOption) (*Consumer, error) {
	k := &Consumer{client: c, config: consumerConfigDefault()}
	for _, option := range options {
		option(&k.config)
	}
	return k, k.config.validate()
}

// AssignTopic reads every partition of a topic from a place on. Partitions that the topic gains later are read from
// their beginning.
func (k *Consumer) AssignTopic(ctx context.Context, topic string, from Start) error { return nil }

// AssignPartition reads one partition from a place on.
func (k *Consumer) AssignPartition(ctx context.Context, topic string, partition uint32, from Start) error {
	return nil
}

// Unassign stops reading a partition. Nothing of it is returned any more.
func (k *Consumer) Unassign(topic string, partition uint32) {}

// Poll waits for records and returns those of one partition, in order and at least one; or an error.
func (k *Consumer) Poll(ctx context.Context) ([]Record, error) { return nil, ErrClosed }

// Records calls Poll for as long as the loop goes on. It ends by itself at ErrEndOfLog and at ErrClosed; when ctx ends
// its error comes last. A PartitionError is handed to the loop, which goes on if it wants to.
func (k *Consumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {}
}

// Seek goes on at another place. Nothing that was read from the old place is returned after it.
func (k *Consumer) Seek(ctx context.Context, topic string, partition uint32, to Start) error {
	return nil
}

// Pause keeps a partition from being returned until Resume. What has been read ahead is kept.
func (k *Consumer) Pause(topic string, partition uint32) error { return nil }

// Resume undoes Pause.
func (k *Consumer) Resume(topic string, partition uint32) error { return nil }

// PartitionPosition is where a consumer stands in a partition.
type PartitionPosition struct {
	Topic         string
	Partition     uint32
	Position      int64 // offset of the next record that Poll returns; -1 until the start has been found
	HighWatermark int64 // as of the last answer; -1 until there was one
	Paused        bool
	Stopped       bool // after a PartitionError that said so
}

// Lag is the number of offsets between the position and the high watermark; -1 when it is not known yet.
func (p PartitionPosition) Lag() int64 {
	if p.Position < 0 || p.HighWatermark < 0 {
		return -1
	}
	return max(p.HighWatermark-p.Position, 0)
}

// Positions are those of all assigned partitions, by topic and number.
func (k *Consumer) Positions() []PartitionPosition { return nil }

// Close stops reading. A Poll that waits returns ErrClosed.
func (k *Consumer) Close() error { return nil }
