package proto

import "encoding/binary"

// BatchFilter makes batches with fewer records out of stored ones. Records that stay keep their bytes, their offsets and
// their times; the batch keeps its base offset, leader epoch, last offset delta and producer, so that a reader sees gaps
// and an idempotent producer its sequence. The zero value is ready; one that is used again reuses its buffers.
type BatchFilter struct {
	raw    rawRecord
	record Record
	plain  []byte // the record area, decompressed
	left   []byte // the records that stay
}

// Append appends to dst the batch with only the records that keep wants, and tells how many it has. All records kept:
// the batch as it is. None: the header alone, with a count of 0. The record given to keep is the filter's own. When the
// records cannot be read, in at most recordBytesMax bytes, nothing is appended.
func (f *BatchFilter) Append(dst []byte, b Batch, recordBytesMax int, keep func(*Record) bool) (out []byte, count int, err error) {
	area := b.Records()
	if b.Codec() != CodecNone && b.Count() > 0 {
		if f.plain, err = Decompress(f.plain[:0], b.Codec(), area, recordBytesMax); err != nil {
			return dst, 0, err
		}
		area = f.plain
	}
	f.left = f.left[:0]
	latest := int64(0)
	origin := originOf(b)
	c := recordCursor{b: area}
	for i := range int(b.Count()) {
		from := c.off
		if problem := c.nextOf(&origin, &f.raw, &f.record); problem != problemNone {
			return dst, 0, &BatchError{Code: CodeCorruptBatch, Record: i, Offset: c.off, Problem: problem.String()}
		}
		if keep(&f.record) {
			f.left = append(f.left, area[from:c.off]...)
			latest = max(latest, f.record.Timestamp)
			count++
		}
	}
	if c.off != len(area) {
		return dst, 0, batchErrorf(CodeCorruptBatch, BatchHeaderBytes, "%d bytes after the last record", len(area)-c.off)
	}
	if count == int(b.Count()) {
		return append(dst, b...), count, nil
	}
	dst, err = f.encode(dst, b, count, latest)
	return dst, count, err
}

// encode appends the batch's header with what changes, and the records that stay.
func (f *BatchFilter) encode(dst []byte, b Batch, count int, latest int64) ([]byte, error) {
	start := len(dst)
	dst = append(dst, b[:BatchHeaderBytes]...)
	codec := CodecNone
	if b.Codec() != CodecNone && count > 0 {
		packed, err := Compress(dst, b.Codec(), f.left)
		if err != nil {
			return dst[:start], err
		}
		if len(packed)-len(dst) < len(f.left) {
			dst, codec = packed, b.Codec()
		}
	}
	if codec == CodecNone {
		dst = append(dst[:start+BatchHeaderBytes], f.left...)
	}
	out := Batch(dst[start:])
	be := binary.BigEndian
	be.PutUint32(out[batchLengthAt:], uint32(len(out)-batchLengthUncounted))
	be.PutUint16(out[batchAttributesAt:], out.attributes()&^attributeCodecMask|uint16(codec))
	be.PutUint32(out[batchCountAt:], uint32(count))
	if count > 0 && b.TimestampType() == TimestampCreate {
		be.PutUint64(out[batchMaxTimestampAt:], uint64(latest))
	}
	be.PutUint32(out[batchCRCAt:], CRC(out[batchAttributesAt:]))
	return dst, nil
}
