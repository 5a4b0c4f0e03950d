package proto

import (
	"encoding/binary"
	"strings"
	"testing"
)

// badBatch is a batch that a broker refuses.
type badBatch struct {
	name string
	b    []byte
	want Code
}

// badBatches makes one batch for every rule, each wrong in that one way alone; the checksum is right unless it is what
// is wrong.
func badBatches(t testing.TB) []badBatch {
	be := binary.BigEndian
	records := []Record{
		{Timestamp: vectorTime, Key: []byte("k"), Value: []byte("v")},
		{Timestamp: vectorTime + 1, Key: []byte("k"), Value: []byte("v"), Headers: []Header{{[]byte("h"), []byte("v")}}},
	}
	fresh := func() Batch {
		c := batchCase{name: "good", records: records}
		return c.batch(t)
	}
	var cases []badBatch
	header := func(name string, want Code, change func(b Batch)) {
		b := fresh()
		change(b)
		b.setCRC(CRC(b.Records()))
		cases = append(cases, badBatch{name, b, want})
	}
	// area replaces the record area and keeps the header in step with its size.
	area := func(name string, count int, records []byte) {
		b := append(fresh()[:BatchHeaderBytes:BatchHeaderBytes], records...)
		be.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthUncounted))
		be.PutUint32(b[batchCountAt:], uint32(count))
		be.PutUint32(b[batchLastOffsetDeltaAt:], uint32(count-1))
		be.PutUint64(b[batchMaxTimestampAt:], vectorTime)
		b.setCRC(CRC(b.Records()))
		cases = append(cases, badBatch{name, b, CodeCorruptBatch})
	}

	cases = append(cases, badBatch{"batch of no bytes", nil, CodeCorruptBatch}, badBatch{"batch of 60 bytes", fresh()[:60], CodeCorruptBatch},
		badBatch{"batch with a byte missing", fresh()[:len(fresh())-1], CodeCorruptBatch}, badBatch{"batch with a byte too many", append(fresh(), 0), CodeCorruptBatch})
	header("length of 2^31-1", CodeCorruptBatch, func(b Batch) { be.PutUint32(b[batchLengthAt:], 1<<31-1) })
	header("length of -1", CodeCorruptBatch, func(b Batch) { be.PutUint32(b[batchLengthAt:], 1<<32-1) })
	header("magic 1", CodeCorruptBatch, func(b Batch) { b[batchMagicAt] = 1 })
	header("magic 3", CodeCorruptBatch, func(b Batch) { b[batchMagicAt] = 3 })
	header("codec 5", CodeUnsupportedCompression, func(b Batch) { b[batchAttributesAt+1] = 5 })
	header("append time from a producer", CodeInvalidTimestamp, func(b Batch) { b[batchAttributesAt+1] = attributeAppendTime })
	header("transactional", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = attributeTransactional })
	header("control", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = attributeControl })
	header("unknown attribute", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = 0x40 })
	header("unknown high attribute", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt] = 0x80 })
	header("last offset delta too large", CodeCorruptBatch, func(b Batch) { be.PutUint32(b[batchLastOffsetDeltaAt:], 2) })
	header("last offset delta too small", CodeCorruptBatch, func(b Batch) { be.PutUint32(b[batchLastOffsetDeltaAt:], 0) })
	header("count of 0", CodeCorruptBatch, func(b Batch) {
		be.PutUint32(b[batchCountAt:], 0)
		be.PutUint32(b[batchLastOffsetDeltaAt:], 1<<32-1)
	})
	header("count of -1", CodeCorruptBatch, func(b Batch) { be.PutUint32(b[batchCountAt:], 1<<32-1) })
	header("count of 2^31-1", CodeCorruptBatch, func(b Batch) {
		be.PutUint32(b[batchCountAt:], 1<<31-1)
		be.PutUint32(b[batchLastOffsetDeltaAt:], 1<<31-2)
	})
	header("negative base timestamp", CodeInvalidTimestamp, func(b Batch) { be.PutUint64(b[batchBaseTimestampAt:], 1<<64-1) })
	header("negative max timestamp", CodeInvalidTimestamp, func(b Batch) { be.PutUint64(b[batchMaxTimestampAt:], 1<<63) })
	header("max timestamp too high", CodeInvalidTimestamp, func(b Batch) { be.PutUint64(b[batchMaxTimestampAt:], vectorTime+2) })
	header("max timestamp too low", CodeInvalidTimestamp, func(b Batch) { be.PutUint64(b[batchMaxTimestampAt:], vectorTime) })
	header("record with a time below zero", CodeInvalidTimestamp, func(b Batch) {
		be.PutUint64(b[batchBaseTimestampAt:], 0)
		be.PutUint64(b[batchMaxTimestampAt:], 1)
		b[BatchHeaderBytes+2] = 1 // a delta of -1 from 0; the second record has 1
	})
	header("base timestamp that overflows", CodeInvalidTimestamp, func(b Batch) { be.PutUint64(b[batchBaseTimestampAt:], 1<<63-1) })
	header("producer id without epoch", CodeCorruptBatch, func(b Batch) { be.PutUint64(b[batchProducerIDAt:], 5) })
	header("producer id of -2", CodeCorruptBatch, func(b Batch) { be.PutUint64(b[batchProducerIDAt:], 1<<64-2) })
	header("negative sequence", CodeCorruptBatch, func(b Batch) { b.SetProducer(5, 0, -1) })
	header("gzip that is none", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = 1 })
	header("snappy that is none", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = 2 })
	header("lz4 that is none", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = 3 })
	header("zstd that is none", CodeCorruptBatch, func(b Batch) { b[batchAttributesAt+1] = 4 })

	flipped := fresh()
	flipped[len(flipped)-1] ^= 1
	cases = append(cases, badBatch{"checksum of other bytes", flipped, CodeCorruptBatch})

	// A record of its smallest form is: length 6 (12 in zigzag), attributes, two deltas, null key and value, no headers.
	good := []byte{12, 0, 0, 0, 1, 1, 0}
	area("", 1, good)
	last := len(cases) - 1
	if err := validateProduced(cases[last].b); err != nil {
		t.Fatalf("the batch that the bad ones are made from is refused: %v", err)
	}
	cases = cases[:last]
	area("fewer records than counted", 1, make([]byte, 0))
	area("more records than counted", 1, append(good[:7:7], 12, 0, 0, 2, 1, 1, 0))
	area("record length past the end", 1, []byte{14, 0, 0, 0, 1, 1, 0})
	area("record length too small", 1, []byte{10, 0, 0, 0, 1, 1, 0})
	area("record length too large", 1, []byte{14, 0, 0, 0, 1, 1, 0, 0})
	area("record length of 0", 1, []byte{0, 0, 0, 0, 0, 0, 0})
	area("negative record length", 1, []byte{1, 0, 0, 0, 1, 1, 0})
	area("overlong record length", 1, []byte{0x8c, 0, 0, 0, 0, 1, 1, 0})
	area("endless record length", 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	area("record attributes", 1, []byte{12, 1, 0, 0, 1, 1, 0})
	area("offset delta that does not start at 0", 1, []byte{12, 0, 0, 2, 1, 1, 0})
	area("offset delta that repeats", 2, append(good[:7:7], good...))
	area("key length of -2", 1, []byte{12, 0, 0, 0, 3, 1, 0})
	area("key length past the record", 1, []byte{12, 0, 0, 0, 20, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	area("value length past the record", 1, []byte{12, 0, 0, 0, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0})
	area("value length of 2^31-1", 1, []byte{20, 0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0})
	area("negative number of headers", 1, []byte{12, 0, 0, 0, 1, 1, 1})
	area("number of headers of 2^31-1", 1, []byte{20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f})
	area("header with a null key", 1, []byte{16, 0, 0, 0, 1, 1, 2, 1, 1})
	return cases
}

// What can be seen in the header is refused before the records have come.
func TestBadHeadersAreRefusedAlone(t *testing.T) {
	alone := map[string]bool{"codec 5": true, "append time from a producer": true, "transactional": true, "control": true,
		"unknown attribute": true, "last offset delta too large": true, "count of 0": true, "count of 2^31-1": true,
		"negative base timestamp": true, "negative max timestamp": true, "producer id of -2": true, "magic 1": true}
	for _, c := range badBatches(t) {
		if !alone[c.name] {
			continue
		}
		delete(alone, c.name)
		err := ValidateHeader(c.b[:BatchHeaderBytes], len(c.b))
		if code, _ := CodeOf(err); code != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if len(alone) > 0 {
		t.Errorf("no such cases: %v", alone)
	}
}

func TestBadBatchesAreRefused(t *testing.T) {
	for _, c := range badBatches(t) {
		err := validateProduced(c.b)
		if code, _ := CodeOf(err); code != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%s: the text is not one line: %q", c.name, err)
		}
	}
}

// Every bit of what the checksum covers is held by it, and so are length and magic by the header's own rules.
func TestFlippedBitsAreFound(t *testing.T) {
	good := vectorBatch()
	for at := batchLengthAt; at < len(good); at++ {
		if at >= batchLeaderEpochAt && at < batchMagicAt {
			continue // the leader epoch is the broker's, outside the checksum
		}
		for bit := range 8 {
			b := append(Batch(nil), good...)
			b[at] ^= 1 << bit
			if validateProduced(b) == nil {
				t.Errorf("bit %d of byte %d flipped: taken", bit, at)
			}
		}
	}
}

// A compacted batch keeps its span of offsets and may hold fewer records, or none.
func TestStoredBatchMayHaveGaps(t *testing.T) {
	b := batchCase{name: "gaps", records: []Record{{Timestamp: vectorTime, Value: []byte("v")}}}.batch(t)
	binary.BigEndian.PutUint32(b[batchLastOffsetDeltaAt:], 9)
	b[BatchHeaderBytes+3] = 8 // offset delta 4
	b.setCRC(CRC(b.Records()))
	if ValidateHeader(b, len(b)) == nil {
		t.Error("a producer may not leave gaps")
	}
	b.SetBaseOffset(100)
	got, err := ParseBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	var it RecordIterator
	if err := it.Reset(got, 0); err != nil || !it.Next() || it.Record().Offset != 104 || it.Next() || it.Err() != nil {
		t.Errorf("%v, %+v", err, it.Record())
	}
	for name, change := range map[string]func(b Batch){
		"more records than offsets":     func(b Batch) { binary.BigEndian.PutUint32(b[batchLastOffsetDeltaAt:], 1<<32-1) },
		"negative last offset delta":    func(b Batch) { binary.BigEndian.PutUint32(b[batchLastOffsetDeltaAt:], 1<<31) },
		"negative count":                func(b Batch) { binary.BigEndian.PutUint32(b[batchCountAt:], 1<<32-1) },
		"two records with one offset":   func(b Batch) { copy(b[batchLastOffsetDeltaAt:], []byte{0, 0, 0, 0}); b[batchCountAt+3] = 2 },
		"more records than bytes allow": func(b Batch) { binary.BigEndian.PutUint32(b[batchCountAt:], 9) },
	} {
		bad := append(Batch(nil), b...)
		change(bad)
		if _, err := ParseBatch(bad); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	if got.NextOffset() != 110 {
		t.Errorf("next offset %d, want 110", got.NextOffset())
	}
	empty := append(Batch(nil), b[:BatchHeaderBytes]...)
	binary.BigEndian.PutUint32(empty[batchLengthAt:], BatchHeaderBytes-batchLengthUncounted)
	binary.BigEndian.PutUint32(empty[batchCountAt:], 0)
	if got, err = ParseBatch(empty); err != nil {
		t.Fatal(err)
	}
	if err := it.Reset(got, 0); err != nil || it.Next() || it.Err() != nil {
		t.Errorf("an empty batch: %v, %v", err, it.Err())
	}
}

// An answer holds batches one after the other; one cut off is not taken.
func TestNextBatch(t *testing.T) {
	answer := append(stored(vectorBatch(), 5, 1), stored(vectorBatch(), 6, 2)...)
	first, rest, err := NextBatch(answer)
	if err != nil || first.BaseOffset() != 5 {
		t.Fatal(err)
	}
	second, rest, err := NextBatch(rest)
	if err != nil || second.BaseOffset() != 6 || len(rest) != 0 {
		t.Fatal(err, len(rest))
	}
	for n := range second {
		if _, _, err := NextBatch(second[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken", n, len(second))
		}
	}
	if _, err := ParseBatch(answer); err == nil {
		t.Error("two batches were taken as one")
	}
}
