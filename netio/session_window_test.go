package netio

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/proto"
)

func TestWindowOfBytes(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes = 64 << 10 }})
	s, c := b.connect()
	b.shards[0].mute = true
	batch := testBatch(t, 1, 20<<10)
	for id := range uint64(3) {
		b.receive(s, proto.AppendFrame(nil, 10+id, produce(0, batch)))
	}
	if len(c.sent) > 0 {
		t.Fatal("within the window something was answered")
	}
	// PING and CREDIT do not count.
	b.ping(s, c)
	c.sent = nil
	b.receive(s, proto.AppendFrame(nil, 20, produce(0, batch)))
	if e := b.wantEnd(s, c, 20, proto.CodeWindowExceeded); e.Limit != 64<<10 {
		t.Fatalf("limit %d", e.Limit)
	}
}

// One request alone may be larger than its window, or nobody with a small window
// could send a large batch.
func TestWindowTakesOneLargeRequest(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes = 64 << 10 }})
	s, c := b.connect()
	decode(t, b.ask(s, c, 5, produce(0, testBatch(t, 1, 500<<10))), &proto.ProduceResponse{})
	decode(t, b.ask(s, c, 6, produce(0, testBatch(t, 1, 500<<10))), &proto.ProduceResponse{})
	if s.window.bytes != 0 {
		t.Fatalf("%d bytes are still taken", s.window.bytes)
	}
}

func TestWindowOfRequests(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowRequests = 3 }})
	s, c := b.connect()
	b.shards[0].mute = true
	for id := range uint64(3) {
		b.receive(s, proto.AppendFrame(nil, 10+id, fetch(0, 0)))
	}
	b.receive(s, proto.AppendFrame(nil, 13, fetch(0, 0)))
	b.wantEnd(s, c, 13, proto.CodeWindowExceeded)
}

func TestRequestIDTwice(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.receive(s, proto.AppendFrame(nil, 5, produce(0, testBatch(t, 1, 10))))
	b.receive(s, proto.AppendFrame(nil, 5, produce(0, testBatch(t, 1, 10))))
	got := frames(t, c.sent)
	wantError(t, got, 5, proto.CodeInvalidRequest)
	c.sent = nil
	b.run()
	decode(t, frames(t, c.sent), &proto.ProduceResponse{})
}

// credits reads the windows that the broker sent, and answers its PINGs.
func (b *bench) credits(s *Session, c *testConn, answer bool) []proto.CreditPush {
	b.t.Helper()
	var list []proto.CreditPush
	sent := c.sent
	c.sent = nil
	for _, f := range frames(b.t, sent) {
		switch {
		case f.header.Command == proto.CommandCredit && !f.header.Answer:
			var m proto.CreditPush
			if err := m.Decode(f.payload); err != nil || f.header.RequestID&proto.ServerIDBit == 0 {
				b.t.Fatalf("bad CREDIT %+v: %v", f.header, err)
			}
			list = append(list, m)
		case f.header.Command == proto.CommandPing && answer:
			m := proto.PingResponse{Opaque: binary.BigEndian.Uint64(f.payload)}
			b.receive(s, proto.AppendFrame(nil, f.header.RequestID, &m))
		}
	}
	return list
}

// Windows add up to the budget at most; the first connections give back what
// later ones need; a shrunk window binds only after the client knows of it.
func TestWindowsShareTheBudget(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes, s.WindowBudgetBytes = 8<<20, 4<<20 }})
	type pair struct {
		s *Session
		c *testConn
	}
	var all []pair
	for range 60 {
		s, c := b.open()
		b.receive(s, proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic}))
		if s.state != stateOpen {
			wantError(t, frames(t, c.sent), 1, proto.CodeTooManyConnections)
			t.Fatalf("connection %d found no window although the others could give some back", len(all))
		}
		c.sent = nil
		all = append(all, pair{s, c})
		b.clock.now.Add(1e8)
		b.reactor.Tick()
		for _, p := range all {
			b.credits(p.s, p.c, true)
		}
		if b.reactor.windows.granted > b.reactor.windows.total {
			t.Fatalf("%d bytes granted of %d", b.reactor.windows.granted, b.reactor.windows.total)
		}
	}
	if all[0].s.window.enforced >= 512<<10 {
		t.Fatalf("the first connection still has %d bytes", all[0].s.window.enforced)
	}
	// When most are gone the rest get more.
	for _, p := range all[2:] {
		p.c.Close()
	}
	b.reactor.Tick()
	if got := b.credits(all[0].s, all[0].c, true); len(got) != 1 || got[0].WindowBytes != 512<<10 {
		t.Fatalf("after the others left the windows sent were %+v", got)
	}
	for _, p := range all[:2] {
		p.c.Close()
	}
	if b.reactor.windows.granted != 0 || b.reactor.windows.holders != 0 {
		t.Fatalf("%d bytes are lost", b.reactor.windows.granted)
	}
}

func TestShrunkWindowBindsAfterItIsRead(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes, s.WindowBudgetBytes = 8<<20, 1<<20 }})
	s, c := b.connect()
	b.shards[0].mute = true
	was := s.window.enforced
	for !b.reactor.windows.scarce() {
		if other, _ := b.connect(); other.state != stateOpen {
			t.Fatal("no window")
		}
	}
	b.reactor.Tick()
	got := b.credits(s, c, false)
	if len(got) != 1 || int64(got[0].WindowBytes) >= was {
		t.Fatalf("windows sent: %+v, had %d", got, was)
	}
	// The client has not read it yet and uses the old one.
	b.receive(s, proto.AppendFrame(nil, 10, produce(0, testBatch(t, 1, 60<<10))))
	b.receive(s, proto.AppendFrame(nil, 11, produce(0, testBatch(t, 1, 60<<10))))
	if s.state != stateOpen {
		t.Fatal("punished for a window that it could not know of")
	}
	b.receive(s, proto.AppendFrame(nil, s.window.barrier, &proto.PingResponse{}))
	if s.window.enforced != int64(got[0].WindowBytes) {
		t.Fatalf("%d enforced after the client had read %d", s.window.enforced, got[0].WindowBytes)
	}
	b.receive(s, proto.AppendFrame(nil, 12, produce(0, testBatch(t, 1, 10))))
	b.wantEnd(s, c, 12, proto.CodeWindowExceeded)
}

// A client that does not answer the PING keeps its larger window for the handshake's time and no longer.
func TestShrunkWindowBindsInTime(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes, s.WindowBudgetBytes = 8<<20, 1<<20 }})
	s, _ := b.connect()
	was := s.window.enforced
	for !b.reactor.windows.scarce() {
		b.connect()
	}
	b.reactor.Tick()
	if s.window.barrier == 0 || s.window.enforced != was {
		t.Fatal("the window is not on its way to be smaller")
	}
	b.clock.now.Add(b.reactor.settings.HandshakeTimeout)
	b.reactor.Tick()
	if s.window.barrier != 0 || s.window.enforced >= was || s.window.enforced != s.window.granted {
		t.Fatalf("%d enforced, %d granted, had %d", s.window.enforced, s.window.granted, was)
	}
}

// Windows do not change with every connection that comes.
func TestWindowsChangeSeldom(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBytes, s.WindowBudgetBytes = 8<<20, 64<<20 }})
	type pair struct {
		s *Session
		c *testConn
	}
	var all []pair
	changes := 0
	const count = 500
	for range count {
		s, c := b.connect()
		all = append(all, pair{s, c})
		b.reactor.Tick()
		for _, p := range all {
			changes += len(b.credits(p.s, p.c, true))
		}
	}
	if changes > 20*count {
		t.Errorf("%d changes of windows for %d connections", changes, count)
	}
}

func TestNoWindowLeft(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowBudgetBytes = windowBytesMin }})
	b.connect()
	s, c := b.open()
	b.receive(s, proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic}))
	b.wantEnd(s, c, 1, proto.CodeTooManyConnections)
}

func TestWindowBudgetNeverOverdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := windowBudget{total: rapid.Int64Range(0, 8<<20).Draw(t, "total")}
		var held []int64
		t.Repeat(map[string]func(*rapid.T){
			"grant": func(t *rapid.T) {
				if w := budget.grant(rapid.Int64Range(windowBytesMin, 16<<20).Draw(t, "want")); w > 0 {
					held = append(held, w)
				}
			},
			"give up": func(t *rapid.T) {
				if len(held) > 0 {
					budget.giveUp(held[0])
					held = held[1:]
				}
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for _, w := range held {
					sum += w
				}
				if sum != budget.granted || sum > budget.total || int(budget.holders) != len(held) {
					t.Fatalf("granted %d of %d, held %d", budget.granted, budget.total, sum)
				}
			},
		})
	})
}
