package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// queued makes a topic with so many messages, by turns in its partitions.
func queued(t testing.TB, c *fakebroker.Cluster, client *Client, topic string, partitions, messages int) {
	t.Helper()
	c.Create(topic, partitions)
	p := producer(t, client)
	for i := range messages {
		if _, err := p.Send(within(t), &Message{Topic: topic, Partition: PartitionNumber(uint32(i % partitions)), Value: fmt.Appendf(nil, "%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
}

func queueConsumer(t testing.TB, client *Client, options ...QueueOption) *QueueConsumer {
	t.Helper()
	q, err := client.NewQueueConsumer("mails", append([]QueueOption{QueueTopics("jobs")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	q.backoff.Min, q.backoff.Max = time.Millisecond, 10*time.Millisecond
	t.Cleanup(func() { q.Close(within(t)) })
	return q
}

// counts is what handlers have seen.
type counts struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counts) add(m *QueueMessage) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[string(m.Value)]++
	return len(c.seen)
}

func (c *counts) total() (messages, deliveries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.seen {
		deliveries += n
	}
	return len(c.seen), deliveries
}

// Members share partitions, each message goes to one of them, and acknowledgements are sent together.
func TestQueueMembersShareMessages(t *testing.T) {
	c := fake(t, 2)
	client := connect(t, c)
	queued(t, c, client, "jobs", 3, 300)
	var seen counts
	var by [3]counts
	var all sync.WaitGroup
	consumers := make([]*QueueConsumer, 3)
	for i := range consumers {
		consumers[i] = queueConsumer(t, client, QueueConcurrency(4), QueuePrefetch(8))
		all.Go(func() {
			err := consumers[i].Handle(within(t), func(_ context.Context, m *QueueMessage) error {
				if m.Attempt != 1 || m.Topic != "jobs" {
					t.Errorf("attempt %d of a message of topic %s", m.Attempt, m.Topic)
				}
				by[i].add(m)
				seen.add(m)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "every message is acknowledged", func() bool { return c.Settled(proto.SettlementAck) == 300 })
	for _, q := range consumers {
		if err := q.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if messages, deliveries := seen.total(); messages != 300 || deliveries != 300 {
		t.Errorf("%d messages were delivered %d times, want 300 once", messages, deliveries)
	}
	if n := len(c.Members("mails")); n != 0 {
		t.Errorf("%d members are left", n)
	}
}

// The outcomes: done, again, again later, never, and what an error of the handler makes of it.
func TestQueueOutcomes(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 7)
	q := queueConsumer(t, client, QueueConcurrency(2))
	var seen counts
	var all sync.WaitGroup
	all.Go(func() {
		q.Handle(within(t), func(ctx context.Context, m *QueueMessage) error {
			seen.add(m)
			switch v := string(m.Value); {
			case v == "1" && m.Attempt < 3:
				return errors.New("not yet")
			case v == "2" && m.Attempt < 2:
				return fmt.Errorf("wrapped: %w", RetryAfter(time.Millisecond, errors.New("later")))
			case v == "3":
				return Rejected(errors.New("no such user"))
			case v == "4":
				return errors.New("always")
			case v == "5" && m.Attempt == 1:
				return m.Nack(0, "by hand").Wait(ctx)
			case v == "6":
				if err := m.Ack().Wait(ctx); err != nil {
					t.Error(err)
				}
				return errors.New("too late to say") // it is acknowledged
			}
			return nil
		})
	})
	until(t, "everything has its outcome", func() bool {
		return c.Settled(proto.SettlementAck) == 5 && len(c.Dead("mails")) == 2
	})
	q.Close(within(t))
	all.Wait()
	if dead := c.Dead("mails"); dead[3] != "no such user" || dead[4] != "always" {
		t.Errorf("dead are %v", dead)
	}
	want := map[string]int{"0": 1, "1": 3, "2": 2, "3": 1, "4": 5, "5": 2, "6": 1}
	for v, n := range want {
		if seen.seen[v] != n {
			t.Errorf("message %s was delivered %d times, want %d", v, seen.seen[v], n)
		}
	}
}

// A loop acknowledges what it has not settled, when it asks for more and when it ends.
func TestQueueMessages(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 5)
	q := queueConsumer(t, client)
	var got []string
	for m, err := range q.Messages(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s.%d", m.Value, m.Attempt))
		if string(m.Value) == "1" && m.Attempt == 1 {
			m.Nack(0, "again")
		}
		if len(got) == 4 {
			break
		}
	}
	if err := q.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0.1", "1.1", "1.2", "2.1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := c.Settled(proto.SettlementAck); n != 3 {
		t.Errorf("%d are acknowledged, want 3", n)
	}
	if _, err := q.Poll(within(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed consumer says %v", err)
	}
}

// By hand: what Wait tells, and that a message has one outcome.
func TestQueuePoll(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 2)
	q := queueConsumer(t, client)
	m, err := q.Poll(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Extend(0).Wait(within(t)); err != nil {
		t.Error(err)
	}
	if err := m.Ack().Wait(within(t)); err != nil {
		t.Error(err)
	}
	if err := m.Ack().Wait(within(t)); err != nil {
		t.Errorf("acknowledged again: %v", err)
	}
	if err := m.Nack(0, "").Wait(within(t)); !errors.Is(err, ErrSettled) {
		t.Errorf("given back after it was acknowledged: %v", err)
	}
	if m, err = q.Poll(within(t)); err != nil || string(m.Value) != "1" {
		t.Fatalf("%v, %v", m, err)
	}
	if err := m.Release().Wait(within(t)); err != nil {
		t.Error(err)
	}
	if m, err = q.Poll(within(t)); err != nil || m.Attempt != 1 {
		t.Errorf("after a release: %+v, %v", m, err)
	}
}

// Nobody is given more than is asked for: what waits behind a slow message goes to others.
func TestQueueHoldsNoMoreThanItsCredit(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 2, 20)
	slow := queueConsumer(t, client)
	m, err := slow.Poll(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Leased("mails"); n != 1 {
		t.Errorf("%d are leased to one that works on one", n)
	}
	other := queueConsumer(t, client)
	for range 19 {
		m, err := other.Poll(within(t))
		if err != nil {
			t.Fatal(err)
		}
		m.Ack()
	}
	m.Ack()
	until(t, "everything is settled", func() bool { return c.Unsettled("mails") == 0 })
}

// A lease is kept up while its message is worked on, and what waits here for long is given back.
func TestQueueExtends(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 2)
	q := queueConsumer(t, client, QueueAckTimeout(200*time.Millisecond), QueuePrefetch(2))
	m, err := q.Poll(within(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the lease is extended a few times", func() bool { return c.Settled(proto.SettlementExtend) >= 5 })
	until(t, "the message behind it is given back", func() bool { return c.Settled(proto.SettlementRelease) >= 1 })
	if err := m.Ack().Wait(within(t)); err != nil {
		t.Errorf("the lease was lost: %v", err)
	}
	if m, err = q.Poll(within(t)); err != nil || m.Attempt != 1 {
		t.Fatalf("attempt %d of what had waited: %v", m.Attempt, err)
	}
}

// An extension that has not left yet is not sent any more once its message has an outcome.
func TestQueueOutcomeOutdoesExtension(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 2)
	q := queueConsumer(t, client, QueuePrefetch(2))
	var messages []*QueueMessage
	for range 2 {
		m, err := q.Poll(within(t))
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	held := make(chan struct{})
	c.SetFault(func(request proto.Message) fakebroker.Fault {
		if _, ok := request.(*proto.SettleRequest); ok {
			<-held
		}
		return fakebroker.Fault{}
	})
	sent, waits := messages[0].Extend(0), messages[1].Extend(0)
	ack := messages[1].Ack()
	if err := waits.Wait(within(t)); err != nil { // while nothing is answered
		t.Error(err)
	}
	close(held)
	for _, s := range []*Settling{sent, ack} {
		if err := s.Wait(within(t)); err != nil {
			t.Error(err)
		}
	}
	if n := c.Settled(proto.SettlementExtend); n != 1 {
		t.Errorf("%d extensions have come, want 1", n)
	}
}

// Who loses a lease is told, in each way that there is; the message goes to somebody else.
func TestQueueLeaseLost(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 1)
	told := make(chan error, 10)
	q := queueConsumer(t, client, QueueOnError(func(m *QueueMessage, err error) { told <- fmt.Errorf("%s: %w", m.Value, err) }))
	var first *QueueMessage
	began := make(chan struct{})
	ended := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() {
		q.Handle(within(t), func(ctx context.Context, m *QueueMessage) error {
			if m.Attempt > 1 {
				return nil
			}
			first = m
			close(began)
			select {
			case <-ctx.Done():
			case <-time.After(testTime / 2):
			}
			ended <- context.Cause(ctx)
			return nil
		})
	})
	<-began
	c.Node(1).DropAll()
	if err := <-ended; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the handler's context ended with %v", err)
	}
	if err := <-told; !errors.Is(err, ErrLeaseLost) || !strings.HasPrefix(err.Error(), "0: ") {
		t.Errorf("QueueOnError got %v", err)
	}
	until(t, "it is delivered again", func() bool { return c.Settled(proto.SettlementAck) == 1 })
	if err := first.Lost(); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the message says %v", err)
	}
	if err := first.Ack().Wait(within(t)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("its acknowledgement says %v", err)
	}
	q.Close(within(t))
	all.Wait()
}

// At most once: a message is acknowledged before anybody sees it.
func TestQueueAtMostOnce(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 10)
	q := queueConsumer(t, client, QueueAtMostOnce(), QueuePrefetch(3))
	for i := range 10 {
		m, err := q.Poll(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Settled(proto.SettlementAck); n <= i || n > i+3 {
			t.Errorf("message %d is handed out with %d acknowledged", i, n)
		}
		m.Nack(0, "") // is too late
	}
	if n := c.Settled(proto.SettlementNack); n != 0 {
		t.Errorf("%d came again", n)
	}
}

// A member that was removed joins anew, and what it had begun still counts.
func TestQueueMemberRemoved(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 3)
	q := queueConsumer(t, client, QueueSessionTimeout(time.Second))
	m, err := q.Poll(within(t))
	if err != nil {
		t.Fatal(err)
	}
	id := q.MemberID()
	c.RemoveMember("mails", id)
	until(t, "it has joined anew", func() bool { return q.MemberID() != id })
	if err := m.Ack().Wait(within(t)); err != nil {
		t.Errorf("what was begun before: %v", err)
	}
	for range 2 {
		m, err := q.Poll(within(t))
		if err != nil || m.Attempt != 1 {
			t.Fatalf("attempt %d: %v", m.Attempt, err)
		}
		m.Ack()
	}
	until(t, "everything is settled once", func() bool { return c.Settled(proto.SettlementAck) == 3 })
}

// Another process under the same instance ends this one.
func TestQueueInstanceTaken(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 1)
	old := queueConsumer(t, client, QueueInstance("host-1"), QueueSessionTimeout(time.Second))
	until(t, "it has joined", func() bool { return old.MemberID() != "" })
	queueConsumer(t, client, QueueInstance("host-1"))
	for {
		m, err := old.Poll(within(t))
		if errors.Is(err, ErrStaleEpoch) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	}
}

// Where a group begins that has not begun.
func TestQueueStart(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 5)
	for _, x := range []struct {
		name   string
		option QueueOption
		want   string
	}{{"earliest", QueueStart(StartEarliest()), "0"}, {"offset", QueueStart(StartOffset(3)), "3"}, {"time", QueueStart(StartTime(time.Unix(1, 0))), "0"}} {
		q, err := client.NewQueueConsumer(x.name, QueueTopics("jobs"), x.option)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := q.Poll(within(t)); err != nil || string(m.Value) != x.want {
			t.Errorf("%s: begins with %v, %v", x.name, m, err)
		}
		q.Close(within(t))
	}
	q, err := client.NewQueueConsumer("none", QueueTopics("jobs"), QueueStartNone())
	if err != nil {
		t.Fatal(err)
	}
	var about *PartitionError
	if _, err := q.Poll(within(t)); !errors.As(err, &about) || !errors.Is(err, ErrNoOffset) || !about.Stopped {
		t.Errorf("none: %v", err)
	}
	q.Close(within(t))
	q, err = client.NewQueueConsumer("latest", QueueTopics("jobs"), QueueStart(StartLatest()))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(within(t))
	until(t, "it has begun", func() bool { return c.Requests(proto.CommandLease) > 0 && q.leases() == 1 })
	p := producer(t, client)
	p.Send(within(t), &Message{Topic: "jobs", Value: []byte("new")})
	p.Close(within(t))
	if m, err := q.Poll(within(t)); err != nil || string(m.Value) != "new" {
		t.Errorf("latest: begins with %v, %v", m, err)
	}
}

// leases is how many partitions are leased from.
func (q *QueueConsumer) leases() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.parts {
		if p.leasing != nil && !p.leasing.asking {
			n++
		}
	}
	return n
}

// Close gives back what nobody has begun: for others it is the first delivery.
func TestQueueCloseReleases(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 8)
	q := queueConsumer(t, client, QueuePrefetch(8))
	m, err := q.Poll(within(t))
	if err != nil {
		t.Fatal(err)
	}
	m.Ack()
	until(t, "all have come", func() bool { // what is under way when it closes may count as delivered
		q.mu.Lock()
		defer q.mu.Unlock()
		for l := range q.all {
			if l.asking || l.owed > 0 {
				return false
			}
		}
		return len(q.ready) == 7
	})
	if err := q.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	next := queueConsumer(t, client)
	for i := 1; i < 8; i++ {
		m, err := next.Poll(within(t))
		if err != nil || m.Attempt != 1 || string(m.Value) != fmt.Sprint(i) {
			t.Fatalf("%d: message %s, attempt %d: %v", i, m.Value, m.Attempt, err)
		}
		m.Ack()
	}
}

// Connections that end and leaders that move cost deliveries, and no message.
func TestQueueFaults(t *testing.T) {
	c := fake(t, 2)
	c.DeliveriesMax = 1000
	client := connect(t, c)
	queued(t, c, client, "jobs", 2, 400)
	var seen counts
	q := queueConsumer(t, client, QueueConcurrency(8), QueuePrefetch(32))
	var all sync.WaitGroup
	all.Go(func() {
		q.Handle(within(t), func(_ context.Context, m *QueueMessage) error { seen.add(m); return nil })
	})
	for i := range 6 {
		n := (i + 1) * 50
		until(t, "messages come", func() bool { return c.Settled(proto.SettlementAck) >= n })
		if i%2 == 0 {
			c.Node(uint32(i%2 + 1)).DropAll()
		} else {
			c.MoveLeader("jobs", 0, uint32(i/2%2+1))
		}
	}
	until(t, "everything is settled", func() bool {
		messages, _ := seen.total()
		return messages == 400 && c.Unsettled("mails") == 0
	})
	q.Close(within(t))
	all.Wait()
}

// What compaction has taken out is acknowledged, and what is damaged goes back with the reason.
func TestQueueUnpack(t *testing.T) {
	var b proto.BatchBuilder
	b.Reset(proto.CodecNone)
	for i := range 3 {
		if err := b.Append(&proto.Record{Timestamp: 1_700_000_000_000, Value: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	proto.Batch(batch).SetBaseOffset(10)
	push := func(bytes []byte, leases ...proto.LeasedRange) (string, string) {
		messages, others := unpack(&proto.LeasedPush{Leases: leases, Batches: bytes}, "jobs")
		var m, o []string
		for _, x := range messages {
			m = append(m, fmt.Sprintf("%d.%d", x.Offset, x.Attempt))
		}
		for _, x := range others {
			o = append(o, fmt.Sprintf("%v %d-%d.%d", x.outcome, x.base, x.next, x.attempt))
		}
		return strings.Join(m, " "), strings.Join(o, " ")
	}
	for _, x := range []struct {
		leases   []proto.LeasedRange
		messages string
		others   string
	}{
		{[]proto.LeasedRange{{BaseOffset: 10, NextOffset: 13, Attempt: 1}}, "10.1 11.1 12.1", ""},
		{[]proto.LeasedRange{{BaseOffset: 11, NextOffset: 12, Attempt: 2}}, "11.2", ""},
		{[]proto.LeasedRange{{BaseOffset: 10, NextOffset: 11, Attempt: 2}, {BaseOffset: 12, NextOffset: 13, Attempt: 1}}, "10.2 12.1", ""},
		{[]proto.LeasedRange{{BaseOffset: 8, NextOffset: 11, Attempt: 1}}, "10.1", "ack 8-10.1"},
		{[]proto.LeasedRange{{BaseOffset: 5, NextOffset: 7, Attempt: 3}, {BaseOffset: 12, NextOffset: 15, Attempt: 1}}, "12.1", "ack 5-7.3 ack 13-15.1"},
		{[]proto.LeasedRange{{BaseOffset: 20, NextOffset: 21, Attempt: 1}}, "", "ack 20-21.1"},
	} {
		if m, o := push(batch, x.leases...); m != x.messages || o != x.others {
			t.Errorf("%v: messages %q and outcomes %q, want %q and %q", x.leases, m, o, x.messages, x.others)
		}
	}
	damaged := slices.Clone(batch)
	damaged[len(damaged)-2] ^= 1
	if m, o := push(damaged, proto.LeasedRange{BaseOffset: 10, NextOffset: 13, Attempt: 1}); m != "" || o != "nack 10-13.1" {
		t.Errorf("damaged: messages %q and outcomes %q", m, o)
	}
}

func TestQueueOptionsAreChecked(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	_, err := client.NewQueueConsumer("", QueueConcurrency(0), QueuePrefetch(-1), QueueAckTimeout(time.Millisecond), QueueHandleMax(0), QueueSessionTimeout(1), QueueStart(StartOffset(-1)))
	if err == nil {
		t.Fatal("all of it is wrong")
	}
	for _, want := range []string{"group", "QueueTopics nor QueuePattern", "QueueConcurrency 0", "QueuePrefetch -1", "QueueAckTimeout 1ms", "QueueHandleMax 0s", "QueueSessionTimeout 1ns", "start offset -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q: %v", want, err)
		}
	}
}
