package pulsemq

import (
	"context"
	"iter"
)

// Admin creates, changes and looks at topics. It has no state of its own.
type Admin struct{ client *Client }

// TopicCreated is what CreateTopic made.
type TopicCreated struct {
	Name       string
	ID         TopicID // zeros with ValidateOnly
	Partitions uint32
	Replicas   uint16
}

// CreateTopic creates a topic. When it returns, the topic is durable and can be used.
func (a *Admin) CreateTopic(ctx context.Context, spec TopicSpec) (TopicCreated, error) {
	return TopicCreated{}, ErrClosed
}

// DeleteTopic deletes a topic with its records. When it returns, the deletion is durable and the name free.
func (a *Admin) DeleteTopic(ctx context.Context, name string) (TopicID, error) {
	return TopicID{}, ErrClosed
}

// DeleteTopicID deletes the topic that has this id, never a namesake that was created meanwhile.
func (a *Admin) DeleteTopicID(ctx context.Context, id TopicID) error { return ErrClosed }

// AlterTopic changes a topic's settings or adds partitions, and returns the number of partitions it has now.
func (a *Admin) AlterTopic(ctx context.Context, name string, change TopicChange) (partitions uint32, err error) {
	return 0, ErrClosed
}

// DescribeTopic asks every leader of the topic for its partitions.
func (a *Admin) DescribeTopic(ctx context.Context, name string) (TopicDescription, error) {
	return TopicDescription{}, ErrClosed
}

// Topics walks over all topics in the order of their names, page by page.
func (a *Admin) Topics(ctx context.Context) iter.Seq2[Topic, error] {
	return func(yield func(Topic, error) bool) {}
}

// ListTopics is all of Topics.
func (a *Admin) ListTopics(ctx context.Context) ([]Topic, error) { return nil, ErrClosed }

// Broker is a broker of the cluster and where clients reach it.
type Broker struct {
	NodeID uint32
	Host   string
	Port   uint16
}

// Brokers lists the brokers of the cluster.
func (a *Admin) Brokers(ctx context.Context) ([]Broker, error) { return nil, ErrClosed }

// ListOffsets finds an offset in each of the partitions, or in all of them when none is named. A partition that cannot
// be asked has its Err set; the error returned is about the topic or the request as a whole.
func (a *Admin) ListOffsets(ctx context.Context, topic string, spec OffsetSpec, partitions ...uint32) ([]PartitionOffset, error) {
	return nil, ErrClosed
}

// BeforeHighWatermark makes DeleteRecords drop everything that consumers can see.
const BeforeHighWatermark int64 = -1

// DeleteRecords drops the records of a partition below an offset, and returns where its log starts now.
func (a *Admin) DeleteRecords(ctx context.Context, topic string, partition uint32, before int64) (logStart int64, err error) {
	return 0, ErrClosed
}
