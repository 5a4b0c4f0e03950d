package netio

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func leasePartition(partition uint32, start int64) proto.LeasePartition {
	return proto.LeasePartition{TopicID: topicA, Partition: partition, LeaderEpoch: -1, OwnerEpoch: 3, StartOffset: start}
}

// leases takes the LEASED frames out of what was sent.
func leases(t tb, list []frame) []proto.LeasedPush {
	t.Helper()
	var out []proto.LeasedPush
	for _, f := range list {
		if f.header.Command != proto.CommandLeased {
			continue
		}
		var m proto.LeasedPush
		if err := m.Decode(f.payload); err != nil || !f.header.Answer {
			t.Fatalf("bad LEASED %+v: %v", f.header, err)
		}
		if f.header.RequestID != 50 {
			t.Fatalf("a push of subscription %d", f.header.RequestID)
		}
		out = append(out, m)
	}
	return out
}

// unpushed are the frames that are no LEASED.
func unpushed(list []frame) (out []frame) {
	for _, f := range list {
		if f.header.Command != proto.CommandLeased {
			out = append(out, f)
		}
	}
	return out
}

func records(list []proto.LeasedPush) (n int64) {
	for _, push := range list {
		for _, r := range push.Leases {
			n += r.NextOffset - r.BaseOffset
		}
	}
	return n
}

func TestLease(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	var add []proto.LeasePartition
	for partition := range uint32(8) {
		b.ask(s, c, 5, produce(partition, testBatch(t, 2, 100)))
		add = append(add, leasePartition(partition, 0))
	}
	add[6].StartOffset = -1
	add = append(add, leasePartition(8, 0), leasePartition(3, 0))
	got := b.ask(s, c, 50, &proto.LeaseRequest{Group: "mails", MemberID: "m", Add: add, CreditRecords: 100})
	m := decode(t, unpushed(got), &proto.LeaseResponse{})
	if m.Subscription != 50 || len(m.Errors) != 3 || m.Errors[0].Error.Code != proto.CodeInvalidPartition || m.Errors[1].Error.Code != proto.CodeInvalidRequest ||
		m.Errors[2].Error.Code != proto.CodeOffsetOutOfRange || m.Errors[2].Partition != 6 {
		t.Fatalf("%+v", m)
	}
	seen := make(map[uint32]bool)
	for _, push := range leases(t, got) {
		if push.LeaderEpoch != 7 || push.TimeoutMs != 30_000 || len(push.Batches) == 0 || len(push.Leases) != 1 || push.Leases[0].Attempt != 1 {
			t.Fatalf("%+v", push)
		}
		seen[push.Partition] = true
	}
	if len(seen) != 7 || records(leases(t, got)) != 14 {
		t.Fatalf("leased of %v", seen)
	}
	// What comes later is pushed too, after a removal of others and not of its own.
	decode(t, unpushed(b.ask(s, c, 51, &proto.LeaseRequest{Subscription: 50, Remove: []proto.TopicPartition{{TopicID: topicA, Partition: 1}}})), &proto.LeaseResponse{})
	b.ask(s, c, 6, produce(1, testBatch(t, 1, 100)))
	b.receive(s, proto.AppendFrame(nil, 7, produce(2, testBatch(t, 1, 100))))
	b.run()
	if got := leases(t, frames(t, c.sent)); len(got) != 1 || got[0].Partition != 2 {
		t.Fatalf("%+v", got)
	}
	// Closed, nothing is.
	decode(t, b.ask(s, c, 52, &proto.LeaseRequest{Subscription: 50, Close: true}), &proto.LeaseResponse{})
	b.ask(s, c, 7, produce(2, testBatch(t, 1, 100)))
	if got := leases(t, frames(t, c.sent)); len(got) != 0 {
		t.Fatalf("pushed after the end: %+v", got)
	}
	wantError(t, b.ask(s, c, 53, &proto.LeaseRequest{Subscription: 50, Close: true}), 53, proto.CodeUnknownSubscription)
	for i, f := range b.shards {
		if f.parcels != 0 || len(f.leasings) != 0 {
			t.Fatalf("shard %d: %d parcels, %d leasings", i, f.parcels, len(f.leasings))
		}
	}
	if b.reactor.stats.Subscriptions != 0 {
		t.Fatal("the subscription is still counted")
	}
}

func TestLeaseErrors(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	ok := proto.LeaseRequest{Group: "mails", MemberID: "m"}
	for text, change := range map[string]func(*proto.LeaseRequest){
		"close names the subscription":          func(m *proto.LeaseRequest) { m.Close = true },
		"both lists must be empty":              func(m *proto.LeaseRequest) { m.Close, m.Add = true, []proto.LeasePartition{{}} },
		"no subscription 3":                     func(m *proto.LeaseRequest) { *m = proto.LeaseRequest{Subscription: 3} },
		"they are empty when subscription is":   func(m *proto.LeaseRequest) { m.Subscription = 3 },
		"member_id has 0 bytes; 1 to 64":        func(m *proto.LeaseRequest) { m.MemberID = "" },
		"member_id has 65 bytes":                func(m *proto.LeaseRequest) { m.MemberID = strings.Repeat("m", 65) },
		"1 to 255":                              func(m *proto.LeaseRequest) { m.Group = "" },
		"is 99 ms; allowed are 100 to 86400000": func(m *proto.LeaseRequest) { m.AckTimeoutMs = 99 },
		"is 86400001 ms":                        func(m *proto.LeaseRequest) { m.AckTimeoutMs = 86_400_001 },
	} {
		m := ok
		change(&m)
		got := b.ask(s, c, 5, &m)
		e := &proto.Error{}
		if len(got) != 1 || got[0].header.Command != proto.CommandError || e.Decode(got[0].payload) != nil || !strings.Contains(e.Text, text) {
			t.Errorf("%+v: got %v, want an error with %q", m, e, text)
		}
	}
	bad := []proto.LeasePartition{leasePartition(0, -2), leasePartition(1, 0)}
	bad[1].OwnerEpoch = -1
	m := ok
	m.Add = bad
	r := decode(t, b.ask(s, c, 6, &m), &proto.LeaseResponse{})
	if len(r.Errors) != 2 || !strings.Contains(r.Errors[0].Error.Text, "start_offset -2") || !strings.Contains(r.Errors[1].Error.Text, "owner_epoch -1") {
		t.Errorf("%+v", r)
	}
	wantError(t, b.ask(s, c, 6, &ok), 6, proto.CodeInvalidRequest) // the id names one already
	for id := uint64(100); len(s.leasings) < subscriptionsMax; id++ {
		decode(t, b.ask(s, c, id, &ok), &proto.LeaseResponse{})
	}
	if e := wantError(t, b.ask(s, c, 999, &ok), 999, proto.CodeTooManySubscriptions); e.Limit != subscriptionsMax {
		t.Fatalf("limit %d", e.Limit)
	}
	wantError(t, b.ask(s, c, 999, &proto.SubscribeRequest{}), 999, proto.CodeTooManySubscriptions)
}

// The credit goes where records are, whichever shard has had it before, and never more than there is.
func TestLeaseCreditGoesWhereRecordsAre(t *testing.T) {
	b := newBench(t, benchOptions{shards: 4})
	s, c := b.connect()
	var add []proto.LeasePartition
	for partition := range uint32(8) {
		add = append(add, leasePartition(partition, 0))
	}
	b.ask(s, c, 50, &proto.LeaseRequest{Group: "mails", MemberID: "m", Add: add, CreditRecords: 16})
	for partition := range uint32(8) {
		b.ask(s, c, 5, produce(partition, testBatch(t, 1, 100)))
	}
	c.sent = nil
	b.receive(s, proto.AppendFrame(nil, 5, produce(0, testBatch(t, 9, 100)))) // what is left lies with all shards
	b.run()
	if n := records(leases(t, frames(t, c.sent))); n != 8 {
		t.Fatalf("%d records for a credit of 8", n)
	}
	if n := records(leases(t, b.ask(s, c, 51, &proto.LeaseRequest{Subscription: 50, CreditRecords: 2}))); n != 1 {
		t.Fatalf("%d records where one was left", n)
	}
	for round := range 5 {
		for partition := range uint32(8) { // each shard in turn
			c.sent = nil
			b.receive(s, proto.AppendFrame(nil, 5, produce(partition, testBatch(t, 3, 100))))
			b.run()
			for i := range 3 {
				if n := records(leases(t, frames(t, c.sent))); n != 1 {
					t.Fatalf("round %d, partition %d: %d records for a credit of 1, and %d have been leased", round, partition, n, i)
				}
				b.ask(s, c, 51, &proto.LeaseRequest{Subscription: 50, CreditRecords: 1})
			}
			if n := records(leases(t, frames(t, c.sent))); n != 0 {
				t.Fatalf("%d records that nobody has produced", n)
			}
		}
	}
}

// What was leased before a partition was removed is the member's, and an error ends the part.
func TestLeasePushesUnderWay(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.ask(s, c, 50, &proto.LeaseRequest{Group: "mails", MemberID: "m", Add: []proto.LeasePartition{leasePartition(0, 0), leasePartition(1, 0)}, CreditRecords: 10})
	b.receive(s, proto.AppendFrame(nil, 5, produce(0, testBatch(t, 1, 100))))
	for b.shards[0].step() && b.shards[0].parcels == 0 {
		if b.links[0].Answers.Len() > 0 && b.shards[0].parcels == 0 {
			b.reactor.Turn()
		}
	}
	c.sent = nil
	b.receive(s, proto.AppendFrame(nil, 51, &proto.LeaseRequest{Subscription: 50, Remove: []proto.TopicPartition{{TopicID: topicA, Partition: 0}}}))
	b.run()
	if got := leases(t, frames(t, c.sent)); len(got) != 1 || got[0].Partition != 0 || got[0].Error != nil {
		t.Fatalf("the record that was leased did not come: %+v", got)
	}
	c.sent = nil
	e := proto.CodeUnknownTopic.Errorf("deleted")
	for range 2 { // the second one is of a partition that is no part any more
		b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerLeased, Conn: s.ref, ID: s.leasings[0].serial, Partition: 17, Err: e})
	}
	b.reactor.Turn()
	if got := leases(t, frames(t, c.sent)); len(got) != 1 || got[0].Error == nil || got[0].Error.Code != proto.CodeUnknownTopic || got[0].Partition != 1 || got[0].TopicID != topicA {
		t.Fatalf("%+v", got)
	}
	if l := s.leasings[0]; len(l.partitions) != 0 || l.credit != 9 {
		t.Fatalf("%d partitions, credit %d", len(l.partitions), l.credit)
	}
	b.run()
	if l := s.leasings[0]; l.unlent() != 9 {
		t.Fatalf("%d of 9 records came back from a shard without partitions", l.unlent())
	}
}

// A shard hears of the end of a connection that leased, and what is late for a closed subscription is given back.
func TestLeaseEnds(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	ask := &proto.LeaseRequest{Group: "mails", MemberID: "m", Add: []proto.LeasePartition{leasePartition(0, 0)}, CreditRecords: 10}
	b.ask(s, c, 50, ask)
	b.receive(s, proto.AppendFrame(nil, 5, produce(0, testBatch(t, 1, 100))))
	for b.shards[0].parcels == 0 {
		b.shards[0].step()
		if b.shards[0].parcels == 0 {
			b.reactor.Turn()
		}
	}
	c.sent = nil
	stream := proto.AppendFrame(nil, 51, &proto.LeaseRequest{Subscription: 50, Close: true})
	b.receive(s, proto.AppendFrame(stream, 50, ask)) // the same name again, for another subscription
	b.run()
	if got := leases(t, frames(t, c.sent)); len(got) != 0 || b.shards[0].parcels != 0 {
		t.Fatalf("%d pushes of a closed subscription, %d parcels", len(got), b.shards[0].parcels)
	}
	s.conn.Close()
	b.run()
	if len(b.shards[0].leasings) != 0 || b.reactor.stats.Subscriptions != 0 {
		t.Fatal("the shard still leases to a connection that is gone")
	}
}

// Random partitions, credit and records: never more than the credit, each record once, no
// credit is lost, and with enough of it everything comes.
func TestLeaseModel(t *testing.T) {
	batches := make([][]byte, 4)
	for i := range batches {
		batches[i] = testBatch(t, i+1, 100)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t, benchOptions{shards: 3})
		s, c := b.connect()
		id, credit := uint64(100), int64(0)
		has := make(map[uint32]bool)
		next, ends := make(map[uint32]int64), make(map[uint32]int64)
		b.ask(s, c, 50, &proto.LeaseRequest{Group: "mails", MemberID: "m"})
		look := func() {
			sent := c.sent
			c.sent = nil
			for _, push := range leases(t, frames(t, sent)) {
				for _, r := range push.Leases {
					if r.BaseOffset != next[push.Partition] {
						t.Fatalf("partition %d: leased from %d on, want %d", push.Partition, r.BaseOffset, next[push.Partition])
					}
					next[push.Partition] = r.NextOffset
					credit -= r.NextOffset - r.BaseOffset
				}
			}
			if credit < 0 {
				t.Fatalf("leased %d records beyond the credit", -credit)
			}
			if l := s.leasings[0]; l.unlent() < 0 {
				t.Fatalf("lent %d records beyond the credit", -l.unlent())
			}
		}
		ask := func(t *rapid.T, m proto.Message) {
			id++
			b.receive(s, proto.AppendFrame(nil, id, m))
			switch rapid.IntRange(0, 2).Draw(t, "run") {
			case 0:
				b.run()
			case 1: // one shard works, the others later
				b.shards[rapid.IntRange(0, 2).Draw(t, "shard")].step()
				b.reactor.Turn()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				n, i := rapid.Uint32Range(0, 7).Draw(t, "partition"), rapid.IntRange(0, 3).Draw(t, "batch")
				ask(t, produce(n, batches[i]))
				ends[n] += int64(i + 1)
			},
			"credit": func(t *rapid.T) {
				n := rapid.Uint32Range(1, 6).Draw(t, "records")
				credit += int64(n)
				ask(t, &proto.LeaseRequest{Subscription: 50, CreditRecords: n})
			},
			"add": func(t *rapid.T) {
				n := rapid.Uint32Range(0, 7).Draw(t, "partition")
				has[n] = true
				ask(t, &proto.LeaseRequest{Subscription: 50, Add: []proto.LeasePartition{leasePartition(n, 0)}})
			},
			"remove": func(t *rapid.T) {
				n := rapid.Uint32Range(0, 7).Draw(t, "partition")
				has[n] = false
				ask(t, &proto.LeaseRequest{Subscription: 50, Remove: []proto.TopicPartition{{TopicID: topicA, Partition: n}}})
			},
			"run": func(*rapid.T) { b.run() },
			"":    func(*rapid.T) { look() },
		})
		b.run()
		look()
		behind := int64(0)
		for n, has := range has {
			if has {
				behind += ends[n] - next[n]
			}
		}
		if credit > 0 && behind > 0 {
			t.Fatalf("quiet, with a credit of %d and %d records to lease", credit, behind)
		}
		credit += behind
		ask(t, &proto.LeaseRequest{Subscription: 50, CreditRecords: uint32(behind)})
		b.run()
		look()
		for n, has := range has {
			if has && next[n] != ends[n] {
				t.Fatalf("partition %d: leased up to %d of %d", n, next[n], ends[n])
			}
		}
		for i, f := range b.shards {
			if f.parcels != 0 {
				t.Fatalf("shard %d: %d parcels are lost", i, f.parcels)
			}
		}
	})
}

func TestSettle(t *testing.T) {
	b := newBench(t, benchOptions{shards: 2})
	for _, f := range b.shards {
		f.keep = true
	}
	s, c := b.connect()
	ok := proto.SettleRequest{Group: "mails", MemberID: "m", TopicID: topicA, Partition: 3, Ranges: []proto.SettledRange{
		{BaseOffset: 1, NextOffset: 2, Attempt: 1}, {BaseOffset: 2, NextOffset: 9, Attempt: 2, Outcome: proto.SettlementNack, DelayMs: 10, Reason: "later"}}}
	if m := decode(t, b.ask(s, c, 5, &ok), &proto.SettleResponse{}); len(m.Ranges) != 2 {
		t.Fatalf("%+v", m)
	}
	seen := b.shards[core.ShardOf(19, 2)].seen
	if len(seen) != 1 || seen[0].Partition != 19 || seen[0].Body.(*mail.Settle).Ranges[1].Reason != "later" {
		t.Fatalf("the owner of the partition was sent %+v", seen)
	}
	one := func(r proto.SettledRange) func(*proto.SettleRequest) {
		return func(m *proto.SettleRequest) { m.Ranges = []proto.SettledRange{r} }
	}
	for text, change := range map[string]func(*proto.SettleRequest){
		"0 ranges; 1 to 1024":         func(m *proto.SettleRequest) { m.Ranges = nil },
		"1025 ranges":                 func(m *proto.SettleRequest) { m.Ranges = make([]proto.SettledRange, 1025) },
		"1 to 255":                    func(m *proto.SettleRequest) { m.Group = "" },
		"member_id has 65":            func(m *proto.SettleRequest) { m.MemberID = strings.Repeat("m", 65) },
		"only discard does without":   func(m *proto.SettleRequest) { m.MemberID = "" },
		"range 0 is from 5 to before": one(proto.SettledRange{BaseOffset: 5, NextOffset: 5}),
		"range 0 is from -1":          one(proto.SettledRange{BaseOffset: -1, NextOffset: 5}),
		"range 1 is from 1 to before": func(m *proto.SettleRequest) {
			m.Ranges = []proto.SettledRange{{BaseOffset: 0, NextOffset: 2}, {BaseOffset: 1, NextOffset: 3}}
		},
		"outcome 6":                        one(proto.SettledRange{NextOffset: 1, Outcome: 6}),
		"ack with a delay":                 one(proto.SettledRange{NextOffset: 1, DelayMs: 1}),
		"ack with a reason":                one(proto.SettledRange{NextOffset: 1, Reason: "x"}),
		"a reason of 1025":                 one(proto.SettledRange{NextOffset: 1, Outcome: proto.SettlementReject, Reason: strings.Repeat("x", 1025)}),
		"delay_ms is 604800001":            one(proto.SettledRange{NextOffset: 1, Outcome: proto.SettlementNack, DelayMs: 604_800_001}),
		"extend is 99 ms; allowed are 100": one(proto.SettledRange{NextOffset: 1, Outcome: proto.SettlementExtend, DelayMs: 99}),
		"it has the partitions 0 to 7":     func(m *proto.SettleRequest) { m.Partition = 8 },
	} {
		m := ok
		change(&m)
		got := b.ask(s, c, 5, &m)
		e := &proto.Error{}
		if len(got) != 1 || got[0].header.Command != proto.CommandError || e.Decode(got[0].payload) != nil || !strings.Contains(e.Text, text) {
			t.Errorf("got %v, want an error with %q", e, text)
		}
	}
	m := proto.SettleRequest{Group: "mails", TopicID: topicA, Ranges: []proto.SettledRange{{NextOffset: 9, Outcome: proto.SettlementDiscard}}}
	decode(t, b.ask(s, c, 5, &m), &proto.SettleResponse{})
}

func TestDescribeQueue(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	for partition := range uint32(8) {
		b.ask(s, c, 5, produce(partition, testBatch(t, int(partition)+1, 100)))
		b.ask(s, c, 50+uint64(partition), &proto.LeaseRequest{Group: "mails", MemberID: "m", Add: []proto.LeasePartition{leasePartition(partition, 0)}})
	}
	m := decode(t, b.ask(s, c, 5, &proto.DescribeQueueRequest{Group: "mails", Items: []proto.TopicPartition{{TopicID: topicA, Partition: 3}, {TopicID: topicA, Partition: 9}}}), &proto.DescribeQueueResponse{})
	if len(m.Items) != 2 || m.Items[0].HighWatermark != 4 || m.Items[1].Error.Code != proto.CodeInvalidPartition || m.Items[1].Partition != 9 {
		t.Fatalf("%+v", m)
	}
	m = decode(t, b.ask(s, c, 5, &proto.DescribeQueueRequest{Group: "mails", All: true}), &proto.DescribeQueueResponse{})
	if len(m.Items) != 8 {
		t.Fatalf("%d partitions, want 8", len(m.Items))
	}
	for i, item := range m.Items {
		if item.Partition != uint32(i) || item.HighWatermark != int64(i+1) {
			t.Errorf("place %d: %+v", i, item)
		}
	}
	wantError(t, b.ask(s, c, 5, &proto.DescribeQueueRequest{}), 5, proto.CodeInvalidName)
	wantError(t, b.ask(s, c, 5, &proto.DescribeQueueRequest{Group: "mails", All: true, Items: []proto.TopicPartition{{}}}), 5, proto.CodeInvalidRequest)
}

// However many partitions are asked for and whatever members said, the answer is a frame that clients take.
func TestDescribeQueueFitsAFrame(t *testing.T) {
	for _, partitions := range []int{1, 200, core.PartitionsPerTopicMax} {
		items := make([]proto.QueuePartition, partitions)
		for i := range items {
			for range 10 {
				items[i].Blockers = append(items[i].Blockers, proto.QueueBlocker{MemberID: strings.Repeat("m", 36), Reason: strings.Repeat("x", core.SettleReasonBytesMax)})
			}
		}
		boundBlockers(items)
		if frame := proto.AppendFrame(nil, 1, &proto.DescribeQueueResponse{Items: items}); len(frame) > core.FrameBytesMax {
			t.Errorf("%d partitions: a frame of %d bytes", partitions, len(frame))
		}
		if partitions == 1 && len(items[0].Blockers) != 10 || partitions == 200 && len(items[0].Blockers) < 2 {
			t.Errorf("%d partitions: %d blockers of each", partitions, len(items[0].Blockers))
		}
	}
}

// Clients check a lease and a delay by the protocol's limits; topics are held to the same.
func TestLeaseLimitsAreThoseOfTopics(t *testing.T) {
	for name, same := range map[string]bool{
		"nack":   core.QueueBackoffMax.Milliseconds() == proto.NackDelayMsMax,
		"lowest": core.QueueAckTimeoutMin.Milliseconds() == proto.LeaseTimeoutMsMin,
		"lease":  core.QueueAckTimeoutMax.Milliseconds() == proto.LeaseTimeoutMsMax,
	} {
		if !same {
			t.Errorf("%s: the protocol allows clients what topics do not allow, or the other way round", name)
		}
	}
}
