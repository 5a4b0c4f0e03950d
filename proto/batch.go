package proto

import (
	"encoding/binary"
	"fmt"
)

// Where the fields of a record batch lie. The layout is Kafka's RecordBatch v2; doc.go draws it.
const (
	batchBaseOffsetAt      = 0
	batchLengthAt          = 8
	batchLeaderEpochAt     = 12
	batchMagicAt           = 16
	batchCRCAt             = 17
	batchAttributesAt      = 21
	batchLastOffsetDeltaAt = 23
	batchBaseTimestampAt   = 27
	batchMaxTimestampAt    = 35
	batchProducerIDAt      = 43
	batchProducerEpochAt   = 51
	batchBaseSequenceAt    = 53
	batchCountAt           = 57

	// BatchHeaderBytes is the size of a batch before its records.
	BatchHeaderBytes = 61

	// BatchCoveredHeaderBytes is the part of the header that the checksum covers: from the attributes on.
	BatchCoveredHeaderBytes = BatchHeaderBytes - batchAttributesAt

	// batchLengthUncounted is what the length field does not count: the base offset and itself.
	batchLengthUncounted = batchLengthAt + 4

	batchMagic = 2

	// recordBytesMin is the smallest record: a length, attributes, two deltas, two lengths and a count, a byte each.
	recordBytesMin = 7
)

// Attributes of a batch.
const (
	attributeCodecMask     = 0x07
	attributeAppendTime    = 0x08 // every record has the batch's max timestamp
	attributeTransactional = 0x10
	attributeControl       = 0x20
	attributeUnknownMask   = ^uint16(attributeCodecMask | attributeAppendTime | attributeTransactional | attributeControl)
)

// The producer fields of a batch that no idempotent producer made.
const (
	ProducerIDNone    int64 = -1
	ProducerEpochNone int16 = -1
	SequenceNone      int32 = -1
)

// TimestampType says whose clock a batch's times come from.
type TimestampType uint8

const (
	TimestampCreate TimestampType = 0 // each record has the producer's time
	TimestampAppend TimestampType = 1 // all records have the broker's time at append
)

// Batch is a whole record batch as it is stored and sent.
//
// Invariant: it came from NextBatch, ParseBatch or a BatchBuilder, so len(b) >= BatchHeaderBytes and the length field
// agrees with len(b). Its records and checksum have been checked only by who says so.
type Batch []byte

// BatchError says why bytes are no acceptable batch.
type BatchError struct {
	Code    Code // CORRUPT_BATCH, UNSUPPORTED_COMPRESSION, INVALID_TIMESTAMP or BATCH_TOO_LARGE
	Record  int  // the record it is about, from 0; -1 when it is the batch
	Offset  int  // bytes from the start of the batch, or of the decompressed records
	Problem string
}

func (e *BatchError) Error() string {
	if e.Record >= 0 {
		return fmt.Sprintf("record %d of the batch, at byte %d: %s", e.Record, e.Offset, e.Problem)
	}
	return fmt.Sprintf("batch at byte %d: %s", e.Offset, e.Problem)
}

// Unwrap is the code that a broker answers with.
func (e *BatchError) Unwrap() error { return e.Code }

func batchErrorf(code Code, at int, format string, args ...any) *BatchError {
	return &BatchError{Code: code, Record: -1, Offset: at, Problem: fmt.Sprintf(format, args...)}
}

// BatchBytes is the size of the batch that starts with b, from its length field; false when b has fewer than the 12
// bytes that takes. The size may be less than BatchHeaderBytes when the bytes are no batch.
func BatchBytes(b []byte) (int64, bool) {
	if len(b) < batchLengthUncounted {
		return 0, false
	}
	return int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + batchLengthUncounted, true
}

// NextBatch cuts the first batch off b: an answer holds whole batches one after the other. It checks the header as
// ValidateStoredHeader does, not the checksum and not the records.
func NextBatch(b []byte) (batch Batch, rest []byte, err error) {
	n, ok := BatchBytes(b)
	if !ok || n < BatchHeaderBytes || n > int64(len(b)) {
		return nil, nil, batchErrorf(CodeCorruptBatch, 0, "%d bytes do not hold a whole batch", len(b))
	}
	if err := ValidateStoredHeader(b, int(n)); err != nil {
		return nil, nil, err
	}
	return Batch(b[:n:n]), b[n:], nil
}

// ParseBatch takes b as exactly one batch. It checks the header as ValidateStoredHeader does.
func ParseBatch(b []byte) (Batch, error) {
	batch, rest, err := NextBatch(b)
	if err == nil && len(rest) > 0 {
		return nil, batchErrorf(CodeCorruptBatch, len(batch), "%d bytes after the batch", len(rest))
	}
	return batch, err
}

// BaseOffset is the offset of the first record as it was appended.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[batchBaseOffsetAt:])) }

// LastOffset is the offset of the last record as it was appended.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is one more than LastOffset.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[batchLeaderEpochAt:])) }

// StoredCRC is the checksum that the batch carries, over everything from the attributes on.
func (b Batch) StoredCRC() uint32 { return binary.BigEndian.Uint32(b[batchCRCAt:]) }

func (b Batch) attributes() uint16 { return binary.BigEndian.Uint16(b[batchAttributesAt:]) }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b.attributes() & attributeCodecMask) }

// TimestampType says whose clock the times come from.
func (b Batch) TimestampType() TimestampType {
	if b.attributes()&attributeAppendTime != 0 {
		return TimestampAppend
	}
	return TimestampCreate
}

// LastOffsetDelta is the offset of the last record as it was appended, counted from the base offset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[batchLastOffsetDeltaAt:]))
}

// BaseTimestamp is what the records' times are counted from, in Unix milliseconds.
func (b Batch) BaseTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(b[batchBaseTimestampAt:]))
}

// MaxTimestamp is the highest time of a record, in Unix milliseconds; with TimestampAppend every record has it.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[batchMaxTimestampAt:])) }

// ProducerID is the idempotent producer that made the batch, or ProducerIDNone.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[batchProducerIDAt:])) }

// ProducerEpoch is the epoch of that producer, or ProducerEpochNone.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[batchProducerEpochAt:])) }

// BaseSequence is the sequence of the first record, or SequenceNone.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[batchBaseSequenceAt:])) }

// LastSequence is the sequence of the last record, or SequenceNone. Sequences wrap from 2^31-1 to 0.
func (b Batch) LastSequence() int32 {
	if b.ProducerID() == ProducerIDNone {
		return SequenceNone
	}
	return SequenceAdd(b.BaseSequence(), b.LastOffsetDelta())
}

// Count is the number of records; a compacted batch may have fewer than its offsets span.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[batchCountAt:])) }

// Records is the record area as it lies in the batch, compressed when Codec says so.
func (b Batch) Records() []byte { return b[BatchHeaderBytes:] }

// SetBaseOffset sets the base offset. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[batchBaseOffsetAt:], uint64(offset))
}

// SetLeaderEpoch sets the leader epoch. The checksum does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[batchLeaderEpochAt:], uint32(epoch))
}

// SetAppendTime gives every record the broker's time: it sets the timestamp bit and the max timestamp and corrects the
// checksum without reading the records. The checksum must have been right before.
func (b Batch) SetAppendTime(ms int64) {
	records := b.RecordsCRC()
	binary.BigEndian.PutUint16(b[batchAttributesAt:], b.attributes()|attributeAppendTime)
	binary.BigEndian.PutUint64(b[batchMaxTimestampAt:], uint64(ms))
	b.setCRC(records)
}

// SetProducer writes the producer's id, epoch and first sequence and corrects the checksum without reading the records.
// The checksum must have been right before.
func (b Batch) SetProducer(id int64, epoch int16, baseSequence int32) {
	records := b.RecordsCRC()
	binary.BigEndian.PutUint64(b[batchProducerIDAt:], uint64(id))
	binary.BigEndian.PutUint16(b[batchProducerEpochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(b[batchBaseSequenceAt:], uint32(baseSequence))
	b.setCRC(records)
}

func (b Batch) coveredHeader() []byte { return b[batchAttributesAt:BatchHeaderBytes] }

// setCRC writes the checksum that the header and the records' own checksum make.
func (b Batch) setCRC(records uint32) {
	crc := CRCCombine(CRC(b.coveredHeader()), records, len(b)-BatchHeaderBytes)
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc)
}

// RecordsCRC is the checksum of the record area alone, worked out from the one that the batch carries.
func (b Batch) RecordsCRC() uint32 {
	return b.StoredCRC() ^ crcShift(CRC(b.coveredHeader()), len(b)-BatchHeaderBytes)
}

// WholeCRC is the checksum of all bytes of the batch, worked out from the one that it carries: for frames, whose
// checksum is combined from those of their batches.
func (b Batch) WholeCRC() uint32 {
	return CRCCombine(CRC(b[:batchAttributesAt]), b.StoredCRC(), len(b)-batchAttributesAt)
}

// SequenceAdd is the sequence n records after s. Sequences wrap from 2^31-1 to 0.
func SequenceAdd(s, n int32) int32 {
	return int32((uint32(s) + uint32(n)) & 0x7fffffff)
}
