package netio

import (
	"bytes"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// fill stores batches in partition 0.
func (b *bench) fill(count, valueBytes int) (total int) {
	log := b.shards[0].log(16)
	for range count {
		batch := proto.Batch(testBatch(b.t, 1, valueBytes))
		batch.SetBaseOffset(int64(log.next))
		log.batches = append(log.batches, batch)
		log.next++
		total += len(batch)
	}
	return total
}

// All answers of a turn for one connection leave in one write, those without
// records first.
func TestOneWritePerTurn(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.fill(3, 100)
	c.writes = 0
	var stream []byte
	stream = proto.AppendFrame(stream, 10, fetch(0, 0))
	for id := range uint64(20) {
		stream = proto.AppendFrame(stream, 20+id, produce(1, testBatch(t, 1, 10)))
	}
	b.receive(s, stream)
	b.run()
	got := frames(t, c.sent)
	if c.writes != 1 || len(got) != 21 {
		t.Fatalf("%d frames in %d writes, want 21 in one", len(got), c.writes)
	}
	if got[20].header.Command != proto.CommandFetch {
		t.Fatal("an answer with records was sent before those without")
	}
	if b.shards[0].parcels != 0 {
		t.Fatal("the parcel did not go back")
	}
}

// An answer of many slices is written in pieces of a bounded number, and comes whole.
func TestManySlices(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	total := b.fill(1000, 900)
	m := decode(t, b.ask(s, c, 10, fetch(0, 0)), &proto.FetchResponse{})
	if len(m.Batches) != total {
		t.Fatalf("%d bytes, want %d", len(m.Batches), total)
	}
	for i, rest := 0, m.Batches; len(rest) > 0; i++ {
		var batch proto.Batch
		var err error
		if batch, rest, err = proto.NextBatch(rest); err != nil || batch.BaseOffset() != int64(i) {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	most := 0
	for _, n := range c.slices {
		most = max(most, n)
	}
	if most > core.AnswerSlicesMax || most < core.AnswerSlicesMax/2 {
		t.Fatalf("a write had %d slices", most)
	}
}

// The next chunk of data follows when the socket has taken the last; answers
// without records do not wait.
func TestChunksWaitForTheSocket(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.fill(4, 600<<10)
	b.shards[0].chunk = 1
	c.room = 100
	b.receive(s, proto.AppendFrame(nil, 10, fetch(0, 0)))
	b.run()
	if len(c.sent)+len(c.buffered) > 700<<10 {
		t.Fatalf("%d bytes were written although the socket has taken %d", len(c.sent)+len(c.buffered), len(c.sent))
	}
	if wait := b.reactor.Flush(); wait == 0 {
		t.Fatal("nobody looks after the socket")
	}
	b.receive(s, proto.AppendFrame(nil, 11, &proto.PingRequest{}))
	if len(c.sent)+len(c.buffered) > 700<<10 {
		t.Fatal("a chunk followed another event although the socket has not taken the last")
	}
	for i := 0; i < 50; i++ {
		c.room = 100 << 10
		c.take()
		b.reactor.Turn()
	}
	b.run()
	got := frames(t, c.sent)
	if len(got) != 5 {
		t.Fatalf("%d frames, want 4 chunks and a PING", len(got))
	}
	if got[1].header.Command != proto.CommandPing {
		t.Errorf("the PING came behind data that had not begun: %v", got[1].header)
	}
	for i, f := range []frame{got[0], got[2], got[3], got[4]} {
		m := decode(t, []frame{f}, &proto.FetchResponse{})
		if m.More != (i < 3) {
			t.Errorf("chunk %d: more is %v", i, m.More)
		}
	}
	if b.shards[0].parcels != 0 || s.pendings.count != 0 {
		t.Fatalf("%d parcels, %d requests are left", b.shards[0].parcels, s.pendings.count)
	}
}

// A socket that takes everything gets chunk after chunk without a pause.
func TestChunksFollowAtOnce(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.fill(4, 600<<10)
	b.shards[0].chunk = 1
	b.receive(s, proto.AppendFrame(nil, 10, fetch(0, 0)))
	b.shards[0].step()
	kicks := b.links[0].Reactor.(*kicks)
	for len(frames(t, c.sent)) < 4 {
		kicks.count = 0
		before := len(c.sent)
		b.reactor.Turn()
		if len(c.sent) == before {
			t.Fatal("a turn sent nothing")
		}
		if more := s.out.data.Len() > 0; more != (kicks.count > 0) {
			t.Fatalf("data waits: %v, the reactor calls itself %d times", more, kicks.count)
		}
	}
}

// A client that does not read has nothing more read for it, and is closed in the end.
func TestSlowReader(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.SendBufferMax = 2 << 20; s.IdleTimeout, s.Keepalive = 1e18, 1e18 }})
	s, c := b.connect()
	b.fill(3, 700<<10)
	b.shards[0].keep = true
	c.room = 0
	for id := range uint64(5) {
		b.receive(s, proto.AppendFrame(nil, 10+id, fetch(0, 0)))
		b.run()
	}
	fetches := 0
	for _, q := range b.shards[0].seen {
		if q.Kind == mail.RequestFetch {
			fetches++
		}
	}
	if fetches != 1 {
		t.Fatalf("%d fetches were read for a client that does not read, want 1", fetches)
	}
	// It reads a little now and then: it is slow, not dead.
	for range 10 {
		b.clock.now.Add(testSettings().SlowReaderTimeout - 1)
		c.room = 1
		c.take()
		b.reactor.Tick()
	}
	if s.state != stateOpen {
		t.Fatal("closed although it reads")
	}
	b.clock.now.Add(testSettings().SlowReaderTimeout)
	b.reactor.Tick()
	if s.state != stateEnding {
		t.Fatal("still open after the timeout")
	}
	c.room = -1
	c.take()
	b.reactor.Tick()
	got := frames(t, c.sent)
	last := got[len(got)-1]
	if e := wantError(t, []frame{last}, 0, proto.CodeSlowConsumer); e.Limit != 2<<20 {
		t.Fatalf("limit %d", e.Limit)
	}
	b.run()
	if b.shards[0].parcels != 0 {
		t.Fatalf("%d parcels are lost", b.shards[0].parcels)
	}
}

// One that reads again gets what it asked for.
func TestSlowReaderRecovers(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.SendBufferMax = 2 << 20 }})
	s, c := b.connect()
	b.fill(3, 700<<10)
	c.room = 0
	for id := range uint64(5) {
		b.receive(s, proto.AppendFrame(nil, 10+id, fetch(0, 0)))
		b.run()
	}
	for range 60 {
		c.room = 1 << 20
		c.take()
		b.run()
	}
	if n := len(frames(t, c.sent)); n != 5 {
		t.Fatalf("%d of 5 fetches were answered", n)
	}
}

// Requests whose answers pile up unread close the connection at twice the bound.
func TestAnswersPileUp(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.SendBufferMax = 100 << 10 }})
	s, c := b.connect()
	c.room = 0
	for id := uint64(10); s.state == stateOpen && id < 10_000; id++ {
		b.receive(s, proto.AppendFrame(nil, id, &proto.MetadataRequest{}))
	}
	if s.state != stateEnding || len(c.buffered) > 210<<10 {
		t.Fatalf("%d bytes wait for a client that does not read", len(c.buffered))
	}
}

// A write that fails ends the session from inside the write; nothing is returned twice.
func TestWriteFails(t *testing.T) {
	for _, values := range []int{100, 900, 100 << 10} {
		b := newBench(t, benchOptions{})
		s, c := b.connect()
		b.fill(400, values)
		c.failing = true
		b.receive(s, proto.AppendFrame(nil, 10, fetch(0, 0)))
		b.receive(s, proto.AppendFrame(nil, 11, fetch(0, 0)))
		b.run()
		if s.state != stateClosed || b.shards[0].parcels != 0 || b.reactor.stats.Connections != 0 {
			t.Fatalf("state %d, %d parcels, %d connections", s.state, b.shards[0].parcels, b.reactor.stats.Connections)
		}
	}
}

// A late answer to a connection that is gone reaches nobody else.
func TestSlotReuse(t *testing.T) {
	b := newBench(t, benchOptions{})
	first, c := b.connect()
	b.fill(1, 100)
	b.receive(first, proto.AppendFrame(nil, 10, produce(1, testBatch(t, 1, 10))))
	b.receive(first, proto.AppendFrame(nil, 11, fetch(0, 0)))
	c.Close()
	second, c2 := b.connect()
	if second.ref.Slot != first.ref.Slot || second.ref.Serial == first.ref.Serial {
		t.Fatalf("slots %+v and %+v", first.ref, second.ref)
	}
	b.receive(second, proto.AppendFrame(nil, 10, produce(2, testBatch(t, 1, 10))))
	b.receive(second, proto.AppendFrame(nil, 11, fetch(3, 0)))
	b.run()
	got := frames(t, c2.sent)
	if len(got) != 2 {
		t.Fatalf("%d answers, want its own 2", len(got))
	}
	if m := decode(t, got[1:], &proto.FetchResponse{}); len(m.Batches) != 0 {
		t.Fatal("the second connection got the first one's records")
	}
	if b.shards[0].parcels != 0 {
		t.Fatal("the late parcel is lost")
	}
}

func TestDisconnectTellsTheShards(t *testing.T) {
	b := newBench(t, benchOptions{shards: 4})
	s, c := b.connect()
	for _, f := range b.shards {
		f.keep = true
	}
	b.ask(s, c, 10, fetch(0, 0))
	c.Close()
	b.reactor.Flush()
	b.run()
	told := 0
	for i, f := range b.shards {
		asked, disconnected := false, false
		for _, q := range f.seen {
			asked = asked || q.Kind == mail.RequestFetch
			disconnected = disconnected || q.Kind == mail.RequestDisconnect && q.Conn == s.ref
		}
		if asked != disconnected {
			t.Errorf("shard %d: asked %v, told of the end %v", i, asked, disconnected)
		}
		if disconnected {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d shards were told, want 1", told)
	}
}

func TestKeepalive(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.clock.now.Add(testSettings().Keepalive)
	b.reactor.Tick()
	b.reactor.Tick()
	got := frames(t, c.sent)
	if len(got) != 1 || got[0].header.Command != proto.CommandPing || got[0].header.Answer || got[0].header.RequestID&proto.ServerIDBit == 0 {
		t.Fatalf("after the keepalive time: %v, want one PING of the broker", got)
	}
	b.receive(s, proto.AppendFrame(nil, got[0].header.RequestID, &proto.PingResponse{Opaque: 1}))
	b.clock.now.Add(testSettings().IdleTimeout - 1)
	c.sent = nil
	b.reactor.Tick()
	if s.state != stateOpen {
		t.Fatal("closed too early")
	}
	b.clock.now.Add(1)
	c.sent = nil
	b.reactor.Tick()
	b.wantEnd(s, c, 0, proto.CodeConnectionIdle)
}

// A request that stands still holds a slab, so it does not get the whole idle time.
func TestStandstillInsideAFrame(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.receive(s, proto.AppendFrame(nil, 10, produce(0, testBatch(t, 1, 100<<10)))[:5000])
	if b.arenas[0].out.Load() != 1 {
		t.Fatal("no slab was taken")
	}
	b.clock.now.Add(testSettings().HandshakeTimeout)
	b.reactor.Tick()
	if b.arenas[0].out.Load() != 0 {
		t.Fatal("the slab is still held")
	}
	b.wantEnd(s, c, 0, proto.CodeConnectionIdle)
}

// One that drips a byte at a time is never still: it has a time for the whole request, by its size.
func TestDripInsideAFrame(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	frame := proto.AppendFrame(nil, 10, produce(0, testBatch(t, 1, 100<<10)))
	at := 5000
	b.receive(s, frame[:at])
	for b.clock.now.Load() < 1<<62 && s.state == stateOpen {
		b.clock.now.Add(testSettings().HandshakeTimeout / 2)
		b.reactor.Tick()
		if s.state != stateOpen {
			break
		}
		if at == len(frame)-1 {
			t.Fatal("a request was dripped to its end")
		}
		b.receive(s, frame[at:at+1])
		at++
	}
	if b.arenas[0].out.Load() != 0 {
		t.Fatal("the slab is still held")
	}
	b.wantEnd(s, c, 0, proto.CodeConnectionIdle)

	// One that comes slowly, but faster than the least, is taken in.
	s, c = b.connect()
	for at := 0; at < len(frame); at += 3 * frameBytesPerSecondMin {
		b.receive(s, frame[at:min(len(frame), at+3*frameBytesPerSecondMin)])
		b.clock.now.Add(2e9)
		b.reactor.Tick()
	}
	if s.state != stateOpen || s.midFrame() {
		t.Fatal("a request that came slowly was not taken")
	}
	_ = c
}

// A process that was stopped has not looked at its sockets: what its clients sent
// meanwhile waits there, and none of them was silent.
func TestPauseIsNobodysSilence(t *testing.T) {
	b := newBench(t, benchOptions{})
	frame := proto.AppendFrame(nil, 10, produce(0, testBatch(t, 1, 100)))
	half, _ := b.connect()
	b.receive(half, frame[:len(frame)/2])
	quiet, _ := b.connect()
	fresh := b.reactor.Open(&testConn{room: -1}, &Listener{})
	pause := 10 * (testSettings().HandshakeTimeout + testSettings().IdleTimeout)
	b.clock.now.Add(pause)
	b.reactor.Paused(pause)
	b.reactor.Tick()
	for _, s := range []*Session{half, quiet, fresh} {
		if s.state == stateEnding {
			t.Error("a session was ended for what happened during a pause")
		}
	}
	b.clock.now.Add(testSettings().HandshakeTimeout)
	b.reactor.Tick()
	if half.state == stateOpen || fresh.state != stateEnding {
		t.Error("the deadlines do not count after the pause")
	}
}

func TestDrain(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.receive(s, proto.AppendFrame(nil, 10, produce(0, testBatch(t, 1, 10))))
	b.reactor.Drain()
	if b.reactor.Drained() {
		t.Fatal("drained with a request under way")
	}
	b.receive(s, proto.AppendFrame(nil, 11, produce(0, testBatch(t, 1, 10))))
	wantError(t, frames(t, c.sent), 11, proto.CodeShuttingDown)
	c.sent = nil
	b.run()
	decode(t, frames(t, c.sent), &proto.ProduceResponse{})
	if !b.reactor.Drained() {
		t.Fatal("not drained with nothing under way")
	}
	late, c2 := b.open()
	b.receive(late, proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic}))
	b.wantEnd(late, c2, 1, proto.CodeShuttingDown)
}

// A consumer that catches up has credit for hours of pushes: a shutdown ends them.
func TestDrainEndsPushes(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	const batches, batchBytes = 12, 500 << 10
	for i := range uint64(batches) {
		b.ask(s, c, 10+i, produce(0, testBatch(t, 1, batchBytes)))
	}
	b.receive(s, proto.AppendFrame(nil, 50, &proto.SubscribeRequest{
		Add: []proto.SubscribePartition{subscribe(0, 0, 0)}, CreditBytes: 1 << 40}))
	b.reactor.Drain()
	c.sent = nil
	b.run()
	if got := len(pushes(t, frames(t, c.sent))); got > 3 { // what one piece of credit holds
		t.Errorf("%d of %d batches were pushed after the drain began", got, batches)
	}
	if !b.reactor.Drained() {
		t.Error("not drained")
	}
}

// A keepalive longer than a third of the idle time would never be of use.
func TestKeepaliveFitsIdleTimeout(t *testing.T) {
	config := testConfig(t)
	config.Network.Keepalive, config.Network.IdleTimeout = 10*time.Minute, 90*time.Second
	if s := NewSettings(config, 1); s.Keepalive != 30e9 || s.IdleTimeout != 90e9 {
		t.Fatalf("keepalive %d, idle %d", s.Keepalive, s.IdleTimeout)
	}
}

// Payload memory goes back to the kernel when nothing was produced for a while.
func TestIdleMemoryIsTrimmed(t *testing.T) {
	b := newBench(t, benchOptions{})
	arena := &trimmedArena{testArena: testArena{budget: 10}}
	b.links[0].Arena = arena
	s, c := b.connect()
	b.ask(s, c, 5, produce(0, testBatch(t, 1, 10)))
	b.reactor.Tick()
	b.clock.now.Add(trimIdle - 1)
	b.reactor.Tick()
	if arena.trims != 0 {
		t.Fatal("trimmed too early")
	}
	b.clock.now.Add(1)
	b.reactor.Tick()
	if arena.trims != 1 {
		t.Fatalf("trimmed %d times", arena.trims)
	}
}

type trimmedArena struct {
	testArena
	trims int
}

func (a *trimmedArena) Trim(int64) int64 { a.trims++; return 0 }

func TestFetchLimits(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.shards[0].keep = true
	s, c := b.connect()
	m := fetch(0, 7)
	m.MaxBytes, m.MaxRecords, m.MaxWaitMs, m.MinBytes = 1<<32-1, 0, 1<<32-1, 1<<32-1
	b.ask(s, c, 10, m)
	q := b.shards[0].seen[0]
	if q.BytesMax != 16<<20 || q.RecordsMax != 100_000 || q.Wait != 30e9 || q.BytesMin != 16<<20 || q.Offset != 7 {
		t.Fatalf("%+v", q)
	}
	m.MaxBytes = 5000
	b.ask(s, c, 13, m)
	if q := b.shards[0].seen[1]; q.BytesMin != 5000 || q.BytesMax != 5000 {
		t.Fatalf("waits for %d bytes to answer %d", q.BytesMin, q.BytesMax)
	}
	wantError(t, b.ask(s, c, 11, fetch(0, -1)), 11, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 12, fetch(8, 0)), 12, proto.CodeInvalidPartition)
}

func TestFetchFails(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.shards[0].mute = true
	b.receive(s, proto.AppendFrame(nil, 10, fetch(0, 0)))
	b.run()
	parcel := &mail.Parcel{Slices: [][]byte{bytes.Repeat([]byte{1}, 10)}, Bytes: 10}
	b.shards[0].parcels = 1
	b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerFetch, Conn: s.ref, ID: 10, More: true, Parcel: parcel})
	b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerError, Conn: s.ref, ID: 10, Err: proto.CodeCorruptRecord.Errorf("x")})
	c.sent = nil
	b.run()
	got := frames(t, c.sent)
	if len(got) != 1 || s.pendings.count != 0 || b.shards[0].parcels != 0 {
		t.Fatalf("%v; %d unanswered, %d parcels", got, s.pendings.count, b.shards[0].parcels)
	}
}
