package pulsemq

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// TimestampType says whose clock a record's time comes from.
type TimestampType = proto.TimestampType

// The types of timestamps.
const (
	TimestampCreate = proto.TimestampCreate // the producer's
	TimestampAppend = proto.TimestampAppend // the broker's, at append
)

// Record is a message as a consumer reads it. Its bytes are never written over: it may be kept, and then keeps the
// chunk alive that it came in (up to about 1 MiB). Clone a record that is to live long.
type Record struct {
	Topic         string
	Partition     uint32
	Offset        int64
	LeaderEpoch   int32 // epoch of the leader that stored it
	Timestamp     time.Time
	TimestampType TimestampType
	Key           []byte // nil when null
	Value         []byte // nil when null
	Headers       []Header
}

// Clone copies the record with all its bytes.
func (r *Record) Clone() Record {
	c := *r
	c.Key, c.Value = clone(r.Key), clone(r.Value)
	c.Headers = append([]Header(nil), r.Headers...)
	for i := range c.Headers {
		c.Headers[i].Value = clone(c.Headers[i].Value)
	}
	return c
}

// clone keeps null and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
