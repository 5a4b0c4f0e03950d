package shard

import (
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// Options are what an operator chose for a shard.
type Options struct {
	Shard    core.ShardID
	Shards   int // of this node
	Reactors int

	// MemoryBytes bounds the payload that the shard holds for others: batches not yet
	// acked, and answers that have not left for their sockets. A partition or a
	// connection holds at most an eighth.
	MemoryBytes int64

	FetchBytesMax   int
	FetchRecordsMax int
	FetchWaitMax    time.Duration

	// BatchRecordsMax bounds the records of one batch.
	BatchRecordsMax int
	// ProducerExpiry is how long a silent producer is remembered.
	ProducerExpiry time.Duration
	// OffsetsRetention is how long what a group has committed is kept after it has had its
	// last member and commit.
	OffsetsRetention time.Duration
	// RequestTimeout stands for a timeout of 0.
	RequestTimeout time.Duration

	// Incarnation is that of the data folder; Rules are what CREATE_TOPIC allows.
	// Both matter on the shard of the metadata partition only.
	Incarnation [16]byte
	Rules       cluster.Rules
	Metadata    cluster.Options
}

// Bounds of waits when the options leave them out.
const (
	requestTimeoutDefault = 30 * time.Second
	fetchWaitDefault      = time.Minute
	// offsetsRetentionDefault is what the configuration says too.
	offsetsRetentionDefault = 7 * 24 * time.Hour
)

func (o Options) withDefaults() Options {
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 256 << 20
	}
	if o.FetchBytesMax == 0 {
		o.FetchBytesMax = 64 << 20
	}
	if o.FetchRecordsMax == 0 {
		o.FetchRecordsMax = 1 << 30
	}
	if o.BatchRecordsMax == 0 {
		o.BatchRecordsMax = 1 << 30
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = requestTimeoutDefault
	}
	if o.OffsetsRetention == 0 {
		o.OffsetsRetention = offsetsRetentionDefault
	}
	if o.FetchWaitMax == 0 {
		o.FetchWaitMax = fetchWaitDefault
	}
	return o
}

// Ports are how a machine reaches the world. None of them blocks or calls back.
type Ports struct {
	Store   *segment.Store
	Clock   core.Clock
	Workers core.Workers
	// Slabs are the shard's own: metadata commands, answers copied together.
	Slabs core.SlabSource
	Out   Out
	// View is the newest that was published, on whichever shard; nil before the first.
	View func() core.View
	// TopicIDs gives random ids for new topics; on the metadata's shard.
	TopicIDs func() core.TopicID
}

// Out takes what leaves the shard. A false means that the ring is full: the
// machine keeps what it has and tries again at its next turn.
type Out interface {
	// Answer copies *a into the ring of a reactor.
	Answer(reactor int, a *mail.Answer) bool
	// Letter copies *l into the ring of another shard.
	Letter(shard core.ShardID, l *mail.Letter) bool
	// Publish makes the view the newest one of the node.
	Publish(core.View)
}
