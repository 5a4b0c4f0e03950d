package payload

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

var codecs = []proto.Codec{proto.CodecNone, proto.CodecGzip, proto.CodecSnappy, proto.CodecLZ4, proto.CodecZstd}

func build(t *testing.T, spec Spec) *Template {
	t.Helper()
	template, err := NewTemplate(spec)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func batchOf(t *testing.T, template *Template, mark Mark, ms int64) proto.Batch {
	t.Helper()
	b := template.AppendHead(nil, mark, ms)
	if len(b) != template.HeadBytes() {
		t.Fatalf("the head has %d bytes, HeadBytes says %d", len(b), template.HeadBytes())
	}
	batch, err := proto.ParseBatch(append(b, template.Tail()...))
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// A patched batch must be one that any broker and any consumer takes: checksum, header and every record, with each
// codec, below and above the size from which checksums are combined.
func TestPatchedBatchIsValid(t *testing.T) {
	for _, codec := range codecs {
		for _, shape := range []struct{ records, bytes int }{{1, MarkBytes}, {1, 256}, {1, 100_000}, {10, 64}, {1000, 256}, {5000, 41}} {
			template := build(t, Spec{Run: 77, Records: shape.records, RecordBytes: shape.bytes, Codec: codec})
			if shape.records >= 10 && template.Codec() != codec {
				t.Errorf("%v: %d records were not compressed", codec, shape.records)
			}
			for counter := range uint64(3) {
				want := Mark{Records: uint32(shape.records), Run: 77, Producer: 9, Counter: counter, Sent: int64(counter) * 1e9}
				const ms = 1_700_000_000_123
				batch := batchOf(t, template, want, ms)
				if err := proto.ValidateHeader(batch, len(batch)); err != nil {
					t.Fatalf("%v %v: %v", codec, shape, err)
				}
				if err := batch.ValidateCRC(); err != nil {
					t.Fatalf("%v %v: %v", codec, shape, err)
				}
				plain, err := proto.Decompress(nil, batch.Codec(), batch.Records(), 1<<30)
				if err != nil {
					t.Fatalf("%v %v: %v", codec, shape, err)
				}
				if err := batch.ValidateDecompressed(plain); err != nil {
					t.Fatalf("%v %v: %v", codec, shape, err)
				}
				if got, ok := template.Match(batch); !ok || got != want {
					t.Fatalf("%v %v: matched %+v, %v; want %+v", codec, shape, got, ok, want)
				}
				var it proto.RecordIterator
				index := uint32(0)
				for _ = it.Reset(batch, 1<<30); it.Next(); index++ {
					record := it.Record()
					mark, ok := ReadMark(record.Value)
					if !ok || mark.Index != index || mark.Run != 77 || record.Timestamp != ms || len(record.Value) != shape.bytes {
						t.Fatalf("%v %v: record %d is %+v, %v, of %d bytes at %d", codec, shape, index, mark, ok, len(record.Value), record.Timestamp)
					}
					if index == 0 && mark != want {
						t.Fatalf("%v %v: the mark is %+v, want %+v", codec, shape, mark, want)
					}
				}
				if it.Err() != nil || int(index) != shape.records {
					t.Fatalf("%v %v: %d records, %v", codec, shape, index, it.Err())
				}
			}
		}
	}
}

// Not one byte of the records may differ without being seen.
func TestMatchSeesEveryByte(t *testing.T) {
	for _, codec := range codecs {
		template := build(t, Spec{Run: 5, Records: 20, RecordBytes: 100, Codec: codec})
		batch := batchOf(t, template, Mark{Counter: 3}, 1)
		for i := proto.BatchHeaderBytes; i < len(batch); i++ {
			batch[i] ^= 0x10
			if _, ok := template.Match(batch); ok {
				t.Errorf("%v: a change of byte %d is not seen", codec, i)
			}
			batch[i] ^= 0x10
		}
		batch.SetBaseOffset(1234)
		batch.SetLeaderEpoch(4)
		batch.SetAppendTime(99)
		if _, ok := template.Match(batch); !ok {
			t.Errorf("%v: what a broker sets is taken for damage", codec)
		}
	}
}

func TestIncompressibleStaysUncompressed(t *testing.T) {
	template := build(t, Spec{Run: 1, Records: 1, RecordBytes: MarkBytes, Codec: proto.CodecGzip})
	if template.Codec() != proto.CodecNone {
		t.Errorf("a batch that compression makes larger has codec %v", template.Codec())
	}
}

func TestRecordsWithoutRoomForAMarkAreRefused(t *testing.T) {
	if _, err := NewTemplate(Spec{Records: 1, RecordBytes: MarkBytes - 1}); err == nil {
		t.Error("a record that cannot carry a mark was taken")
	}
}

func TestFillerIsTheSameInEveryRun(t *testing.T) {
	if !bytes.Equal(NewValue(300, 7), NewValue(300, 7)) || bytes.Equal(NewValue(300, 7), NewValue(300, 8)) {
		t.Error("the filler depends on something else than the record's index")
	}
}

func TestHeadAllocatesNothing(t *testing.T) {
	for _, codec := range codecs {
		template := build(t, Spec{Run: 1, Records: 100, RecordBytes: 256, Codec: codec})
		buffer := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() { buffer = template.AppendHead(buffer[:0], Mark{Counter: 1}, 1) }); n > 0 {
			t.Errorf("%v: AppendHead allocates %v times", codec, n)
		}
		batch := batchOf(t, template, Mark{}, 1)
		if n := testing.AllocsPerRun(100, func() { template.Match(batch) }); n > 0 {
			t.Errorf("%v: Match allocates %v times", codec, n)
		}
	}
}

func BenchmarkAppendHead(b *testing.B) {
	for _, shape := range []struct {
		name           string
		records, bytes int
	}{{"1x256", 1, 256}, {"14x256", 14, 256}, {"1000x256", 1000, 256}} {
		b.Run(shape.name, func(b *testing.B) {
			template, err := NewTemplate(Spec{Records: shape.records, RecordBytes: shape.bytes})
			if err != nil {
				b.Fatal(err)
			}
			buffer := make([]byte, 0, 4096)
			for b.Loop() {
				buffer = template.AppendHead(buffer[:0], Mark{Counter: 1}, 1)
			}
		})
	}
}
