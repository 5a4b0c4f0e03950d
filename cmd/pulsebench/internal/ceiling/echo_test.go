package ceiling

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// answers decodes what the echo has sent.
func answers(t *testing.T, b []byte) (ids []uint64) {
	t.Helper()
	for len(b) > 0 {
		h, ok, err := proto.DecodeFrameHeader(b, echoFrameBytesMax)
		if err != nil || !ok || !h.Answer {
			t.Fatalf("%+v, %v, %v", h, ok, err)
		}
		ids = append(ids, h.RequestID)
		b = b[h.FrameBytes():]
	}
	return ids
}

// However the network cuts the bytes, each request is answered once, as soon as it is whole.
func TestEchoAnswersHoweverBytesArrive(t *testing.T) {
	var stream []byte
	var ends []int
	for i, m := range []proto.Message{
		&proto.ProduceRequest{Acks: proto.AcksDurable, Batch: make([]byte, 300)},
		&proto.PingRequest{Opaque: 7},
		&proto.ProduceRequest{Acks: proto.AcksDurable, Batch: make([]byte, 1)},
		&proto.ProduceRequest{Acks: proto.AcksDurable, Batch: make([]byte, 5000)},
	} {
		stream = proto.AppendFrame(stream, uint64(i+1), m)
		ends = append(ends, len(stream))
	}
	for _, piece := range []int{1, 2, 7, 64, len(stream)} {
		c := &echoConn{echo: &Echo{partitions: 1}}
		for at := 0; at < len(stream); at += piece {
			upTo := min(at+piece, len(stream))
			if err := c.take(stream[at:upTo]); err != nil {
				t.Fatal(err)
			}
			whole := 0
			for _, end := range ends {
				if end <= upTo {
					whole++
				}
			}
			if ids := answers(t, c.out); len(ids) != whole {
				t.Fatalf("pieces of %d: %d answers after %d bytes, want %d", piece, len(ids), upTo, whole)
			}
		}
		for i, id := range answers(t, c.out) {
			if id != uint64(i+1) {
				t.Errorf("answer %d is to request %d", i, id)
			}
		}
	}
	c := &echoConn{echo: &Echo{partitions: 1}}
	if err := c.take(bytes.Repeat([]byte{0xff}, proto.FrameHeaderBytes)); err == nil {
		t.Error("a frame of 4 GiB is read")
	}
}

// The load of produce runs against it as against a broker.
func TestEchoServesTheLoad(t *testing.T) {
	e, err := StartEcho(EchoSpec{Address: "127.0.0.1:0", Loops: 1, Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic, err := load.OpenTopic(ctx, e.Address(), "test", load.TopicSpec{Name: "any", Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	template, err := payload.NewTemplate(payload.Spec{Records: 100, RecordBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	sending, err := load.OpenSending(ctx, load.SendingSpec{Topic: topic, Version: "test", Template: template, Connections: 2, InFlight: 4,
		Ledger: ledger.New(ledger.Shape{Producers: 2, Partitions: 3, RecordsPerMark: 100}), Acks: proto.AcksDurable, Records: 5000, Clock: load.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer sending.Close()
	if err := sending.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if sum := load.Merge(sending.Tallies()); sum.Records.Load() != 5000 || sum.Errors.Load() != 0 {
		t.Errorf("%d records, %d refused", sum.Records.Load(), sum.Errors.Load())
	}
}

func TestEchoAllocatesNothingForBatches(t *testing.T) {
	c := &echoConn{echo: &Echo{partitions: 1}, out: make([]byte, 0, 1<<10)}
	frame := proto.AppendFrame(nil, 9, &proto.ProduceRequest{Acks: proto.AcksDurable, Batch: make([]byte, 300)})
	if n := testing.AllocsPerRun(100, func() {
		c.out = c.out[:0]
		if err := c.take(frame); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a reader finds is a log like any other: every offset once, in order, every checksum right.
func TestEchoShowsALogToReaders(t *testing.T) {
	e, err := StartEcho(EchoSpec{Address: "127.0.0.1:0", Loops: 1, Partitions: 3, Records: 4500}) // five batches each
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic, err := load.OpenTopic(ctx, e.Address(), "test", load.TopicSpec{Name: "any"})
	if err != nil {
		t.Fatal(err)
	}
	to, err := topic.Offsets(ctx, "test", proto.OffsetKindLatest)
	if err != nil || to[2] != 5000 {
		t.Fatalf("the logs end at %v, %v", to, err)
	}
	account := ledger.NewSurvey()
	// Two batches fit into an answer, so that the last answer of each partition holds one.
	reading, err := load.OpenReading(ctx, load.ReadingSpec{Topic: topic, Version: "test", Connections: 2, InFlight: 3, Bytes: 700_000,
		From: make([]int64, 3), To: to, Account: account, Clock: load.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	if err := reading.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if tally := reading.Tally(); tally.Records.Load() != 15_000 || tally.Requests != 9 || !account.Verdict().Clean() || reading.Foreign() != 0 {
		t.Errorf("%d records with %d requests, %v, %d foreign", tally.Records.Load(), tally.Requests, account.Verdict(), reading.Foreign())
	}
}
