package proto

import (
	"bytes"
	"fmt"
	"testing"
)

// benchmarkRecords are 1000 records of 256 bytes that compress about as well as JSON does.
func benchmarkRecords() []Record {
	records := make([]Record, 1000)
	for i := range records {
		value := fmt.Appendf(nil, `{"id":%d,"name":"customer %d","amount":%d.%02d,"note":"`, i*7919, i%97, i*13%1000, i%100)
		value = append(value, bytes.Repeat([]byte{byte('a' + i%26)}, 256-len(value)-2)...)
		records[i] = Record{Timestamp: vectorTime + int64(i), Key: fmt.Appendf(nil, "key-%d", i%100), Value: append(value, `"}`...)}
	}
	return records
}

func buildBatch(t testing.TB, codec Codec, records []Record) Batch {
	var b BatchBuilder
	b.Reset(codec)
	for i := range records {
		if err := b.Append(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// What a broker does with an uncompressed batch, and building and reading one again and again, allocates nothing.
func TestBatchesAllocateNothing(t *testing.T) {
	records := benchmarkRecords()
	records[3].Headers = []Header{{Key: []byte("h"), Value: []byte("v")}}
	batch := buildBatch(t, CodecNone, records)
	var builder BatchBuilder
	var it RecordIterator
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func(){
		"validate": func() {
			check(ValidateHeader(batch, len(batch)))
			check(batch.ValidateCRC())
			check(batch.ValidateRecords())
		},
		"patch": func() {
			batch.SetBaseOffset(5)
			batch.SetLeaderEpoch(6)
			batch.SetProducer(1, 2, 3)
			_ = batch.WholeCRC()
		},
		"iterate": func() {
			check(it.Reset(batch, 0))
			for it.Next() {
			}
			check(it.Err())
		},
		"build": func() {
			builder.Reset(CodecNone)
			for i := range records {
				check(builder.Append(&records[i]))
			}
			_, err := builder.Build()
			check(err)
		},
	} {
		f() // grows the buffers
		if n := testing.AllocsPerRun(10, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkBatchBuild(b *testing.B) {
	records := benchmarkRecords()
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			var builder BatchBuilder
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(codec)
				for i := range records {
					if err := builder.Append(&records[i]); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := builder.Build(); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(builder.Bytes()))
		})
	}
}

func BenchmarkBatchIterate(b *testing.B) {
	records := benchmarkRecords()
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			batch := buildBatch(b, codec, records)
			var it RecordIterator
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if err := it.Reset(batch, 1<<20); err != nil {
					b.Fatal(err)
				}
				for it.Next() {
					n += len(it.Record().Value)
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
			b.SetBytes(int64(len(buildBatch(b, CodecNone, records))))
		})
	}
}

func BenchmarkBatchValidate(b *testing.B) {
	batch := buildBatch(b, CodecNone, benchmarkRecords())
	b.Run("records", func(b *testing.B) {
		b.SetBytes(int64(len(batch)))
		for b.Loop() {
			if err := batch.ValidateRecords(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("checksum", func(b *testing.B) {
		b.SetBytes(int64(len(batch)))
		for b.Loop() {
			if err := batch.ValidateCRC(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("header", func(b *testing.B) {
		for b.Loop() {
			if err := ValidateHeader(batch, len(batch)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSetAppendTime(b *testing.B) {
	batch := buildBatch(b, CodecNone, benchmarkRecords())
	for b.Loop() {
		batch.SetAppendTime(vectorTime)
	}
}
