package netio

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func subscribe(partition uint32, offset int64, cookie uint32) proto.SubscribePartition {
	return proto.SubscribePartition{TopicID: topicA, Partition: partition, LeaderEpoch: -1, Offset: offset, LastEpoch: -1, Cookie: cookie}
}

// pushes takes the DELIVER frames out of what was sent.
func pushes(t tb, list []frame) []proto.DeliverPush {
	t.Helper()
	var out []proto.DeliverPush
	for _, f := range list {
		if f.header.Command != proto.CommandDeliver {
			continue
		}
		var m proto.DeliverPush
		if err := m.Decode(f.payload); err != nil || !f.header.Answer {
			t.Fatalf("bad DELIVER %+v: %v", f.header, err)
		}
		out = append(out, m)
	}
	return out
}

// answered takes the one answer that is no push.
func answered(t tb, list []frame) []frame {
	t.Helper()
	var out []frame
	for _, f := range list {
		if f.header.Command != proto.CommandDeliver {
			out = append(out, f)
		}
	}
	return out
}

func TestSubscribe(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	for partition := range uint32(8) {
		b.ask(s, c, 5, produce(partition, testBatch(t, 1, 100)))
	}
	var add []proto.SubscribePartition
	for partition := range uint32(8) {
		add = append(add, subscribe(partition, 0, 100+partition))
	}
	add = append(add, subscribe(8, 0, 0), subscribe(3, 0, 0))
	got := b.ask(s, c, 50, &proto.SubscribeRequest{Add: add, CreditBytes: 1 << 20})
	m := decode(t, answered(t, got), &proto.SubscribeResponse{})
	if m.Subscription != 50 || len(m.Errors) != 2 || m.Errors[0].Error.Code != proto.CodeInvalidPartition || m.Errors[1].Error.Code != proto.CodeInvalidRequest {
		t.Fatalf("%+v", m)
	}
	seen := make(map[uint32]bool)
	for _, push := range pushes(t, got) {
		if push.Cookie != 100+push.Partition || push.HighWatermark != 1 || push.LeaderEpoch != 7 || len(push.Batches) == 0 {
			t.Fatalf("%+v", push)
		}
		seen[push.Partition] = true
	}
	if len(seen) != 8 {
		t.Fatalf("pushed %v", seen)
	}
	// What comes later is pushed too.
	c.sent = nil
	b.ask(s, c, 6, produce(2, testBatch(t, 1, 100)))
	if got := pushes(t, frames(t, c.sent)); len(got) != 1 || got[0].Partition != 2 {
		t.Fatalf("%+v", got)
	}
	// Closed, nothing is.
	decode(t, b.ask(s, c, 51, &proto.SubscribeRequest{Subscription: 50, Close: true}), &proto.SubscribeResponse{})
	b.ask(s, c, 7, produce(2, testBatch(t, 1, 100)))
	if got := pushes(t, frames(t, c.sent)); len(got) != 0 {
		t.Fatalf("pushed after the end: %+v", got)
	}
	wantError(t, b.ask(s, c, 52, &proto.SubscribeRequest{Subscription: 50, Close: true}), 52, proto.CodeUnknownSubscription)
	for i, f := range b.shards {
		if f.parcels != 0 || len(f.order) != 0 {
			t.Fatalf("shard %d: %d parcels, %d subscriptions", i, f.parcels, len(f.order))
		}
	}
	if b.reactor.stats.Subscriptions != 0 {
		t.Fatal("the subscription is still counted")
	}
}

func TestSubscribeErrors(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	wantError(t, b.ask(s, c, 5, &proto.SubscribeRequest{Subscription: 3}), 5, proto.CodeUnknownSubscription)
	wantError(t, b.ask(s, c, 5, &proto.SubscribeRequest{Close: true}), 5, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 5, &proto.SubscribeRequest{Close: true, Add: []proto.SubscribePartition{{}}}), 5, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 5, &proto.CreditRequest{Subscription: 3, Bytes: 1}), 5, proto.CodeUnknownSubscription)
	m := decode(t, b.ask(s, c, 6, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, -1, 0), subscribe(1, 2_000_000, 0)}}), &proto.SubscribeResponse{})
	if len(m.Errors) != 2 || m.Errors[0].Error.Code != proto.CodeInvalidRequest || m.Errors[1].Error.Code != proto.CodeOffsetOutOfRange || m.Errors[1].Partition != 1 {
		t.Fatalf("%+v", m)
	}
	if sub := s.subscriptions[6]; len(sub.partitions) != 0 || sub.shards[0].partitions != 0 {
		t.Fatal("refused partitions are kept")
	}
	wantError(t, b.ask(s, c, 7, &proto.CreditRequest{Subscription: 6, Bytes: 0}), 7, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 6, &proto.SubscribeRequest{}), 6, proto.CodeInvalidRequest)
	for id := uint64(100); id < 99+subscriptionsMax; id++ {
		decode(t, b.ask(s, c, id, &proto.SubscribeRequest{}), &proto.SubscribeResponse{})
	}
	if e := wantError(t, b.ask(s, c, 999, &proto.SubscribeRequest{}), 999, proto.CodeTooManySubscriptions); e.Limit != subscriptionsMax {
		t.Fatalf("limit %d", e.Limit)
	}
}

// A seek: what was pushed under the old cookie and had not been sent is dropped,
// and what comes after it has the new one.
func TestSubscribeSeek(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.fill(5, 100)
	b.ask(s, c, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 3, 1)}})
	c.sent = nil
	// The shard has pushed two batches that the reactor has not seen when the seek comes.
	b.receive(s, proto.AppendFrame(nil, 51, &proto.CreditRequest{Subscription: 50, Bytes: 1 << 20}))
	b.shards[0].step()
	if b.links[0].Answers.Len() == 0 {
		t.Fatal("nothing was pushed")
	}
	b.receive(s, proto.AppendFrame(nil, 52, &proto.SubscribeRequest{
		Subscription: 50,
		Remove:       []proto.TopicPartition{{TopicID: topicA, Partition: 0}},
		Add:          []proto.SubscribePartition{subscribe(0, 1, 2)},
	}))
	b.run()
	got := frames(t, c.sent)
	decode(t, answered(t, got), &proto.SubscribeResponse{})
	list := pushes(t, got)
	if len(list) != 4 {
		t.Fatalf("%d pushes, want those from offset 1 on", len(list))
	}
	for i, push := range list {
		if first, _, err := proto.NextBatch(push.Batches); err != nil || push.Cookie != 2 || first.BaseOffset() != int64(1+i) {
			t.Fatalf("push %d: cookie %d, %v", i, push.Cookie, err)
		}
	}
	if b.shards[0].parcels != 0 {
		t.Fatal("dropped parcels did not go back")
	}
}

// With credit for less than one batch one batch comes; an idle shard does not
// keep the credit from a busy one.
func TestSubscribeLittleCredit(t *testing.T) {
	b := newBench(t, benchOptions{shards: 4})
	s, c := b.connect()
	var add []proto.SubscribePartition
	for partition := range uint32(8) {
		add = append(add, subscribe(partition, 0, 0))
		b.ask(s, c, 5, produce(partition, testBatch(t, 1, 1000)))
		b.ask(s, c, 5, produce(partition, testBatch(t, 1, 1000)))
	}
	got := b.ask(s, c, 50, &proto.SubscribeRequest{Add: add, CreditBytes: 1})
	total := len(pushes(t, got))
	if total != 1 {
		t.Fatalf("%d pushes for a credit of 1 byte, want 1", total)
	}
	size := len(pushes(t, got)[0].Batches)
	for round := 0; total < 16; round++ {
		// One batch was overdrawn: the credit for it, and a byte more.
		got := b.ask(s, c, 60, &proto.CreditRequest{Subscription: 50, Bytes: uint64(size)})
		n := len(pushes(t, got))
		if n != 1 {
			t.Fatalf("round %d: %d pushes for the credit of one batch", round, n)
		}
		total += n
	}
	for i, f := range b.shards {
		if f.parcels != 0 {
			t.Fatalf("shard %d: %d parcels are lost", i, f.parcels)
		}
	}
}

func TestSubscribeError(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.ask(s, c, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 9)}, CreditBytes: 100})
	c.sent = nil
	e := proto.CodeUnknownTopic.Errorf("deleted")
	b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerDeliver, Conn: s.ref, ID: 50, Partition: 16, Err: e})
	b.reactor.Turn()
	got := pushes(t, frames(t, c.sent))
	if len(got) != 1 || got[0].Error == nil || got[0].Error.Code != proto.CodeUnknownTopic || got[0].Cookie != 9 || len(got[0].Batches) != 0 {
		t.Fatalf("%+v", got)
	}
	if sub := s.subscriptions[50]; len(sub.partitions) != 0 || sub.credit != 100 {
		t.Fatalf("%d partitions, credit %d", len(sub.partitions), sub.credit)
	}
}

// Changes of one subscription take effect in order, also when they come at once.
func TestSubscribeChangesInOrder(t *testing.T) {
	b := newBench(t, benchOptions{shards: 2})
	s, c := b.connect()
	stream := proto.AppendFrame(nil, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 1), subscribe(1, 0, 1)}})
	stream = proto.AppendFrame(stream, 51, &proto.SubscribeRequest{Subscription: 50, Add: []proto.SubscribePartition{subscribe(0, 0, 2)}})
	stream = proto.AppendFrame(stream, 52, &proto.SubscribeRequest{Subscription: 50, Remove: []proto.TopicPartition{{TopicID: topicA}}, Add: []proto.SubscribePartition{subscribe(0, 0, 3)}})
	stream = proto.AppendFrame(stream, 53, &proto.SubscribeRequest{Subscription: 50, Close: true})
	stream = proto.AppendFrame(stream, 54, &proto.SubscribeRequest{Subscription: 50, Add: []proto.SubscribePartition{subscribe(3, 0, 3)}})
	b.receive(s, stream)
	b.run()
	got := frames(t, c.sent)
	if len(got) != 5 {
		t.Fatalf("%d answers: %v", len(got), got)
	}
	for i, want := range []int{0, 1, 0, 0} {
		m := decode(t, got[i:i+1], &proto.SubscribeResponse{})
		if got[i].header.RequestID != uint64(50+i) || len(m.Errors) != want {
			t.Fatalf("answer %d: request %d, %+v", i, got[i].header.RequestID, m.Errors)
		}
	}
	wantError(t, got[4:], 54, proto.CodeUnknownSubscription)
	if s.pendings.count != 0 || len(s.scatters) != 0 || b.shards[0].order != nil && len(b.shards[0].order)+len(b.shards[1].order) != 0 {
		t.Fatal("something is left")
	}
}

// A client that does not read is not read ahead for without end.
func TestSubscribeSlowReader(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.SendBufferMax = 2 << 20 }})
	s, c := b.connect()
	b.fill(100, 100<<10)
	c.room = 0
	b.receive(s, proto.AppendFrame(nil, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 1)}, CreditBytes: 1 << 40}))
	b.run()
	if n := s.out.dataBytes + len(c.buffered); n > 4<<20 {
		t.Fatalf("%d bytes wait for a client that does not read", n)
	}
	for range 200 {
		c.room = 1 << 20
		c.take()
		b.run()
	}
	if n := len(pushes(t, frames(t, c.sent))); n != 100 {
		t.Fatalf("%d of 100 batches came after it read again", n)
	}
	if b.shards[0].parcels != 0 {
		t.Fatal("parcels are lost")
	}
}

// Random subscribing, seeking, credit and reading: never more than the credit
// and one batch, no push without a subscription, each in order under its cookie,
// and with enough credit everything comes.
func TestSubscribeModel(t *testing.T) {
	batches := make([][]byte, 6)
	for i := range batches {
		batches[i] = testBatch(t, 1, 300*(i+1))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t, benchOptions{shards: 3})
		s, c := b.connect()
		id, credit, cookie := uint64(100), int64(0), uint32(0)
		type place struct {
			cookie uint32
			next   int64
		}
		at := make(map[uint32]*place)
		ends := make(map[uint32]int64)
		b.ask(s, c, 50, &proto.SubscribeRequest{})
		look := func() {
			sent := c.sent
			c.sent = nil
			for _, push := range pushes(t, frames(t, sent)) {
				p := at[push.Partition]
				if p == nil || push.Cookie != p.cookie {
					t.Fatalf("partition %d pushed under cookie %d", push.Partition, push.Cookie)
				}
				if credit <= 0 {
					t.Fatalf("pushed with a credit of %d", credit)
				}
				batch, err := proto.ParseBatch(push.Batches)
				if err != nil || batch.BaseOffset() != p.next {
					t.Fatalf("offset %d pushed, want %d: %v", batch.BaseOffset(), p.next, err)
				}
				credit -= int64(len(push.Batches))
				p.next = batch.NextOffset()
			}
		}
		ask := func(m proto.Message) {
			id++
			b.receive(s, proto.AppendFrame(nil, id, m))
			if rapid.Bool().Draw(t, "run") {
				b.run()
			}
			// Otherwise the shard works later, with older pushes under way.
		}
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				n := rapid.Uint32Range(0, 7).Draw(t, "partition")
				ask(produce(n, batches[rapid.IntRange(0, 5).Draw(t, "batch")]))
				ends[n]++
			},
			"credit": func(t *rapid.T) {
				bytes := rapid.Int64Range(1, 3000).Draw(t, "bytes")
				credit += bytes
				ask(&proto.CreditRequest{Subscription: 50, Bytes: uint64(bytes)})
			},
			"seek": func(t *rapid.T) {
				b.run()
				look() // pushes under the old cookie are legal until now
				n := rapid.Uint32Range(0, 7).Draw(t, "partition")
				cookie++
				offset := rapid.Int64Range(0, ends[n]).Draw(t, "offset")
				at[n] = &place{cookie, offset}
				ask(&proto.SubscribeRequest{
					Subscription: 50,
					Remove:       []proto.TopicPartition{{TopicID: topicA, Partition: n}},
					Add:          []proto.SubscribePartition{subscribe(n, offset, cookie)},
				})
			},
			"remove": func(t *rapid.T) {
				b.run()
				look()
				n := rapid.Uint32Range(0, 7).Draw(t, "partition")
				delete(at, n)
				ask(&proto.SubscribeRequest{Subscription: 50, Remove: []proto.TopicPartition{{TopicID: topicA, Partition: n}}})
			},
			"run": func(*rapid.T) { b.run() },
			"":    func(*rapid.T) { look() },
		})
		credit += 1 << 30
		ask(&proto.CreditRequest{Subscription: 50, Bytes: 1 << 30})
		for range 5 {
			b.run()
		}
		look()
		for n, p := range at {
			if p.next != ends[n] {
				t.Fatalf("partition %d: pushed up to %d of %d", n, p.next, ends[n])
			}
		}
		for i, f := range b.shards {
			if f.parcels != 0 {
				t.Fatalf("shard %d: %d parcels are lost", i, f.parcels)
			}
		}
	})
}

// flood fills the way to the first shard, which does not move.
func (b *bench) flood() {
	for id := uint64(2); b.reactor.backlogs[0].Len() < backlogRequestsMax; {
		s, _ := b.connect()
		for range testSettings().WindowRequests {
			b.receive(s, proto.AppendFrame(nil, id, fetch(0, 0)))
			id++
		}
	}
}

// A shard that hears of a subscription hears of the connection's end too, or it
// would keep the subscription for ever.
func TestLostSubscriptionThatFoundNoRoom(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, _ := b.connect()
	b.flood()
	b.receive(s, proto.AppendFrame(nil, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 0)}, CreditBytes: 1000}))
	b.receive(s, proto.AppendFrame(nil, 51, &proto.CreditRequest{Subscription: 50, Bytes: 1000}))
	s.Lost()
	told, ended := false, false
	for range 100 {
		b.reactor.Turn()
		for r, ok := b.links[0].Requests.Pop(); ok; r, ok = b.links[0].Requests.Pop() {
			if r.Conn == s.ref {
				told = told || r.Kind == mail.RequestCredit
				ended = r.Kind == mail.RequestDisconnect
			}
		}
	}
	if told && !ended {
		t.Error("told of credit and not of the end after it")
	}
}

// A partition that found no room at first and is refused then is not part of the
// subscription.
func TestSubscribeFailsAfterItFoundNoRoom(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.flood()
	c.sent = nil
	b.receive(s, proto.AppendFrame(nil, 50, &proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 0)}, CreditBytes: 1000}))
	b.views.Publish(&testView{epoch: 6}) // the topic is deleted
	b.run()
	m := decode(t, frames(t, c.sent), &proto.SubscribeResponse{})
	if len(m.Errors) != 1 || m.Errors[0].Error.Code != proto.CodeUnknownTopic {
		t.Fatalf("%+v", m)
	}
	if sub := s.subscriptions[50]; len(sub.partitions) != 0 || sub.shards[0].partitions != 0 || sub.shards[0].lent != 0 {
		t.Errorf("left over: %d partitions, %+v", len(sub.partitions), sub.shards[0])
	}
}
