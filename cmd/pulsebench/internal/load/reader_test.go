package load

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// written makes n batches of a template as a broker would store them, and acknowledges each.
func written(t *testing.T, template *payload.Template, l *ledger.Ledger, n int) []proto.Batch {
	t.Helper()
	var log []proto.Batch
	next := int64(0)
	for range n {
		counter := l.Stream(0).Send()
		l.Stream(0).Ack(counter, ledger.Place{BaseOffset: next})
		b := template.AppendHead(nil, payload.Mark{Counter: counter, Sent: 1000}, 1)
		batch, err := proto.ParseBatch(append(b, template.Tail()...))
		if err != nil {
			t.Fatal(err)
		}
		batch.SetBaseOffset(next)
		next = batch.NextOffset()
		log = append(log, batch)
	}
	return log
}

func newReaderRun(t *testing.T, codec proto.Codec) (*Reader, *ledger.Ledger, []proto.Batch) {
	t.Helper()
	template, err := payload.NewTemplate(payload.Spec{Run: 3, Records: 10, RecordBytes: 100, Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(ledger.Shape{Run: 3, Producers: 1, Partitions: 1, RecordsPerMark: 10})
	return &Reader{Account: l, Template: template, Latency: NewLatency()}, l, written(t, template, l, 6)
}

func TestReaderFindsWhatIsWrong(t *testing.T) {
	flip := func(batch proto.Batch, at int) proto.Batch {
		batch = bytes.Clone(batch)
		batch[at] ^= 1
		return batch
	}
	for _, codec := range []proto.Codec{proto.CodecNone, proto.CodecZstd} {
		for _, c := range []struct {
			name  string
			spoil func([]proto.Batch) []proto.Batch
			want  ledger.Verdict
		}{
			{"nothing", func(log []proto.Batch) []proto.Batch { return log }, ledger.Verdict{}},
			{"a batch is missing", func(log []proto.Batch) []proto.Batch { return append(log[:2:2], log[3:]...) }, ledger.Verdict{Lost: 10, Holes: 10}},
			{"a batch is there twice", func(log []proto.Batch) []proto.Batch {
				again := bytes.Clone(log[1])
				proto.Batch(again).SetBaseOffset(60)
				return append(log[:6:6], again)
			}, ledger.Verdict{Duplicated: 10}},
			{"a byte in the middle differs", func(log []proto.Batch) []proto.Batch {
				log[4] = flip(log[4], len(log[4])/2)
				return log
			}, ledger.Verdict{Lost: 10, Damaged: 1}},
			{"a byte in the mark differs", func(log []proto.Batch) []proto.Batch {
				log[4] = flip(log[4], proto.BatchHeaderBytes+40)
				return log
			}, ledger.Verdict{Lost: 10, Damaged: 1}},
		} {
			r, l, log := newReaderRun(t, codec)
			cursor := &Cursor{}
			records, _, err := r.Read(cursor, bytes.Join(slicesOf(c.spoil(log)), nil), 5000)
			if err != nil {
				t.Fatal(err)
			}
			got := l.Verdict()
			if got != c.want {
				t.Errorf("%v, %s: the verdict is %+v, want %+v", codec, c.name, got, c.want)
			}
			if c.want.Clean() && (records != 60 || r.Latency.TotalCount() != 6 || r.Latency.Max() != 4) {
				t.Errorf("%v: %d records, %d times up to %d µs", codec, records, r.Latency.TotalCount(), r.Latency.Max())
			}
		}
	}
}

func slicesOf(log []proto.Batch) (all [][]byte) {
	for _, batch := range log {
		all = append(all, batch)
	}
	return all
}

// A reading may begin inside a batch: what lies before it was not asked for.
func TestReaderBeginsInsideABatch(t *testing.T) {
	r, _, log := newReaderRun(t, proto.CodecNone)
	cursor := &Cursor{Next: 13}
	records, batches, err := r.Read(cursor, bytes.Join(slicesOf(log), nil), 0)
	if err != nil || records != 47 || batches != 5 || cursor.Next != 60 {
		t.Errorf("%d records in %d batches up to %d, %v", records, batches, cursor.Next, err)
	}
}

// Records with a mark each, as the Go client sends them, beside some of somebody else.
func TestReaderKnowsRecordsOneByOne(t *testing.T) {
	l := ledger.New(ledger.Shape{Run: 3, Producers: 1, Partitions: 1, RecordsPerMark: 1})
	value := payload.NewValue(80, 0)
	r := &Reader{Account: l, Filler: bytes.Clone(value[payload.MarkBytes:])}
	var builder proto.BatchBuilder
	for i := range 5 {
		counter := l.Stream(0).Send()
		l.Stream(0).Ack(counter, ledger.Place{BaseOffset: int64(2 * i)})
		mark := payload.Mark{Records: 1, Run: 3, Counter: counter}
		mark.Put(value)
		if i == 4 {
			value[70] ^= 1
		}
		builder.Append(&proto.Record{Value: value})
		builder.Append(&proto.Record{Value: []byte("somebody else's")})
	}
	batch, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Read(&Cursor{}, batch, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := l.Verdict(), (ledger.Verdict{Damaged: 1}); got != want || r.Foreign != 5 {
		t.Errorf("the verdict is %+v, want %+v; %d records of others, want 5", got, want, r.Foreign)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for _, codec := range []proto.Codec{proto.CodecNone, proto.CodecLZ4} {
		r, _, log := newReaderRun(t, codec)
		answer := bytes.Join(slicesOf(log), nil)
		cursor := &Cursor{}
		if n := testing.AllocsPerRun(100, func() {
			cursor.Next = 0
			if _, _, err := r.Read(cursor, answer, 5000); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: an answer costs %v allocations", codec, n)
		}
	}
}
