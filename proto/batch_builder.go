package proto

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BatchBuilder gathers records into a batch. The zero value builds uncompressed batches. One that is used again
// allocates nothing once its buffers have grown.
type BatchBuilder struct {
	codec         Codec
	plain         []byte // header and records, uncompressed
	packed        []byte // header and records, compressed
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
}

// Reset empties the builder for records to be compressed by codec. Batches built before are written over.
func (b *BatchBuilder) Reset(codec Codec) {
	b.codec = codec
	b.plain = b.plain[:0]
	b.count = 0
}

// Count is the number of records so far.
func (b *BatchBuilder) Count() int { return int(b.count) }

// Bytes is the size of the batch so far, before compression; 0 when it has no records.
func (b *BatchBuilder) Bytes() int { return len(b.plain) }

// BytesWith is an upper bound for the size of the batch with one more record, before compression.
func (b *BatchBuilder) BytesWith(r *Record) int {
	n := max(len(b.plain), BatchHeaderBytes)
	return n + binary.MaxVarintLen32 + b.recordBytes(r)
}

// recordBytes is the size of a record after its length field.
func (b *BatchBuilder) recordBytes(r *Record) int {
	base := b.baseTimestamp
	if b.count == 0 {
		base = r.Timestamp
	}
	n := 1 + sizeVarint(r.Timestamp-base) + sizeVarint(int64(b.count)) +
		sizeNullable(r.Key) + sizeNullable(r.Value) + sizeVarint(int64(len(r.Headers)))
	for i := range r.Headers {
		n += sizeVarint(int64(len(r.Headers[i].Key))) + len(r.Headers[i].Key) + sizeNullable(r.Headers[i].Value)
	}
	return n
}

// Append adds a record; its offset is not read. A header's key that is nil is taken as empty. It fails when the time is
// negative or the batch would pass 2 GiB, and then adds nothing.
func (b *BatchBuilder) Append(r *Record) error {
	if r.Timestamp < 0 {
		return batchErrorf(CodeInvalidTimestamp, batchBaseTimestampAt, "time %d: a time is not negative", r.Timestamp)
	}
	length := b.recordBytes(r)
	if int64(len(b.plain))+int64(length)+BatchHeaderBytes > math.MaxInt32 {
		return &BatchError{Code: CodeBatchTooLarge, Record: int(b.count), Problem: "a batch is smaller than 2 GiB"}
	}
	if b.count == 0 {
		b.plain = append(b.plain[:0], make([]byte, BatchHeaderBytes)...)
		b.baseTimestamp, b.maxTimestamp = r.Timestamp, r.Timestamp
	}
	p := appendVarint(b.plain, int64(length))
	p = append(p, 0) // attributes
	p = appendVarint(p, r.Timestamp-b.baseTimestamp)
	p = appendVarint(p, int64(b.count))
	p = appendNullable(p, r.Key)
	p = appendNullable(p, r.Value)
	p = appendVarint(p, int64(len(r.Headers)))
	for i := range r.Headers {
		p = appendVarint(p, int64(len(r.Headers[i].Key)))
		p = append(p, r.Headers[i].Key...)
		p = appendNullable(p, r.Headers[i].Value)
	}
	b.plain = p
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
	b.count++
	return nil
}

// Build makes the batch, with base offset 0, leader epoch -1 and no producer; SetProducer names one. Records that do
// not get smaller stay uncompressed. The batch is the builder's own: Reset and Append write over it. Without records it
// fails.
func (b *BatchBuilder) Build() (Batch, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("a batch without records cannot be built")
	}
	out, codec := b.plain, CodecNone
	if b.codec != CodecNone {
		packed := append(b.packed[:0], b.plain[:BatchHeaderBytes]...)
		packed, err := Compress(packed, b.codec, b.plain[BatchHeaderBytes:])
		if err != nil {
			return nil, err
		}
		b.packed = packed
		if len(packed) < len(b.plain) {
			out, codec = packed, b.codec
		}
	}
	be := binary.BigEndian
	be.PutUint64(out[batchBaseOffsetAt:], 0)
	be.PutUint32(out[batchLengthAt:], uint32(len(out)-batchLengthUncounted))
	be.PutUint32(out[batchLeaderEpochAt:], math.MaxUint32) // -1
	out[batchMagicAt] = batchMagic
	be.PutUint16(out[batchAttributesAt:], uint16(codec))
	be.PutUint32(out[batchLastOffsetDeltaAt:], uint32(b.count-1))
	be.PutUint64(out[batchBaseTimestampAt:], uint64(b.baseTimestamp))
	be.PutUint64(out[batchMaxTimestampAt:], uint64(b.maxTimestamp))
	be.PutUint64(out[batchProducerIDAt:], math.MaxUint64)    // -1
	be.PutUint16(out[batchProducerEpochAt:], math.MaxUint16) // -1
	be.PutUint32(out[batchBaseSequenceAt:], math.MaxUint32)  // -1
	be.PutUint32(out[batchCountAt:], uint32(b.count))
	be.PutUint32(out[batchCRCAt:], CRC(out[batchAttributesAt:]))
	return Batch(out), nil
}

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func appendVarint(b []byte, v int64) []byte { return binary.AppendUvarint(b, zigzag(v)) }

func sizeVarint(v int64) int { return sizeUvarint(zigzag(v)) }

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return appendVarint(b, -1)
	}
	return append(appendVarint(b, int64(len(v))), v...)
}

func sizeNullable(v []byte) int {
	if v == nil {
		return 1
	}
	return sizeVarint(int64(len(v))) + len(v)
}
