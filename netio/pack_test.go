package netio

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// packedEvent is frames of one event: a batch of each size, with ids from 1000 on.
func packedEvent(t tb, sizes ...int) (event []byte, batches [][]byte) {
	for i, size := range sizes {
		batch := testBatch(t, 1+i%3, size)
		batches = append(batches, batch)
		event = proto.AppendFrame(event, uint64(1000+i), produce(uint32(i%8), batch))
	}
	return event, batches
}

// requests takes what a shard has been sent.
func (b *bench) requests(shard int) (list []mail.Request) {
	for q, ok := b.links[shard].Requests.Pop(); ok; q, ok = b.links[shard].Requests.Pop() {
		list = append(list, q)
	}
	return list
}

// Small batches of one event share slabs, each has its own bytes, and the last release
// of each slab carries it home, in whatever order they come.
func TestSmallBatchesOfAnEventShareASlab(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, _ := b.connect()
	event, batches := packedEvent(t, 10, 200, 4, 3000, 77, 1, 900, 256, 256, 256)
	for round := range 3 {
		for i := range batches { // ids are used again once they are answered
			s.settle(uint64(1000 + i))
		}
		b.receive(s, event)
		got := b.requests(0)
		if len(got) != len(batches) {
			t.Fatalf("%d of %d batches came through", len(got), len(batches))
		}
		slabs := make(map[*core.Slab]bool)
		for i := range got {
			slabs[got[i].Slab] = true
		}
		if n := b.arenas[0].out.Load(); n != int64(len(slabs)) || len(slabs) != 1 {
			t.Fatalf("%d batches of one event lie in %d slabs, and %d are out", len(got), len(slabs), n)
		}
		if round == 1 {
			slices.Reverse(got)
			slices.Reverse(batches)
		}
		for i, q := range got {
			if !bytes.Equal(q.Slab.Bytes[q.Start:q.Start+q.Bytes], batches[i]) {
				t.Fatalf("batch %d arrived with other bytes", i)
			}
		}
		for i, q := range got {
			if n := b.arenas[0].out.Load(); n != 1 {
				t.Fatalf("the slab went home with %d batches in it", len(got)-i)
			}
			q.Slab.Release()
		}
		if n := b.arenas[0].out.Load(); n != 0 {
			t.Fatalf("%d slabs are lost", n)
		}
		if round == 1 {
			slices.Reverse(batches)
		}
	}
}

// A shard may have given back all batches of an event when the next begins, so that
// nothing of the next goes into the same slab.
func TestPackEndsWithItsEvent(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, _ := b.connect()
	for i := range uint64(5) {
		b.receive(s, proto.AppendFrame(nil, 1000+i, produce(0, testBatch(t, 1, 100))))
		for _, q := range b.requests(0) {
			q.Slab.Release()
		}
	}
	if n := b.arenas[0].out.Load(); n != 0 {
		t.Fatalf("%d slabs are lost", n)
	}
}

// What may be held for a while does not hold a slab that others lie in: a batch that
// arrives in pieces, one whose records the shard has to decompress first, a large one.
func TestBatchesThatMayBeHeldHaveTheirOwnSlab(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, _ := b.connect()
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecSnappy)
	if err := builder.Append(&proto.Record{Timestamp: 1_700_000_000_000, Value: make([]byte, 100)}); err != nil {
		t.Fatal(err)
	}
	compressed, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	compressed = bytes.Clone(compressed)
	small, large := testBatch(t, 1, 100), testBatch(t, 1, core.CombineBytesMin)
	var event []byte
	for i, batch := range [][]byte{small, compressed, large, small, small} {
		event = proto.AppendFrame(event, uint64(1000+i), produce(0, batch))
	}
	b.receive(s, event[:len(event)-1])
	b.receive(s, event[len(event)-1:])
	got := b.requests(0)
	if len(got) != 5 {
		t.Fatalf("%d of 5 batches came through", len(got))
	}
	for i, shared := range []int{3, 1, 2, 0, 4} {
		if same := got[i].Slab == got[shared].Slab; same != (i == 0 || i == 3 || i == shared) {
			t.Errorf("batch %d and %d in one slab: %v", i, shared, same)
		}
	}
	for _, q := range got {
		if q.Slab != got[0].Slab && q.Start != core.BatchRoomBytes {
			t.Errorf("a batch of %d bytes begins at %d of its slab", q.Bytes, q.Start)
		}
		q.Slab.Release()
	}
	if n := b.arenas[0].out.Load(); n != 0 {
		t.Fatalf("%d slabs are lost", n)
	}
}

// A bad batch among good ones of an event is refused alone, and leaves nothing behind.
func TestBadBatchInAPack(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	event, _ := packedEvent(t, 50, 60, 70, 80, 90, 100, 110, 120)
	var bad []byte
	for i := range uint64(8) {
		batch := testBatch(t, 1, 50)
		if i%2 == 1 {
			batch[len(batch)-1] ^= 1
		}
		bad = proto.AppendFrame(bad, 2000+i, produce(uint32(i), batch))
	}
	b.receive(s, append(event, bad...))
	b.run()
	answers := make(map[uint64]proto.Command)
	for _, f := range frames(t, c.sent) {
		answers[f.header.RequestID] = f.header.Command
	}
	for i := range uint64(8) {
		want := proto.CommandProduce
		if i%2 == 1 {
			want = proto.CommandError
		}
		if answers[1000+i] != proto.CommandProduce || answers[2000+i] != want {
			t.Errorf("batch %d is answered with %v, the one behind with %v, want %v", i, answers[1000+i], answers[2000+i], want)
		}
	}
	for shard := range b.arenas {
		if n := b.arenas[shard].out.Load(); n != 0 {
			t.Errorf("%d slabs of shard %d are lost", n, shard)
		}
	}
}

// smallProduces is an event of 32 PRODUCE on each connection, and their answers.
func smallProduces(t tb, connections int) (step func(), requests int) {
	const inFlight = 32
	b := newBench(t, benchOptions{ring: 4096})
	memory, err := arena.New(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	link := b.links[0]
	link.Arena = memory
	event := make([]byte, 0, 64<<10)
	for i := range inFlight {
		event = proto.AppendFrame(event, uint64(1000+i), produce(uint32(i%8), testBatch(t, 1, 256)))
	}
	var sessions []*Session
	var conns []*testConn
	var buffers [][]byte // the connections move along theirs
	for range connections {
		s, c := b.connect()
		c.sent, c.slices = make([]byte, 0, 1<<16), make([]int, 0, 1<<10)
		sessions, conns, buffers = append(sessions, s), append(conns, c), append(buffers, make([]byte, 0, 1<<16))
	}
	return func() {
		for _, s := range sessions {
			b.receive(s, event)
		}
		for q, ok := link.Requests.Pop(); ok; q, ok = link.Requests.Pop() {
			q.Slab.Release()
			link.Answers.Push(mail.Answer{Kind: mail.AnswerProduce, Conn: q.Conn, ID: q.ID, Durability: core.DurabilitySync})
		}
		for link.Answers.Len() > 0 {
			b.reactor.Turn()
		}
		for i, c := range conns {
			if len(c.sent) == 0 {
				t.Fatal("nothing was answered")
			}
			c.sent, c.slices, c.buffered = c.sent[:0], c.slices[:0], buffers[i]
		}
	}, connections * inFlight
}

func TestSmallProducesAllocateNothing(t *testing.T) {
	step, _ := smallProduces(t, 2) // short rounds: what else the process allocates meanwhile counts too
	for range 3 {
		step()
	}
	if n := testing.AllocsPerRun(300, step); n != 0 {
		t.Errorf("%v allocations per round of PRODUCE", n)
	}
}

func BenchmarkSmallProduces(b *testing.B) {
	step, requests := smallProduces(b, 64)
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*requests), "ns/request")
}
