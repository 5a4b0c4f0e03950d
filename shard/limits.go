package shard

import "github.com/pulsemq/pulsemq/core"

// Bounds of a machine's queues. Payload memory is bounded by Options.MemoryBytes.
const (
	// heldPerPartitionMax bounds the produces of one partition that wait behind one
	// whose compressed records are being checked.
	heldPerPartitionMax = 64

	// fetchesPerPeerMax bounds the unanswered fetches of one connection.
	fetchesPerPeerMax = 4096

	// subscriptionsPerPeerMax bounds the subscriptions of one connection on a shard.
	subscriptionsPerPeerMax = 256

	// deliveriesPerSubscriptionMax bounds the pushes of one subscription on a shard
	// that are being read or have not left for the socket: read-ahead.
	deliveriesPerSubscriptionMax = 4

	// trimsPerPartitionMax bounds the trims that wait for their log start to be durable.
	trimsPerPartitionMax = 64

	// lookupsMax bounds the look-ups by time that wait for the disk or a worker.
	lookupsMax = 1024

	// changesMax bounds the metadata changes in flight.
	changesMax = 64

	// producerRequestsMax bounds the INIT_PRODUCERs that wait for a block of ids.
	producerRequestsMax = 4096

	// lettersPerTurnMax bounds the letters that one change sends in one turn.
	lettersPerTurnMax = 256

	// deliverBytesShared bounds one push while other partitions of the subscription
	// have unread data too; alone a push may fill a chunk.
	deliverBytesShared = core.AnswerChunkBytesMax / 4

	// readBytesPerTurn is how much a turn reads before it lets requests and
	// completions through again; readBytesPerPartition is one partition's part of it.
	readBytesPerTurn      = 8 << 20
	readBytesPerPartition = 2 << 20
)

const (
	_ = uint(readBytesPerPartition - core.AnswerChunkBytesMax)
)
