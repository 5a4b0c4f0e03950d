package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// queueVariable makes a process of this test program a member of a queue group: it holds the broker's address.
const queueVariable = "QUEUE_MEMBER_OF"

// queueMemberMain is such a process: it says what it works on, and dies of the message "poison".
func queueMemberMain(address string) int {
	ctx := context.Background()
	client, err := pulsemq.Connect(ctx, address)
	if err != nil {
		fmt.Println("connect:", err)
		return 1
	}
	q, err := client.NewQueueConsumer("q", pulsemq.QueueTopics("t"), pulsemq.QueueSessionTimeout(time.Second))
	if err != nil {
		fmt.Println("join:", err)
		return 1
	}
	for m, err := range q.Messages(ctx) {
		if err != nil {
			fmt.Println("poll:", err)
			return 1
		}
		fmt.Printf("%s %d\n", m.Value, m.Attempt)
		if string(m.Value) == "poison" {
			os.Exit(3)
		}
		if err := m.Ack().Wait(ctx); err != nil {
			fmt.Println("ack:", err)
			return 1
		}
		if string(m.Value) == "last" {
			if err := q.Close(ctx); err != nil {
				fmt.Println("close:", err)
				return 1
			}
			return 0
		}
	}
	return 1
}

func queueTopic(t *testing.T, client *pulsemq.Client, partitions int, settings map[string]string) {
	t.Helper()
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: uint32(partitions), Config: settings}); err != nil {
		t.Fatal(err)
	}
}

// queueRun is what the members of a queue group do together.
type queueRun struct {
	t     *testing.T
	mu    sync.Mutex
	seen  map[string]int  // deliveries
	acked map[string]bool // the broker has said so
}

// deliver notes a delivery: one of a message that is known to be acknowledged must never come.
func (r *queueRun) deliver(m *pulsemq.QueueMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[string(m.Value)]++
	if r.acked[string(m.Value)] {
		r.t.Errorf("message %s is delivered (attempt %d) after it was acknowledged", m.Value, m.Attempt)
	}
}

func (r *queueRun) ack(ctx context.Context, m *pulsemq.QueueMessage) {
	err := m.Ack().Wait(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.acked[string(m.Value)] = true
	}
}

func (r *queueRun) done() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acked)
}

// consume runs a member until stop is called.
func (r *queueRun) consume(client *pulsemq.Client, handle func(context.Context, *pulsemq.QueueMessage) error, options ...pulsemq.QueueOption) (stop func()) {
	r.t.Helper()
	q, err := client.NewQueueConsumer("q", append([]pulsemq.QueueOption{pulsemq.QueueTopics("t"), pulsemq.QueueSessionTimeout(5 * time.Second)}, options...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := q.Handle(context.Background(), handle); err != nil {
			r.t.Error(err)
		}
	})
	return func() {
		if err := q.Close(within(r.t)); err != nil {
			r.t.Error(err)
		}
		running.Wait()
	}
}

// settled waits until the group owes nothing.
func settled(t *testing.T, client *pulsemq.Client) {
	t.Helper()
	eventually(t, func() bool {
		partitions, err := client.Admin().DescribeQueue(within(t), "q")
		if err != nil || len(partitions) == 0 {
			return false
		}
		for _, p := range partitions {
			if p.LowOffset != p.HighWatermark || p.Window != 0 {
				return false
			}
		}
		return true
	})
}

// Members come and go, handlers fail: each message is acknowledged once, and those that failed come again.
func TestRealBrokerQueue(t *testing.T) {
	t.Parallel()
	b := realBroker(t, "--set", "broker.shards=4", "--set", "broker.reactors=2", "--set", "broker.pin-threads=false")
	client := connect(t, b)
	queueTopic(t, client, 4, nil)
	const messages = 1_200
	produceMany(t, client, 0, messages, 4)
	r := &queueRun{t: t, seen: map[string]int{}, acked: map[string]bool{}}
	failing := func(m *pulsemq.QueueMessage) bool { return m.Offset%10 == 3 }
	handle := func(ctx context.Context, m *pulsemq.QueueMessage) error {
		r.deliver(m)
		if failing(m) && m.Attempt < 3 {
			return fmt.Errorf("attempt %d fails", m.Attempt)
		}
		if failing(m) && m.Attempt != 3 {
			t.Errorf("offset %d is acknowledged at attempt %d, want 3", m.Offset, m.Attempt)
		}
		r.ack(ctx, m)
		return nil
	}
	first := r.consume(client, handle, pulsemq.QueueConcurrency(8))
	second := r.consume(client, handle, pulsemq.QueueConcurrency(4), pulsemq.QueuePrefetch(16))
	eventually(t, func() bool { return r.done() > messages/4 })
	first()
	third := r.consume(client, handle, pulsemq.QueueConcurrency(8))
	eventually(t, func() bool { return r.done() == messages })
	second()
	third()
	settled(t, client)
	for v, n := range r.seen {
		if n != 1 && n != 3 {
			t.Errorf("message %s was delivered %d times", v, n)
		}
	}
	offsets, err := client.Admin().GroupOffsets(within(t), "q")
	if err != nil || len(offsets) != 4 {
		t.Fatalf("%v, %v", offsets, err)
	}
	for _, o := range offsets {
		if o.Lag() != 0 {
			t.Errorf("partition %d has a lag of %d", o.Partition, o.Lag())
		}
	}
}

// The broker is killed again and again: what it has acknowledged to be settled never comes again, and everything else does.
func TestRealBrokerQueueKilled(t *testing.T) {
	t.Parallel()
	shards := []string{"--set", "broker.shards=3", "--set", "broker.reactors=2", "--set", "broker.pin-threads=false"}
	b := realBroker(t, shards...)
	client := connect(t, b)
	queueTopic(t, client, 3, map[string]string{"queue.max.deliveries": "unlimited"})
	const messages = 1_500
	produceMany(t, client, 0, messages, 3)
	r := &queueRun{t: t, seen: map[string]int{}, acked: map[string]bool{}}
	handle := func(ctx context.Context, m *pulsemq.QueueMessage) error {
		r.deliver(m)
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		r.ack(ctx, m)
		return nil
	}
	stops := []func(){r.consume(client, handle, pulsemq.QueueConcurrency(8)), r.consume(client, handle, pulsemq.QueueConcurrency(8), pulsemq.QueuePrefetch(64))}
	for i := range 4 {
		eventually(t, func() bool { return r.done() > (i+1)*messages/6 })
		b.kill()
		var err error
		if b, err = startBroker(b.data, b.address, shards...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.kill)
	}
	settled(t, client)
	for _, stop := range stops {
		stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) != messages {
		t.Errorf("%d of %d messages were delivered", len(r.seen), messages)
	}
}

// A message that kills its process is dead after its deliveries; its neighbours are delivered once each, as the first time.
func TestRealBrokerQueuePoison(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	queueTopic(t, client, 1, map[string]string{"queue.max.deliveries": "3"})
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"a", "b", "poison", "c", "d", "last"} {
		if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t", Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	said := ""
	for range 4 {
		member := exec.CommandContext(within(t), os.Args[0])
		member.Env = append(os.Environ(), queueVariable+"="+b.address)
		out, err := member.Output()
		said += string(out)
		var exit *exec.ExitError
		if err == nil {
			break
		}
		if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Fatalf("the member ended with %v and said %s", err, out)
		}
	}
	if want := "a 1\nb 1\npoison 1\npoison 2\npoison 3\nc 1\nd 1\nlast 1\n"; said != want {
		t.Errorf("the members said\n%swant\n%s", said, want)
	}
	dead := func() pulsemq.QueuePartition {
		partitions, err := client.Admin().DescribeQueue(within(t), "q")
		if err != nil || len(partitions) != 1 {
			t.Fatalf("%v, %v", partitions, err)
		}
		return partitions[0]
	}
	if d := dead(); d.Dead != 1 || d.LowOffset != 2 || len(d.Blockers) != 1 || d.Blockers[0].Offset != 2 || d.Blockers[0].State != pulsemq.QueueDead || d.Blockers[0].Attempt != 3 {
		t.Errorf("the group stands at %+v", d)
	}
	if n, err := client.Admin().DiscardDead(within(t), "q", "t", 0, 0, 6); n != 1 || err != nil {
		t.Errorf("discarded %d, %v", n, err)
	}
	if d := dead(); d.Dead != 0 || d.LowOffset != 6 || d.Window != 0 {
		t.Errorf("after that it stands at %+v", d)
	}
}

// A message that takes longer than it may goes to somebody else, and whoever was slow is told when it settles.
func TestRealBrokerQueueLeaseRunsOut(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	queueTopic(t, client, 1, nil)
	produceMany(t, client, 0, 1, 1)
	told := make(chan error, 1)
	release, late := make(chan struct{}), make(chan error, 1)
	r := &queueRun{t: t, seen: map[string]int{}, acked: map[string]bool{}}
	slow := r.consume(client, func(ctx context.Context, m *pulsemq.QueueMessage) error {
		if m.Attempt > 1 {
			return errors.New("the other one shall have it")
		}
		<-release
		late <- m.Ack().Wait(ctx)
		return nil
	}, pulsemq.QueueAckTimeout(200*time.Millisecond), pulsemq.QueueHandleMax(time.Second),
		pulsemq.QueueOnError(func(_ *pulsemq.QueueMessage, err error) { told <- err }))
	eventually(t, func() bool {
		p, err := client.Admin().DescribeQueue(within(t), "q")
		return err == nil && len(p) == 1 && p[0].Leased == 1 && p[0].Blockers[0].Attempt == 1
	})
	quick := r.consume(client, func(ctx context.Context, m *pulsemq.QueueMessage) error {
		if m.Attempt < 2 {
			t.Errorf("attempt %d goes to another member", m.Attempt)
		}
		r.ack(ctx, m)
		return nil
	})
	eventually(t, func() bool { return r.done() == 1 })
	close(release)
	if err := <-late; !errors.Is(err, pulsemq.ErrLeaseLost) {
		t.Errorf("who is late hears %v", err)
	}
	if err := <-told; !errors.Is(err, pulsemq.ErrLeaseLost) {
		t.Errorf("QueueOnError hears %v", err)
	}
	slow()
	quick()
	settled(t, client)
}

// A group is set back while its member works: the member joins anew, and everything comes once more, as the first time.
func TestRealBrokerQueueSeek(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	queueTopic(t, client, 2, nil)
	const messages = 200
	produceMany(t, client, 0, messages, 2)
	var mu sync.Mutex
	seen, deliveries := map[string]int{}, 0
	r := &queueRun{t: t}
	stop := r.consume(client, func(_ context.Context, m *pulsemq.QueueMessage) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[string(m.Value)]++; m.Attempt != 1 {
			t.Errorf("message %s is attempt %d", m.Value, m.Attempt)
		}
		deliveries++
		return nil
	}, pulsemq.QueueConcurrency(4))
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return deliveries
	}
	eventually(t, func() bool { return count() == messages })
	settled(t, client)
	if err := client.Admin().SeekGroup(within(t), "q", "t", map[uint32]int64{0: 0, 1: 50}, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return count() == messages+messages/2+50 })
	settled(t, client)
	stop()
	for v, n := range seen {
		if n > 2 {
			t.Errorf("message %s came %d times", v, n)
		}
	}
}

// A static member that comes back within its session time-out takes its place, and the process that had it is told.
func TestRealBrokerQueueInstance(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	queueTopic(t, client, 2, nil)
	options := []pulsemq.QueueOption{pulsemq.QueueTopics("t"), pulsemq.QueueInstance("host-1"), pulsemq.QueueSessionTimeout(10 * time.Second)}
	members := func() []pulsemq.GroupMember {
		d, err := client.Admin().DescribeGroup(within(t), "q")
		if err != nil {
			return nil
		}
		return d.Members
	}
	first, err := client.NewQueueConsumer("q", options...)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(members()) == 1 })
	if err := first.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if m := members(); len(m) != 1 || m[0].Instance != "host-1" {
		t.Fatalf("a static member that has closed leaves %+v", m)
	}
	second, err := client.NewQueueConsumer("q", options...)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(members()) == 1 && members()[0].ID == second.MemberID() })
	third, err := client.NewQueueConsumer("q", options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Poll(within(t)); !errors.Is(err, pulsemq.ErrStaleEpoch) {
		t.Errorf("whose place was taken hears %v", err)
	}
	produceMany(t, client, 0, 1, 1)
	if m, err := third.Poll(within(t)); err != nil {
		t.Error(err)
	} else if err := m.Ack().Wait(within(t)); err != nil {
		t.Error(err)
	}
	for _, q := range []*pulsemq.QueueConsumer{second, third} {
		if err := q.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
}
