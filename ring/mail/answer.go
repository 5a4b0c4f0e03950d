package mail

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// AnswerKind says which request an Answer answers.
type AnswerKind uint8

const (
	// AnswerError fails the request: Err.
	AnswerError AnswerKind = iota + 1
	AnswerProduce
	AnswerFetch
	// AnswerSubscribe tells that a partition was added, or why not (Err).
	AnswerSubscribe
	// AnswerDeliver pushes batches, or an error that ends this partition's subscription.
	AnswerDeliver
	AnswerListOffset
	// AnswerDescribe answers RequestDescribe and RequestVerify; Body is a *proto.PartitionStorage.
	AnswerDescribe
	AnswerTrim
	// AnswerAdmin carries a *proto.XxxResponse in Body.
	AnswerAdmin
	// AnswerCursor carries a *CursorState in Body; AnswerCursors a []CursorState.
	AnswerCursor
	AnswerCursors
	// AnswerLease tells that a partition was added to a lease subscription, or why not (Err).
	AnswerLease
	// AnswerLeased pushes leased records, Body is a *Leased and Parcel their batches; or with Err
	// ends this partition's part of the lease subscription, without a Parcel and a Body.
	// More tells that it was the last credit and there are more records.
	AnswerLeased
	// AnswerLeaseCredit gives Records of credit back that a recall asked for, and has ID from it. More tells
	// that there are records and no credit: it is told without being asked as well, once until credit comes.
	AnswerLeaseCredit
	// AnswerSettle carries a *proto.SettleResponse in Body, when the outcomes are durable.
	AnswerSettle
	// AnswerQueue carries a *proto.QueuePartition in Body; AnswerQueues a []proto.QueuePartition.
	AnswerQueue
	AnswerQueues
)

// Answer is one letter from a shard to a reactor, copied by value into the ring.
type Answer struct {
	Kind       AnswerKind
	Durability core.Durability // AnswerProduce: the level reached
	Duplicate  bool            // AnswerProduce: the batch was stored before
	More       bool            // AnswerFetch: another answer for this request follows; AnswerLeased, AnswerLeaseCredit
	Recalled   bool            // AnswerLeaseCredit: it answers a recall
	Records    uint32          // AnswerLeaseCredit: given back

	Conn ConnRef
	ID   uint64

	Partition   core.PartitionID
	LeaderEpoch core.LeaderEpoch

	Offset         core.Offset // base offset, or the offset looked up (-1: none)
	Timestamp      int64       // append time, or that of the record looked up; milliseconds, -1: none
	LogStartOffset core.Offset
	HighWatermark  core.Offset
	LogEndOffset   core.Offset
	SizeBytes      int64

	// Received is copied from the request, for the latency of the whole way.
	Received int64

	// Err is set for AnswerError and for per-partition failures.
	Err *proto.Error
	// Parcel holds the batches of AnswerFetch and AnswerDeliver; nil when there are none.
	Parcel *Parcel
	// Body is a *proto.XxxResponse.
	Body any
}

// Parcel is a list of record batches on their way out, in order. It belongs to
// the reactor until it is given back; its Slices point into slabs that the shard
// holds for it. Shards keep parcels in a pool.
type Parcel struct {
	Slices [][]byte
	// Bytes is the sum of the slices.
	Bytes int
	// Slabs are released by the shard when the parcel returns.
	Slabs []*core.Slab
	// Owner is the shard's note of what goes on when the parcel returns. Reactors
	// leave it alone.
	Owner any
}
