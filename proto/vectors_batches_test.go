package proto

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Every batch is read and holds the listed records; uncompressed ones are built again byte for byte.
func TestVectorBatches(t *testing.T) {
	for _, file := range []string{"batches.json", "batches_foreign.json"} {
		var f batchFile
		readVectors(t, file, &f)
		if file == "batches.json" {
			addBatchVectors(t, &f)
		}
		codecs := map[string]bool{}
		for _, v := range f.Batches {
			codecs[v.Fields.Codec] = true
			t.Run(strings.TrimSuffix(file, ".json")+"/"+v.Name, func(t *testing.T) { checkBatchVector(t, &v) })
		}
		for _, c := range allCodecs {
			if !codecs[c.String()] {
				t.Errorf("%s: no batch with codec %s", file, c)
			}
		}
	}
}

func addBatchVectors(t *testing.T, f *batchFile) {
	f.Doc = "Record batches made by this package. Decoders read them; encoders make the same bytes for codec none. " + vectorDoc
	have := map[string]bool{}
	for _, v := range f.Batches {
		have[v.Name] = true
	}
	added := false
	for _, c := range batchCases() {
		switch {
		case have[c.name]:
		case *vectorsAdd:
			f.Batches = append(f.Batches, batchVectorOf(t, c))
			added = true
		default:
			t.Errorf("batches.json: %q is missing; add it with -vectors.add", c.name)
		}
	}
	if added {
		writeVectors(t, "batches.json", f)
	}
}

func batchVectorOf(t *testing.T, c batchCase) batchVector {
	b := c.batch(t)
	v := batchVector{Name: c.name, Doc: c.doc, Batch: hex.EncodeToString(b), Fields: batchFieldsOf(b)}
	plain := decompressed(t, b)
	v.RecordsCRC, v.RecordsBytes = fmt.Sprintf("%08x", CRC(plain)), len(plain)
	if len(plain) < 60_000 {
		v.Records = recordVectorsOf(t, b)
	}
	return v
}

func batchFieldsOf(b Batch) batchFields {
	kind := "create"
	if b.TimestampType() == TimestampAppend {
		kind = "append"
	}
	return batchFields{BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), Codec: b.Codec().String(), TimestampType: kind,
		LastOffsetDelta: b.LastOffsetDelta(), BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), Count: b.Count()}
}

func decompressed(t *testing.T, b Batch) []byte {
	t.Helper()
	plain, err := Decompress(nil, b.Codec(), b.Records(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func recordVectorsOf(t *testing.T, b Batch) []recordVector {
	t.Helper()
	nullable := func(b []byte) *string {
		if b == nil {
			return nil
		}
		s := hex.EncodeToString(b)
		return &s
	}
	var it RecordIterator
	if err := it.Reset(b, 1<<20); err != nil {
		t.Fatal(err)
	}
	l := []recordVector{}
	for it.Next() {
		r := it.Record()
		v := recordVector{Offset: r.Offset, Timestamp: r.Timestamp, Key: nullable(r.Key), Value: nullable(r.Value), Headers: []headerVector{}}
		for _, h := range r.Headers {
			v.Headers = append(v.Headers, headerVector{Key: hex.EncodeToString(h.Key), Value: nullable(h.Value)})
		}
		l = append(l, v)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return l
}

func checkBatchVector(t *testing.T, v *batchVector) {
	b, err := ParseBatch(unhex(t, v.Batch))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateCRC(); err != nil {
		t.Fatal(err)
	}
	if got := batchFieldsOf(b); got != v.Fields {
		t.Errorf("fields %+v, want %+v", got, v.Fields)
	}
	plain := decompressed(t, b)
	if err := b.ValidateDecompressed(plain); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprintf("%08x", CRC(plain)); got != v.RecordsCRC || len(plain) != v.RecordsBytes {
		t.Errorf("%d record bytes with checksum %s, want %d with %s", len(plain), got, v.RecordsBytes, v.RecordsCRC)
	}
	if v.Records != nil {
		if got := recordVectorsOf(t, b); !reflect.DeepEqual(got, v.Records) {
			t.Errorf("records %+v, want %+v", got, v.Records)
		}
	}
	// From the records alone the same record area, and uncompressed the same batch.
	again := rebuild(t, b)
	if !bytes.Equal(again.Records(), plain) {
		t.Errorf("the records are built as\n%x, want\n%x", again.Records(), plain)
	}
	if b.Codec() == CodecNone && !bytes.Equal(again, b) {
		t.Errorf("the batch is built as\n%x, want\n%x", again, b)
	}
}

// rebuild builds a batch from the records of another one, uncompressed.
func rebuild(t *testing.T, b Batch) Batch {
	var it RecordIterator
	var builder BatchBuilder
	plain := append(append(Batch(nil), b[:BatchHeaderBytes]...), decompressed(t, b)...)
	plain[batchAttributesAt+1] &^= attributeCodecMask | attributeAppendTime // the records' own times
	if err := it.Reset(plain, 0); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		if err := builder.Append(it.Record()); err != nil {
			t.Fatal(err)
		}
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	again, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	again.SetBaseOffset(b.BaseOffset())
	again.SetLeaderEpoch(b.LeaderEpoch())
	again.SetProducer(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if b.TimestampType() == TimestampAppend {
		again.SetAppendTime(b.MaxTimestamp())
	}
	return again
}
