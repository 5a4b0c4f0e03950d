package load

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// bench is a sender whose broker is the test itself: what it writes goes nowhere and is looked at through the sender,
// what it is answered is put in by hand. Its clock stands still until the test moves it.
type bench struct {
	*Sender
	now    int64
	ledger *ledger.Ledger
	far    net.Conn
}

func newBench(t *testing.T, inFlight int, rate float64) *bench {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	go helloThenSilence(far)
	l, err := link.Open(context.Background(), near, "test")
	if err != nil {
		t.Fatal(err)
	}
	template, err := payload.NewTemplate(payload.Spec{Run: 1, Records: 10, RecordBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{far: far, ledger: ledger.New(ledger.Shape{Run: 1, Producers: 1, Partitions: 2, RecordsPerMark: 10})}
	b.Sender = NewSender(SenderSpec{
		Connection: Connection{Link: l, Share: Share{Partitions: []Partition{{Number: 0}, {Number: 1}}}, Clock: func() int64 { return b.now }},
		Template:   template,
		Stream:     b.ledger.Stream(0),
		Acks:       proto.AcksDurable,
		InFlight:   inFlight,
		Schedule:   Pace{Duration: time.Second, Rate: rate, Records: 10, Connections: 1}.Schedule(0),
	})
	b.later = func(time.Duration, func()) {} // the test sends when it has moved the clock
	return b
}

// helloThenSilence shakes hands and reads what comes after it without a word.
func helloThenSilence(conn net.Conn) {
	header := make([]byte, proto.FrameHeaderBytes)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	h, _, _ := proto.DecodeFrameHeader(header, 1<<20)
	io.CopyN(io.Discard, conn, int64(h.PayloadBytes()))
	answer := proto.HelloResponse{Magic: proto.Magic, WindowBytes: 1 << 30, WindowRequests: 1 << 20, Limits: proto.Limits{FrameBytesMax: 1 << 24}}
	for _, c := range proto.Commands() {
		answer.Commands = append(answer.Commands, proto.CommandRange{Command: c.Command, VersionMin: c.VersionMin, VersionMax: c.VersionMax})
	}
	conn.Write(proto.AppendFrame(nil, h.RequestID, &answer))
	io.Copy(io.Discard, conn)
}

// sendDue sends what is due now.
func (b *bench) sendDue(t testing.TB) {
	t.Helper()
	if err := b.send(b.now); err != nil {
		t.Fatal(err)
	}
}

// answerAll answers every request that waits, at the time it is now.
func (b *bench) answerAll(t testing.TB) (answered int) {
	t.Helper()
	for i := range b.slots {
		if b.slots[i].used {
			b.answerSlot(t, i, &proto.ProduceResponse{BaseOffset: int64(b.slots[i].counter) * 10, Durability: proto.DurabilitySync})
			answered++
		}
	}
	return answered
}

func (b *bench) answerSlot(t testing.TB, i int, m proto.Message) {
	t.Helper()
	frame := proto.AppendFrame(nil, (b.slots[i].counter+1)<<slotBits|uint64(i), m)
	h, _, err := proto.DecodeFrameHeader(frame, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.handle(&link.Frame{FrameHeader: h, Payload: frame[proto.FrameHeaderBytes:]}, b.now); err != nil {
		t.Fatal(err)
	}
}

// A broker that stalls for half a second must be seen in the time of every request that was due meanwhile, although
// only one was sent: that is what measuring from the due time is for.
func TestStallCountsForEveryRequestDue(t *testing.T) {
	const ms = int64(time.Millisecond)
	b := newBench(t, 1, 1000) // 100 batches of 10 a second: one every 10 ms
	b.sendDue(t)
	b.now = 500 * ms
	for b.answerAll(t) > 0 {
		b.sendDue(t)
	}
	h := b.tally.Latency
	if got := h.TotalCount(); got != 51 {
		t.Fatalf("%d requests are measured, due were 51", got)
	}
	// They were due at 0, 10, ... 500 ms, and all were answered at 500 ms.
	for _, c := range []struct {
		percentile float64
		want       int64
	}{{50, 250}, {90, 450}, {100, 500}} {
		got := h.ValueAtPercentile(c.percentile) / 1000
		if got < c.want-10 || got > c.want+10 {
			t.Errorf("p%v is %d ms, it is %d ms when measured from the due time", c.percentile, got, c.want)
		}
	}
}

// What could not be sent at all before the end has waited too.
func TestWhatWasNeverSentCounts(t *testing.T) {
	b := newBench(t, 1, 1000)
	b.sendDue(t)
	b.now = int64(2 * time.Second) // the schedule ended after one
	if b.answerAll(t) != 1 {
		t.Fatal("one request was in flight")
	}
	b.sendDue(t)
	b.finish()
	if b.inFlight != 0 {
		t.Error("a request was sent after the end")
	}
	if got := b.tally.Unsent; got != 99 {
		t.Errorf("%d requests are counted as not sent, want 99", got)
	}
	if got := b.tally.Latency.TotalCount(); got != 100 {
		t.Errorf("%d requests are measured, due were 100", got)
	}
	if got := b.tally.Latency.Min() / 1000; got < 1000 {
		t.Errorf("the shortest time is %d ms; the last request was due a second before the end of the test", got)
	}
}

func TestFlatOutKeepsAsMuchInFlightAsAllowed(t *testing.T) {
	b := newBench(t, 7, 0)
	for range 3 {
		b.sendDue(t)
		if b.inFlight != 7 {
			t.Fatalf("%d requests are in flight, want 7", b.inFlight)
		}
		b.now += 1000
		b.answerAll(t)
	}
	if got := b.tally.Records.Load(); got != 210 {
		t.Errorf("%d records are acknowledged, want 210", got)
	}
	b.now = int64(time.Second)
	b.sendDue(t)
	if b.inFlight != 0 || !b.finished(b.now) {
		t.Error("it goes on after its end")
	}
}

// A refusal that may go away costs a pause and the batch; its counter is never used again.
func TestRefusedBatchIsReplaced(t *testing.T) {
	b := newBench(t, 1, 0)
	b.spec.Budget = NewBudget(2)
	b.sendDue(t)
	b.answerSlot(t, 0, &proto.Error{Code: proto.CodeOverloaded, WaitMs: 20})
	b.sendDue(t)
	if b.inFlight != 0 {
		t.Fatal("it did not pause")
	}
	for range 2 {
		b.now += int64(30 * time.Millisecond)
		b.sendDue(t)
		b.answerAll(t)
	}
	b.sendDue(t)
	if !b.finished(b.now) || b.tally.Records.Load() != 20 || b.tally.ByCode[proto.CodeOverloaded] != 1 {
		t.Errorf("finished %v with %d records and refusals %v; want 20 records and one refusal", b.finished(b.now), b.tally.Records.Load(), b.tally.ByCode)
	}
	for _, counter := range []uint64{1, 2} {
		b.ledger.Find(payload.Mark{Run: 1, Counter: counter}, ledger.Place{Partition: uint32(counter % 2), BaseOffset: int64(counter) * 10})
	}
	if v := b.ledger.Verdict(); !v.Clean() {
		t.Errorf("without the refused batch the log is %v", v)
	}
}

// A broker that refuses everything must not keep a run that waits for its records for ever.
func TestNothingButRefusalsEndsTheRun(t *testing.T) {
	b := newBench(t, 1, 0)
	b.spec.Schedule = NewPace(0, 0, 0, 10, 1).Schedule(0)
	for range 3 {
		b.sendDue(t)
		b.answerSlot(t, 0, &proto.Error{Code: proto.CodeOverloaded})
		b.now += int64(10 * time.Second)
	}
	b.sendDue(t)
	b.now++
	frame := proto.AppendFrame(nil, (b.slots[0].counter+1)<<slotBits, &proto.Error{Code: proto.CodeOverloaded})
	h, _, _ := proto.DecodeFrameHeader(frame, 1<<20)
	if err := b.handle(&link.Frame{FrameHeader: h, Payload: frame[proto.FrameHeaderBytes:]}, b.now); !errors.Is(err, proto.ErrOverloaded) {
		t.Errorf("after %v of refusals the run goes on: %v", silenceMax, err)
	}
}

func TestRefusalThatStaysEndsTheRun(t *testing.T) {
	b := newBench(t, 1, 0)
	b.sendDue(t)
	frame := proto.AppendFrame(nil, 1<<slotBits, &proto.Error{Code: proto.CodeBatchTooLarge, Text: "no"})
	h, _, _ := proto.DecodeFrameHeader(frame, 1<<20)
	err := b.handle(&link.Frame{FrameHeader: h, Payload: frame[proto.FrameHeaderBytes:]}, 0)
	if code, _ := proto.CodeOf(err); code != proto.CodeBatchTooLarge {
		t.Errorf("the run goes on with %v", err)
	}
}

// The window is the broker's: a request that does not fit waits for an answer, or goes alone.
func TestWindowIsHonoured(t *testing.T) {
	b := newBench(t, 100, 0)
	b.push(t, proto.ServerIDBit|1, &proto.CreditPush{WindowBytes: uint64(3*b.payload + 1), WindowRequests: 50})
	b.sendDue(t)
	if b.inFlight != 3 {
		t.Errorf("%d requests are in flight, the window has room for 3", b.inFlight)
	}
	b.answerAll(t)
	b.push(t, proto.ServerIDBit|2, &proto.CreditPush{WindowBytes: 1, WindowRequests: 50})
	b.sendDue(t)
	if b.inFlight != 1 {
		t.Errorf("%d requests are in flight; one that is larger than the window goes alone", b.inFlight)
	}
}

// push sends a frame to the sender, which reads it.
func (b *bench) push(t *testing.T, id uint64, m proto.Message) {
	t.Helper()
	go b.far.Write(proto.AppendFrame(nil, id, m))
	for read := false; !read; {
		if err := b.spec.Link.Fill(); err != nil {
			t.Fatal(err)
		}
		_, another, err := b.spec.Link.Next()
		if err != nil || another {
			t.Fatalf("a push is handed out: %v, %v", another, err)
		}
		read = b.spec.Link.Buffered() == 0
	}
}

func TestRequestAllocatesNothing(t *testing.T) {
	for _, records := range []int{1, 1000} {
		b := newBench(t, 1, 0)
		template, err := payload.NewTemplate(payload.Spec{Run: 1, Records: records, RecordBytes: 256})
		if err != nil {
			t.Fatal(err)
		}
		b.spec.Template, b.payload = template, b.request.HeadSize()+template.BatchBytes()
		answer := &proto.ProduceResponse{Durability: proto.DurabilitySync}
		frame := make([]byte, 0, 256)
		step := func() {
			if err := b.send(b.now); err != nil {
				t.Fatal(err)
			}
			b.now += 1000
			frame = proto.AppendFrame(frame[:0], (b.slots[0].counter+1)<<slotBits, answer)
			h, _, _ := proto.DecodeFrameHeader(frame, 1<<20)
			if err := b.handle(&link.Frame{FrameHeader: h, Payload: frame[proto.FrameHeaderBytes:]}, b.now); err != nil {
				t.Fatal(err)
			}
		}
		for range 2000 {
			step()
		}
		if n := testing.AllocsPerRun(500, step); n > 0 {
			t.Errorf("a request of %d records and its answer cost %v allocations", records, n)
		}
	}
}
