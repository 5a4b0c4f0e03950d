package proto

import (
	"encoding/binary"
	"math"
)

// rawRecord is a record as it lies in the record area.
type rawRecord struct {
	timestampDelta int64
	offsetDelta    int32
	headerCount    int32
	key, value     []byte // nil when null
	headers        []byte // the headers after their count
}

// recordOrigin is what a batch's header says of all its records.
type recordOrigin struct {
	baseOffset    int64
	lastDelta     int32
	baseTimestamp int64
	appendTime    int64 // -1 when the records have times of their own
}

func originOf(b Batch) recordOrigin {
	o := recordOrigin{baseOffset: b.BaseOffset(), lastDelta: b.LastOffsetDelta(), baseTimestamp: b.BaseTimestamp(), appendTime: -1}
	if b.TimestampType() == TimestampAppend {
		o.appendTime = b.MaxTimestamp()
	}
	return o
}

// recordCursor walks over a record area.
//
// Invariant: 0 <= off <= len(b).
type recordCursor struct {
	b   []byte
	off int
}

// recordProblem is what a walk finds wrong. It is a number, not an error, so that a walk over good records pays nothing
// for it.
type recordProblem uint8

const (
	problemNone recordProblem = iota
	problemEnd
	problemVarint
	problemLength
	problemAttributes
	problemNegative
	problemHeaders
	problemHeaderKey
	problemOffsetDelta
	problemOffsetOutside
)

var recordProblemTexts = [...]string{
	problemNone:          "nothing is wrong",
	problemEnd:           "the bytes end inside the record",
	problemVarint:        "a varint is longer than it needs to be or does not fit",
	problemLength:        "the record's length and its content do not agree",
	problemAttributes:    "a record's attributes are 0",
	problemNegative:      "a length is below -1",
	problemHeaders:       "the number of headers is negative or larger than the record",
	problemHeaderKey:     "a header's key is null",
	problemOffsetDelta:   "the offset delta does not count from 0 by one",
	problemOffsetOutside: "the offset delta is outside the batch",
}

// String is the problem for people.
func (p recordProblem) String() string { return recordProblemTexts[p] }

// nextOf reads one record of a stored batch into r, whose bytes are slices of the cursor's. raw is room to work in, so
// that none is allocated.
func (c *recordCursor) nextOf(o *recordOrigin, raw *rawRecord, r *Record) recordProblem {
	if problem := c.next(raw); problem != problemNone {
		return problem
	}
	if raw.offsetDelta < 0 || raw.offsetDelta > o.lastDelta {
		return problemOffsetOutside
	}
	r.Offset = o.baseOffset + int64(raw.offsetDelta)
	if r.Timestamp = o.appendTime; r.Timestamp < 0 {
		r.Timestamp = o.baseTimestamp + raw.timestampDelta
	}
	r.Key, r.Value = raw.key, raw.value
	r.Headers = r.Headers[:0]
	if raw.headerCount == 0 {
		return problemNone
	}
	headers := recordCursor{b: raw.headers}
	for range raw.headerCount {
		key, value, _ := headers.header() // next has been over them once
		r.Headers = append(r.Headers, Header{Key: key, Value: value})
	}
	return problemNone
}

// next reads one record and moves behind it. When there is a problem off stands at about where it is.
func (c *recordCursor) next(r *rawRecord) recordProblem {
	if c.nextPlain(r) {
		return problemNone
	}
	return c.nextAny(r)
}

// nextAny is next for every record.
func (c *recordCursor) nextAny(r *rawRecord) recordProblem {
	length, problem := c.varint32()
	if problem != problemNone {
		return problem
	}
	if length < 0 || int(length) > len(c.b)-c.off {
		return problemEnd
	}
	// Nothing of the record is read from outside its own bytes.
	in := recordCursor{b: c.b[:c.off+int(length)], off: c.off}
	problem = in.fields(r)
	c.off = in.off
	return problem
}

// nextPlain is nextAny for a good record without headers, as most are, and faster. It does nothing and returns false for
// every other one.
func (c *recordCursor) nextPlain(r *rawRecord) bool {
	b := c.b
	length, off := uvarintAt(b, c.off)
	if off < 0 || length&1 != 0 || length>>1 > uint64(len(b)-off) {
		return false
	}
	b = b[: off+int(length>>1) : off+int(length>>1)]
	if off == len(b) || b[off] != 0 {
		return false
	}
	timestampDelta, off := uvarintAt(b, off+1)
	if off < 0 {
		return false
	}
	offsetDelta, off := uvarintAt(b, off)
	if off < 0 || offsetDelta > math.MaxUint32 {
		return false
	}
	key, off := nullableAt(b, off)
	if off < 0 {
		return false
	}
	value, off := nullableAt(b, off)
	if off != len(b)-1 || b[off] != 0 { // the number of headers
		return false
	}
	r.timestampDelta = int64(timestampDelta>>1) ^ -int64(timestampDelta&1)
	r.offsetDelta = int32(uint32(offsetDelta)>>1) ^ -int32(offsetDelta&1)
	r.key, r.value = key, value
	r.headerCount, r.headers = 0, nil
	c.off = len(b)
	return true
}

// uvarintAt reads a varint and returns where the next field begins; a negative place when there is a problem.
func uvarintAt(b []byte, off int) (uint64, int) {
	if uint(off) < uint(len(b)) && b[off] < 0x80 {
		return uint64(b[off]), off + 1
	}
	return uvarintLongAt(b, off)
}

func uvarintLongAt(b []byte, off int) (uint64, int) {
	if off+1 < len(b) && b[off+1] < 0x80 && b[off+1] > 0 {
		return uint64(b[off]&0x7f) | uint64(b[off+1])<<7, off + 2
	}
	c := recordCursor{b: b, off: off}
	v, problem := c.uvarint()
	if problem != problemNone {
		return 0, -1
	}
	return v, c.off
}

// nullableAt reads a length and as many bytes and returns where the next field begins; a negative place when there is a
// problem.
func nullableAt(b []byte, off int) ([]byte, int) {
	n, off := uvarintAt(b, off)
	switch {
	case off < 0:
		return nil, -1
	case n == 1: // -1 in zigzag
		return nil, off
	case n&1 != 0 || n>>1 > uint64(len(b)-off):
		return nil, -1
	}
	end := off + int(n>>1)
	return b[off:end:end], end
}

// fields reads everything of a record after its length and checks that it fills c.
func (c *recordCursor) fields(r *rawRecord) (problem recordProblem) {
	if c.off == len(c.b) {
		return problemEnd
	}
	if c.b[c.off] != 0 {
		return problemAttributes
	}
	c.off++
	if r.timestampDelta, problem = c.varint64(); problem != problemNone {
		return problem
	}
	if r.offsetDelta, problem = c.varint32(); problem != problemNone {
		return problem
	}
	if r.key, problem = c.nullable(); problem != problemNone {
		return problem
	}
	if r.value, problem = c.nullable(); problem != problemNone {
		return problem
	}
	if r.headerCount, problem = c.varint32(); problem != problemNone {
		return problem
	}
	if r.headerCount < 0 || int(r.headerCount) > (len(c.b)-c.off)/2 {
		return problemHeaders
	}
	r.headers = c.b[c.off:]
	for range r.headerCount {
		if _, _, problem = c.header(); problem != problemNone {
			return problem
		}
	}
	if c.off != len(c.b) {
		return problemLength
	}
	return problemNone
}

// header reads one header. Its key is never null, its value may be.
func (c *recordCursor) header() (key, value []byte, problem recordProblem) {
	if key, problem = c.nullable(); problem != problemNone {
		return nil, nil, problem
	}
	if key == nil {
		return nil, nil, problemHeaderKey
	}
	value, problem = c.nullable()
	return key, value, problem
}

// nullable reads a length and as many bytes; nil stands for null, which -1 marks.
func (c *recordCursor) nullable() ([]byte, recordProblem) {
	n, problem := c.varint32()
	switch {
	case problem != problemNone:
		return nil, problem
	case n == -1:
		return nil, problemNone
	case n < -1:
		return nil, problemNegative
	case int(n) > len(c.b)-c.off:
		return nil, problemEnd
	}
	b := c.b[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return b, problemNone
}

// varint32 reads a zigzag varint that fits in 32 bits.
func (c *recordCursor) varint32() (int32, recordProblem) {
	v, problem := c.uvarint()
	if v > math.MaxUint32 {
		return 0, problemVarint
	}
	return int32(uint32(v)>>1) ^ -int32(v&1), problem
}

// varint64 reads a zigzag varint that fits in 64 bits.
func (c *recordCursor) varint64() (int64, recordProblem) {
	v, problem := c.uvarint()
	return int64(v>>1) ^ -int64(v&1), problem
}

// uvarint reads a varint of up to 64 bits. Nearly all in records are of one or two bytes. Writers use the shortest form,
// so a longer one is no writer's.
func (c *recordCursor) uvarint() (uint64, recordProblem) {
	b := c.b[c.off:]
	if len(b) > 0 && b[0] < 0x80 {
		c.off++
		return uint64(b[0]), problemNone
	}
	if len(b) > 1 && b[1] < 0x80 && b[1] > 0 {
		c.off += 2
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, problemNone
	}
	return c.uvarintLong()
}

func (c *recordCursor) uvarintLong() (uint64, recordProblem) {
	v, n := binary.Uvarint(c.b[c.off:])
	switch {
	case n == 0:
		return 0, problemEnd
	case n < 0 || n != sizeUvarint(v):
		return 0, problemVarint
	}
	c.off += n
	return v, problemNone
}
