package proto

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestBatchFilter(t *testing.T) {
	var f BatchFilter
	var it RecordIterator
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		var builder BatchBuilder
		builder.Reset(rapid.SampledFrom(allCodecs).Draw(t, "codec"))
		for i := range records {
			if err := builder.Append(&records[i]); err != nil {
				t.Fatal(err)
			}
		}
		batch, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		batch.SetBaseOffset(500)
		batch.SetLeaderEpoch(7)
		batch.SetProducer(3, 1, 90)
		appendTime := rapid.Bool().Draw(t, "append time")
		if appendTime {
			batch.SetAppendTime(1 << 40)
		}
		whole := bytes.Clone(batch)
		wanted := make([]bool, len(records))
		var left []Record
		latest := int64(0)
		for i := range records {
			wanted[i] = rapid.Bool().Draw(t, "keep")
			if r := records[i]; wanted[i] {
				r.Offset = 500 + int64(i)
				if appendTime {
					r.Timestamp = 1 << 40
				}
				latest = max(latest, r.Timestamp)
				left = append(left, r)
			}
		}
		out, count, err := f.Append([]byte("before"), batch, 1<<24, func(r *Record) bool { return wanted[r.Offset-500] })
		if err != nil || count != len(left) || !bytes.HasPrefix(out, []byte("before")) {
			t.Fatal(count, err)
		}
		got, err := ParseBatch(out[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if err := got.ValidateCRC(); err != nil {
			t.Fatal(err)
		}
		if count == len(records) && !bytes.Equal(got, whole) {
			t.Fatal("a batch that loses nothing changed")
		}
		if got.BaseOffset() != 500 || got.LeaderEpoch() != 7 || got.NextOffset() != 500+int64(len(records)) ||
			got.ProducerID() != 3 || got.LastSequence() != batch.LastSequence() || int(got.Count()) != count {
			t.Fatalf("header changed: %v", got[:BatchHeaderBytes])
		}
		if count > 0 && got.MaxTimestamp() != latest {
			t.Fatalf("max timestamp %d, want %d", got.MaxTimestamp(), latest)
		}
		if err := it.Reset(got, 1<<24); err != nil {
			t.Fatal(err)
		}
		if err := sameRecords(&it, left); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(batch, whole) {
			t.Fatal("the source changed")
		}
	})
}

func TestBatchFilterRefusesWhatItCannotRead(t *testing.T) {
	var f BatchFilter
	var builder BatchBuilder
	builder.Reset(CodecGzip)
	if err := builder.Append(&Record{Timestamp: 1, Value: make([]byte, 10_000)}); err != nil {
		t.Fatal(err)
	}
	batch, _ := builder.Build()
	none := func(*Record) bool { return false }
	if out, _, err := f.Append(nil, batch, 5000, none); err == nil || len(out) != 0 {
		t.Fatal("a bomb was opened")
	}
	batch[len(batch)-9] ^= 0xff
	if out, _, err := f.Append(nil, batch, 50_000, none); err == nil || len(out) != 0 {
		t.Fatal("damage was not seen")
	}
}

func FuzzBatchFilter(f *testing.F) {
	for _, codec := range allCodecs {
		var builder BatchBuilder
		builder.Reset(codec)
		for i := range 3 {
			if err := builder.Append(&Record{Timestamp: int64(i), Key: []byte("key"), Value: bytes.Repeat([]byte("v"), 50)}); err != nil {
				f.Fatal(err)
			}
		}
		batch, err := builder.Build()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(batch))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := ParseBatch(b)
		if err != nil {
			return
		}
		var filter BatchFilter
		odd := false
		out, count, err := filter.Append(nil, batch, 1<<20, func(*Record) bool { odd = !odd; return odd })
		if err != nil {
			if len(out) != 0 {
				t.Fatal("bytes beside an error")
			}
			return
		}
		got, err := ParseBatch(out)
		if err != nil || int(got.Count()) != count {
			t.Fatal(err, count)
		}
		var it RecordIterator
		for _ = it.Reset(got, 1<<20); it.Next(); {
			count--
		}
		if it.Err() != nil || count != 0 {
			t.Fatal(it.Err(), count)
		}
	})
}
