package mail

import (
	"github.com/pulsemq/pulsemq/core"
)

// RequestKind says what a shard is asked.
type RequestKind uint8

const (
	// RequestProduce appends the batch in Slab to Partition.
	RequestProduce RequestKind = iota + 1
	// RequestFetch reads from Offset, waiting up to Wait for BytesMin.
	RequestFetch
	// RequestSubscribe adds Partition to subscription (Conn, ID) from Offset on.
	// It is answered by AnswerSubscribe once, then by AnswerDeliver as credit allows.
	RequestSubscribe
	// RequestUnsubscribe takes Partition off subscription (Conn, ID). Partition 0 ends
	// the subscription on this shard, with the credit that it has left. It has no answer.
	RequestUnsubscribe
	// RequestCredit lends Bytes of credit to subscription (Conn, ID) on this shard.
	RequestCredit
	// RequestListOffset looks one offset up: Lookup, Timestamp.
	RequestListOffset
	// RequestDescribe asks for a partition's offsets and size.
	RequestDescribe
	// RequestVerify has everything sealed of a partition read again, and asks as RequestDescribe does.
	RequestVerify
	// RequestTrim deletes records before Offset (-1: the high watermark).
	RequestTrim
	// RequestAdmin carries a decoded command of proto for the shard that owns the
	// metadata partition: create, delete or alter a topic, a producer id. A
	// *proto.MetadataRequest in Body creates those of its names that do not exist
	// (topics.auto-create); its answer has no Body, and the newest View says what is there.
	RequestAdmin
	// RequestGroup carries a command about a consumer group, a *GroupCommand in Body, for the
	// partition of core.GroupsTopic that keeps the group. It is answered by AnswerAdmin.
	RequestGroup
	// RequestCursor carries a *Cursor in Body, for the partition that it speaks of.
	RequestCursor
	// RequestCursors asks a shard, and no partition, for what a group has committed to all of
	// its partitions; Body is the group's name, a string.
	RequestCursors
	// RequestLease adds Partition to lease subscription (Conn, ID); Body is a *Lease. It is answered by
	// AnswerLease, durably begun, and by AnswerLeased as there are records and credit.
	RequestLease
	// RequestUnlease takes Partition off lease subscription (Conn, ID); leases that are out stay.
	// Partition 0 ends the subscription on this shard: its leases are given back, and its credit is forgotten.
	// It has no answer.
	RequestUnlease
	// RequestLeaseCredit lends Records of credit to lease subscription (Conn, ID) on this shard. It has
	// no answer. A shard that does not know the subscription forgets it.
	RequestLeaseCredit
	// RequestLeaseRecall asks for the credit that lease subscription (Conn, ID) has no records for on this
	// shard: the shard leases first what it can, also with credit that came in the same turn, or two shards
	// would take one record's credit from each other for ever. It is answered by AnswerLeaseCredit, also
	// when there is none and when the shard does not know it.
	RequestLeaseRecall
	// RequestSettle carries a *Settle in Body for Partition. It is answered by AnswerSettle.
	RequestSettle
	// RequestQueue asks how a queue group stands in Partition; Body is its name, a string.
	RequestQueue
	// RequestQueues asks a shard, and no partition, the same of all of its partitions that the group
	// has begun in; Body is its name, a string.
	RequestQueues
	// RequestReturn gives a Parcel back.
	RequestReturn
	// RequestDisconnect forgets waiters and subscriptions of Conn; leases are given back. It has no answer.
	RequestDisconnect
)

// Lookup says what RequestListOffset looks for.
type Lookup uint8

const (
	LookupEarliest Lookup = iota
	LookupLatest
	// LookupTime finds the first record whose timestamp is at or after Timestamp.
	LookupTime
	// LookupMaxTimestamp finds the record with the largest timestamp.
	LookupMaxTimestamp
)

// ConnRef names a connection of a reactor. Slots are reused, so the serial tells
// a late answer for a closed connection from one for its successor.
type ConnRef struct {
	Slot   uint32
	Serial uint32
}

// Request is one letter from a reactor to a shard. It is copied by value into
// the ring; fields that a kind does not name are zero.
type Request struct {
	Kind    RequestKind
	Acks    uint8 // RequestProduce: as in the command
	Lookup  Lookup
	Reactor uint8 // index of the sender
	Version uint8 // of the command

	Conn ConnRef
	ID   uint64 // request id of the wire; for subscriptions the subscription's

	Partition   core.PartitionID
	LeaderEpoch core.LeaderEpoch // believed by the client; -1 unknown
	LastEpoch   core.LeaderEpoch // of the last record read; -1 unknown

	// RequestProduce: the batch is Slab.Bytes[Start : Start+Bytes]. One of at least
	// core.DirectWriteBytesMin has core.BatchRoomBytes before it and padding room behind;
	// small ones may share a slab, of which each has a reference. The header has been
	// validated and the checksum verified by the reactor, which hands on the checksum of
	// the records when it has computed it on the way.
	Slab       *core.Slab
	Start      uint32
	Bytes      uint32 // also the credit of RequestCredit
	RecordsCRC uint32 // Castagnoli over the record area, bytes [61, end) of the batch; 0 for one below core.CombineBytesMin may mean that nobody computed it

	Offset     core.Offset
	Timestamp  int64 // milliseconds since the Unix epoch
	BytesMin   uint32
	BytesMax   uint32
	RecordsMax uint32
	Records    uint32 // credit of RequestLeaseCredit
	// Wait is how long the request may wait, in nanoseconds from Received.
	Wait int64
	// Received is the monotonic clock when the reactor had the whole request.
	Received int64

	// Body is a *proto.XxxRequest for RequestAdmin.
	Body any
	// Parcel is given back by RequestReturn.
	Parcel *Parcel
}
