package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// logWriter makes the bytes of a segment file as the engine lays them out.
type logWriter struct {
	t      testing.TB
	header FileHeader
	bytes  []byte
	index  core.Index
	next   core.Offset
	term   core.Term
	gen    core.Generation
	now    int64
	built  proto.BatchBuilder
	places []framePlace // of the frames, marks included
}

type framePlace struct {
	position int64
	header   FrameHeader
	payload  []byte
}

func testHeader(number core.SegmentNumber, base core.Offset, index core.Index) FileHeader {
	return FileHeader{
		Kind: FileSegment, Incarnation: [16]byte{1, 2, 3}, Topic: core.TopicID{9, 8, 7}, Partition: 17, Number: 3,
		Segment: number, BaseOffset: base, BaseIndex: index, Salt: 0x1122334455667788 + uint64(number),
	}
}

func newLogWriter(t testing.TB, h FileHeader) *logWriter {
	w := &logWriter{t: t, header: h, index: h.BaseIndex - 1, next: h.BaseOffset, term: 1, gen: 1, now: 1e18}
	w.bytes = make([]byte, FileHeaderBytes)
	h.Put(w.bytes)
	return w
}

// write begins a segment write; frames appended inside run belong to it.
func (w *logWriter) write(durable core.Index, run func()) {
	w.mark(durable)
	run()
	w.pad()
}

// mark appends a write mark.
func (w *logWriter) mark(durable core.Index) {
	mark := WriteMark{Partition: w.header.Partition, Durable: durable, Next: w.next, Term: w.term, Generation: w.gen,
		Salt: w.header.Salt, Position: int64(len(w.bytes))}
	b := make([]byte, FrameHeaderBytes)
	mark.Put(b)
	h, _ := ParseFrameHeader(b)
	w.places = append(w.places, framePlace{int64(len(w.bytes)), h, nil})
	w.bytes = append(w.bytes, b...)
}

func (w *logWriter) pad() {
	w.bytes = append(w.bytes, make([]byte, alignUp(int64(len(w.bytes)))-int64(len(w.bytes)))...)
}

// frame appends a frame of any kind.
func (w *logWriter) frame(kind FrameKind, span uint32, payload []byte) {
	w.index++
	w.now += 1e9
	h := FrameHeader{Kind: kind, PayloadCRC: proto.CRC(payload), Partition: w.header.Partition, Index: w.index, Term: w.term,
		Generation: w.gen, BaseOffset: w.next, Span: span, Bytes: uint32(len(payload)), AppendTime: w.now}
	b := make([]byte, FrameHeaderBytes)
	h.Put(b)
	w.places = append(w.places, framePlace{int64(len(w.bytes)), h, payload})
	w.bytes = append(append(w.bytes, b...), payload...)
	w.next += core.Offset(span)
}

// batch makes a batch at the next offset plus what was taken already.
func (w *logWriter) batch(base core.Offset, codec proto.Codec, records ...proto.Record) proto.Batch {
	w.built.Reset(codec)
	for i := range records {
		if err := w.built.Append(&records[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	b, err := w.built.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	b = append(proto.Batch(nil), b...)
	b.SetBaseOffset(int64(base))
	b.SetLeaderEpoch(int32(w.term))
	return b
}

// records appends one data frame of one batch.
func (w *logWriter) records(records ...proto.Record) {
	w.frame(FrameData, uint32(len(records)), w.batch(w.next, proto.CodecNone, records...))
}

func record(timestamp int64, key, value string) proto.Record {
	return proto.Record{Timestamp: timestamp, Key: []byte(key), Value: []byte(value)}
}

// smallSegment has three writes of several frames, and preallocated zeros behind them.
func smallSegment(t testing.TB) *logWriter {
	w := newLogWriter(t, testHeader(4, 100, 50))
	w.write(49, func() {
		w.records(record(1000, "a", "one"), record(1005, "b", "two"))
		w.frame(FrameControl, 0, AppendLogStart(nil, 100))
		w.records(record(1002, "c", "three"))
	})
	w.write(52, func() {
		w.records(record(1100, "a", string(make([]byte, 5000))))
		w.records(record(1050, "d", "four"))
	})
	w.write(54, func() { w.records(record(1200, "e", "five"), record(1201, "f", "six"), record(1300, "a", "seven")) })
	w.bytes = append(w.bytes, make([]byte, 2*core.DiskAlignment)...)
	return w
}
