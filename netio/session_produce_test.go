package netio

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func TestProduceIsStored(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	batch := testBatch(t, 5, 1000)
	for partition := range uint32(8) {
		got := decode(t, b.ask(s, c, 10, produce(partition, batch)), &proto.ProduceResponse{})
		if got.BaseOffset != 0 || got.AppendTimeMs != -1 || got.Durability != proto.DurabilitySync {
			t.Fatalf("partition %d: %+v", partition, got)
		}
		id := core.PartitionID(16 + partition)
		stored := b.shards[core.ShardOf(id, 3)].logs[id]
		if stored == nil || !bytes.Equal(stored.batches[0], batch) {
			t.Fatalf("partition %d: the batch is not where it belongs", partition)
		}
	}
	if b.reactor.stats.RecordsReceived != 40 {
		t.Errorf("%d records counted, want 40", b.reactor.stats.RecordsReceived)
	}
}

// A refused batch is thrown away and nothing of it stays behind.
func TestProduceRefused(t *testing.T) {
	good := testBatch(t, 3, 200)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-3] ^= 4
	magic := bytes.Clone(good)
	magic[16] = 1
	header := bytes.Clone(good)
	header[30] ^= 1 // base timestamp, covered by the checksum
	records := proto.Batch(bytes.Clone(good))
	records[proto.BatchHeaderBytes+1] = 9 // a record's attributes
	fixChecksum(records)
	for _, x := range []struct {
		name   string
		change func(*proto.ProduceRequest)
		code   proto.Code
	}{
		{"unknown topic", func(r *proto.ProduceRequest) { r.TopicID[0] = 9 }, proto.CodeUnknownTopic},
		{"partition out of range", func(r *proto.ProduceRequest) { r.Partition = 8 }, proto.CodeInvalidPartition},
		{"partition 2^32-1", func(r *proto.ProduceRequest) { r.Partition = 1<<32 - 1 }, proto.CodeInvalidPartition},
		{"led elsewhere", func(r *proto.ProduceRequest) { r.Partition = 7 }, proto.CodeNotLeader},
		{"acks 2", func(r *proto.ProduceRequest) { r.Acks = 2 }, proto.CodeInvalidRequest},
		{"no batch", func(r *proto.ProduceRequest) { r.Batch = nil }, proto.CodeCorruptBatch},
		{"half a header", func(r *proto.ProduceRequest) { r.Batch = good[:40] }, proto.CodeCorruptBatch},
		{"cut", func(r *proto.ProduceRequest) { r.Batch = good[:len(good)-1] }, proto.CodeCorruptBatch},
		{"bytes behind it", func(r *proto.ProduceRequest) { r.Batch = append(bytes.Clone(good), 0) }, proto.CodeCorruptBatch},
		{"two batches", func(r *proto.ProduceRequest) { r.Batch = append(bytes.Clone(good), good...) }, proto.CodeCorruptBatch},
		{"a flipped bit in the records", func(r *proto.ProduceRequest) { r.Batch = flipped }, proto.CodeCorruptBatch},
		{"a flipped bit in the header", func(r *proto.ProduceRequest) { r.Batch = header }, proto.CodeCorruptBatch},
		{"records that do not add up", func(r *proto.ProduceRequest) { r.Batch = records }, proto.CodeCorruptBatch},
		{"magic 1", func(r *proto.ProduceRequest) { r.Batch = magic }, proto.CodeCorruptBatch},
		{"too many records", func(r *proto.ProduceRequest) { r.Batch = testBatch(t, 101, 1) }, proto.CodeBatchTooLarge},
		{"too large", func(r *proto.ProduceRequest) { r.Batch = testBatch(t, 1, 1<<20) }, proto.CodeBatchTooLarge},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, acks := range []proto.Acks{proto.AcksDurable, proto.AcksNone} {
				b := newBench(t, benchOptions{shards: 2, settings: func(s *Settings) { s.BatchRecordsMax = 100 }})
				b.view.topics[0].Partitions[7].Leader = 2
				s, c := b.connect()
				r := produce(1, good)
				r.Acks = acks
				x.change(r)
				e := wantError(t, b.ask(s, c, 20, r), 20, x.code)
				switch x.code {
				case proto.CodeInvalidPartition:
					if e.Limit != 8 {
						t.Errorf("limit %d", e.Limit)
					}
				case proto.CodeNotLeader:
					if e.Leader == nil || e.Leader.NodeID != 2 {
						t.Errorf("no leader named: %+v", e)
					}
				case proto.CodeBatchTooLarge:
					if e.Limit == 0 {
						t.Error("no limit named")
					}
				}
				b.ping(s, c)
				if n := b.arenas[0].out.Load() + b.arenas[1].out.Load(); n != 0 || s.window.bytes != 0 || s.pendings.count != 0 {
					t.Fatalf("%d slabs, %d bytes, %d requests stay behind", n, s.window.bytes, s.pendings.count)
				}
				if b.reactor.stats.Failures[x.code] != 1 {
					t.Error("the failure was not counted")
				}
			}
		})
	}
}

// fixChecksum makes a batch's checksum that of its bytes.
func fixChecksum(b proto.Batch) {
	crc := proto.CRC(b[21:])
	b[17], b[18], b[19], b[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
}

func TestProduceWithoutSlab(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.arenas[0].budget = 0
	e := wantError(t, b.ask(s, c, 5, produce(0, testBatch(t, 1, 10))), 5, proto.CodeOverloaded)
	if e.WaitMs == 0 {
		t.Error("OVERLOADED does not say how long to wait")
	}
	b.ping(s, c)
	b.arenas[0].budget = 10
	decode(t, b.ask(s, c, 6, produce(0, testBatch(t, 1, 10))), &proto.ProduceResponse{})
}

// A batch in a slab has the room before it that a direct write needs.
func TestProduceLeavesRoom(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.shards[0].keep = true
	s, c := b.connect()
	batch := testBatch(t, 1, 100<<10)
	b.ask(s, c, 5, produce(0, batch))
	for _, q := range b.shards[0].seen {
		if q.Kind == mail.RequestProduce {
			if q.Start != core.BatchRoomBytes || int(q.Bytes) != len(batch) || q.RecordsCRC != proto.CRC(batch[proto.BatchHeaderBytes:]) {
				t.Fatalf("start %d, %d bytes, checksum %#x", q.Start, q.Bytes, q.RecordsCRC)
			}
			return
		}
	}
	t.Fatal("the shard has seen no batch")
}

// The rest of a large batch may be read from the socket into the slab.
func TestProduceReadDirectly(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	batch := testBatch(t, 4, 200<<10)
	stream := proto.AppendFrame(nil, 5, produce(0, batch))
	stream = proto.AppendFrame(stream, 6, &proto.PingRequest{})
	if s.Room() != nil {
		t.Fatal("there is room without a batch")
	}
	b.receive(s, stream[:1000])
	stream = stream[1000:]
	direct := 0
	for room := s.Room(); len(room) > 0; room = s.Room() {
		n := copy(room[:max(1, len(room)/3)], stream)
		stream = stream[n:]
		direct += n
		s.Filled(n)
	}
	if direct < 700<<10 {
		t.Fatalf("only %d bytes were read directly", direct)
	}
	b.receive(s, stream)
	b.run()
	got := frames(t, c.sent)
	if len(got) != 2 || got[1].header.Command != proto.CommandProduce {
		t.Fatalf("got %v, want PING's answer and PRODUCE's", got)
	}
	if !bytes.Equal(b.shards[0].logs[16].batches[0], batch) {
		t.Fatal("the batch arrived changed")
	}
}

// A damaged header is found before the rest of the batch is there, also when
// that is read directly.
func TestProduceDirectlyRefused(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	batch := testBatch(t, 1, 100<<10)
	batch[60] = 77 // the count
	stream := proto.AppendFrame(nil, 5, produce(0, batch))
	stream = proto.AppendFrame(stream, 6, &proto.PingRequest{})
	b.receive(s, stream[:proto.FrameHeaderBytes+50])
	room := s.Room()
	n := copy(room, stream[proto.FrameHeaderBytes+50:])
	s.Filled(n)
	b.reactor.Flush()
	wantError(t, frames(t, c.sent), 5, proto.CodeCorruptBatch)
	if s.Room() != nil {
		t.Fatal("a refused batch is still read into a slab")
	}
	c.sent = nil
	b.receive(s, stream[proto.FrameHeaderBytes+50+n:])
	decode(t, frames(t, c.sent), &proto.PingResponse{})
}

func TestProduceWithoutAcks(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	r := produce(0, testBatch(t, 1, 10))
	r.Acks = proto.AcksNone
	if got := b.ask(s, c, 5, r); len(got) != 0 {
		t.Fatalf("acks none was answered: %v", got)
	}
	if len(b.shards[0].logs[16].batches) != 1 {
		t.Fatal("the batch was not stored")
	}
	if s.window.bytes != 0 || s.pendings.count != 0 {
		t.Fatal("it still counts as unanswered")
	}
	// A refusal by the shard, long after the reactor has let it go.
	b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerError, Conn: s.ref, ID: 5, Err: proto.CodeStorageFull.Errorf("full")})
	c.sent = nil
	b.reactor.Turn()
	wantError(t, frames(t, c.sent), 5, proto.CodeStorageFull)
}

// With the ring full requests wait in order, and beyond the backlog they are refused.
func TestFullRing(t *testing.T) {
	b := newBench(t, benchOptions{ring: 256, settings: func(s *Settings) { s.WindowRequests = 60_000 }})
	s, c := b.connect()
	const count = 256 + backlogRequestsMax + 5
	batch := testBatch(t, 1, 10)
	var stream []byte
	for i := range count {
		stream = proto.AppendFrame(stream, uint64(1000+i), produce(0, batch))
	}
	b.receive(s, stream)
	got := frames(t, c.sent)
	if len(got) != 5 {
		t.Fatalf("%d of %d requests were refused, want 5", len(got), count)
	}
	for i, f := range got {
		wantError(t, []frame{f}, uint64(1000+count-5+i), proto.CodeOverloaded)
	}
	if wait := b.reactor.Flush(); wait == 0 {
		t.Fatal("the reactor does not want to be called again")
	}
	c.sent = nil
	b.run()
	for i, f := range frames(t, c.sent) {
		m := decode(t, []frame{f}, &proto.ProduceResponse{})
		if f.header.RequestID != uint64(1000+i) || m.BaseOffset != int64(i) {
			t.Fatalf("answer %d: request %d at offset %d", i, f.header.RequestID, m.BaseOffset)
		}
	}
	if n := b.arenas[0].out.Load(); n != 0 {
		t.Fatalf("%d slabs are lost", n)
	}
}

// What waits for room goes before what comes later, also when there is room again.
func TestBacklogKeepsOrder(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	batch := testBatch(t, 1, 10)
	const count = 256 + 3
	for i := range uint64(count) {
		s.Receive(proto.AppendFrame(nil, 1000+i, produce(0, batch)))
	}
	b.links[0].Requests.Publish()
	b.shards[0].step() // the ring is empty, three requests still wait
	s.Receive(proto.AppendFrame(nil, 1000+count, produce(0, batch)))
	b.reactor.Flush()
	b.run()
	for i, f := range frames(t, c.sent) {
		m := decode(t, []frame{f}, &proto.ProduceResponse{})
		if f.header.RequestID != uint64(1000+i) || m.BaseOffset != int64(i) {
			t.Fatalf("answer %d: request %d at offset %d", i, f.header.RequestID, m.BaseOffset)
		}
	}
}

// requestStep is a PRODUCE and its answer, a FETCH and its answer.
func requestStep(t tb) func() {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	arena := newReusingArena()
	b.links[0].Arena = arena
	link := b.links[0]
	batch := testBatch(t, 2, 500)
	produceFrame := proto.AppendFrame(nil, 1000, produce(0, batch))
	fetchFrame := proto.AppendFrame(nil, 1001, fetch(0, 0))
	large := testBatch(t, 1, 50<<10)
	parcel := &mail.Parcel{Slices: [][]byte{batch, large}, Bytes: len(batch) + len(large)}
	c.sent = make([]byte, 0, 64<<20)
	c.buffered = make([]byte, 0, 1<<20)
	c.slices = make([]int, 0, 1<<20)
	buffered := c.buffered
	return func() {
		c.sent, c.buffered, c.slices = c.sent[:0], buffered, c.slices[:0]
		b.receive(s, produceFrame)
		b.receive(s, fetchFrame)
		for {
			q, ok := link.Requests.Pop()
			if !ok {
				break
			}
			switch q.Kind {
			case mail.RequestProduce:
				q.Slab.Release()
				link.Answers.Push(mail.Answer{Kind: mail.AnswerProduce, Conn: q.Conn, ID: q.ID, Durability: core.DurabilitySync})
			case mail.RequestFetch:
				link.Answers.Push(mail.Answer{Kind: mail.AnswerFetch, Conn: q.Conn, ID: q.ID, Parcel: parcel})
			}
		}
		b.reactor.Turn()
		b.reactor.Turn()
		if link.Requests.Len() != 1 { // the parcel
			t.Fatal("the parcel did not come back")
		}
		link.Requests.Pop()
	}
}

// The hot path allocates nothing.
func TestRequestsAllocateNothing(t *testing.T) {
	step := requestStep(t)
	step()
	if n := testing.AllocsPerRun(500, step); n != 0 {
		t.Errorf("%v allocations per PRODUCE and FETCH", n)
	}
}

func BenchmarkRequests(b *testing.B) {
	step := requestStep(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
