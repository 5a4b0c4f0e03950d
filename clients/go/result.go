package pulsemq

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Durability says how safe an acknowledged message is.
type Durability = proto.Durability

// The levels of durability. The topic's setting "durability" chooses one; the result names the one that was reached.
const (
	DurabilityNone  = proto.DurabilityNone  // accepted in memory
	DurabilityBatch = proto.DurabilityBatch // written; synced within flush.ms or flush.bytes
	DurabilitySync  = proto.DurabilitySync  // synced to disk, on a majority when replicated
)

// OffsetUnknown is the offset of a message that is stored, but so long ago that the broker no longer knows where.
const OffsetUnknown int64 = -1

// Result says where a message was stored.
type Result struct {
	Topic      string
	Partition  uint32
	Offset     int64     // OffsetUnknown only when Duplicate
	Timestamp  time.Time // the message's own time, or the broker's when the topic says so
	Durability Durability
	Duplicate  bool // an earlier try had stored it already; it is stored once
}
