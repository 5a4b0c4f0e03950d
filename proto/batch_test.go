package proto

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// drawNullable draws nil, empty and any bytes.
func drawNullable(t *rapid.T, name string) []byte {
	switch rapid.IntRange(0, 4).Draw(t, name+" shape") {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2: // compressible
		return bytes.Repeat([]byte{rapid.Byte().Draw(t, name+" fill")}, rapid.IntRange(1, 5000).Draw(t, name+" run"))
	}
	return rapid.SliceOf(rapid.Byte()).Draw(t, name)
}

func drawRecords(t *rapid.T) []Record {
	n := rapid.IntRange(1, 20).Draw(t, "records")
	names := [][]byte{{}, []byte("a"), []byte("twice"), {0xff, 0xfe}}
	records := make([]Record, n)
	for i := range records {
		r := &records[i]
		r.Offset = int64(i)
		r.Timestamp = rapid.Int64Range(0, 1<<62).Draw(t, "timestamp")
		r.Key, r.Value = drawNullable(t, "key"), drawNullable(t, "value")
		for range rapid.IntRange(0, 4).Draw(t, "headers") {
			r.Headers = append(r.Headers, Header{
				Key:   rapid.SampledFrom(names).Draw(t, "header key"),
				Value: drawNullable(t, "header value"),
			})
		}
	}
	return records
}

// sameBytes holds null and empty apart.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func sameRecord(a, b *Record) error {
	switch {
	case a.Offset != b.Offset || a.Timestamp != b.Timestamp:
		return fmt.Errorf("offset and time %d, %d became %d, %d", a.Offset, a.Timestamp, b.Offset, b.Timestamp)
	case !sameBytes(a.Key, b.Key):
		return fmt.Errorf("key %#v became %#v", a.Key, b.Key)
	case !sameBytes(a.Value, b.Value):
		return fmt.Errorf("value %#v became %#v", a.Value, b.Value)
	case len(a.Headers) != len(b.Headers):
		return fmt.Errorf("%d headers became %d", len(a.Headers), len(b.Headers))
	}
	for i := range a.Headers {
		if !sameBytes(a.Headers[i].Key, b.Headers[i].Key) || !sameBytes(a.Headers[i].Value, b.Headers[i].Value) {
			return fmt.Errorf("header %#v became %#v", a.Headers[i], b.Headers[i])
		}
	}
	return nil
}

func sameRecords(it *RecordIterator, want []Record) error {
	n := 0
	for it.Next() {
		if n == len(want) {
			return fmt.Errorf("more than %d records", n)
		}
		if err := sameRecord(&want[n], it.Record()); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		n++
	}
	if it.Err() != nil {
		return it.Err()
	}
	if n != len(want) {
		return fmt.Errorf("%d records became %d", len(want), n)
	}
	return nil
}

func TestBatchRoundTrip(t *testing.T) {
	var builder BatchBuilder
	var it RecordIterator
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		builder.Reset(codec)
		for i := range records {
			bound := builder.BytesWith(&records[i])
			if err := builder.Append(&records[i]); err != nil {
				t.Fatal(err)
			}
			if builder.Bytes() > bound {
				t.Fatalf("%d bytes, BytesWith said at most %d", builder.Bytes(), bound)
			}
		}
		built, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		if len(built) > builder.Bytes() {
			t.Fatalf("compression made %d bytes of %d", len(built), builder.Bytes())
		}
		if err := ValidateHeader(built, len(built)); err != nil {
			t.Fatal(err)
		}
		if err := built.ValidateCRC(); err != nil {
			t.Fatal(err)
		}
		if err := built.ValidateRecords(); err != nil {
			t.Fatal(err)
		}
		batch, err := ParseBatch(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := it.Reset(batch, builder.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := sameRecords(&it, records); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBatchPatches(t *testing.T) {
	var builder BatchBuilder
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		builder.Reset(rapid.SampledFrom(allCodecs).Draw(t, "codec"))
		for i := range records {
			if err := builder.Append(&records[i]); err != nil {
				t.Fatal(err)
			}
		}
		b, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := b.RecordsCRC(), CRC(b.Records()); got != want {
			t.Fatalf("RecordsCRC %#08x, want %#08x", got, want)
		}
		b.SetBaseOffset(1<<40 + 3)
		b.SetLeaderEpoch(77)
		b.SetProducer(12, 3, 1<<31-1)
		if err := b.ValidateCRC(); err != nil {
			t.Fatal(err)
		}
		b.SetAppendTime(1_700_000_000_000)
		if err := b.ValidateCRC(); err != nil {
			t.Fatal(err)
		}
		if err := b.ValidateCRCParts(CRC(b.Records())); err != nil {
			t.Fatal(err)
		}
		if got, want := b.WholeCRC(), CRC(b); got != want {
			t.Fatalf("WholeCRC %#08x, want %#08x", got, want)
		}
		var it RecordIterator
		if err := it.Reset(b, 1<<20); err != nil {
			t.Fatal(err)
		}
		for i := range records {
			records[i].Offset += 1<<40 + 3
			records[i].Timestamp = 1_700_000_000_000
		}
		if err := sameRecords(&it, records); err != nil {
			t.Fatal(err)
		}
		if err := b.ValidateRecords(); err != nil {
			t.Fatal(err)
		}
		if b.LeaderEpoch() != 77 || b.ProducerID() != 12 || b.ProducerEpoch() != 3 {
			t.Fatal("a patched field does not read back")
		}
		if want := int32(len(records)) - 2; len(records) > 1 && b.LastSequence() != want {
			t.Fatalf("last sequence %d, want %d: it wraps to 0", b.LastSequence(), want)
		}
		if err := ValidateHeader(b, len(b)); !errors.Is(err, ErrInvalidTimestamp) {
			t.Fatalf("a producer's batch with append time: %v", err)
		}
	})
}
