package pulsemq_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// groupRun counts what the members of a group process.
type groupRun struct {
	t     *testing.T
	mu    sync.Mutex
	seen  map[string]int // by partition and offset
	moved chan struct{}
}

func (r *groupRun) process(rec *pulsemq.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[fmt.Sprintf("%s/%d/%d", rec.Topic, rec.Partition, rec.Offset)]++
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

func (r *groupRun) distinct() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// until waits for the run to have seen n records.
func (r *groupRun) until(ctx context.Context, n int) {
	r.t.Helper()
	for r.distinct() < n {
		select {
		case <-r.moved:
		case <-ctx.Done():
			r.t.Fatalf("%d of %d records were processed", r.distinct(), n)
		}
	}
}

// consume runs a member until stop is called, which closes it gracefully.
func (r *groupRun) consume(client *pulsemq.Client, options ...pulsemq.GroupOption) (g *pulsemq.GroupConsumer, stop func()) {
	r.t.Helper()
	options = append([]pulsemq.GroupOption{pulsemq.GroupTopics("t"), pulsemq.GroupAutoCommit(50 * time.Millisecond), pulsemq.GroupSessionTimeout(5 * time.Second)}, options...)
	g, err := client.NewGroupConsumer("g", options...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		for rec, err := range g.Records(ctx) {
			switch {
			case err != nil && ctx.Err() != nil: // a record that is handed out counts as processed when the loop ends
				return
			case err != nil:
				r.t.Error(err)
			default:
				r.process(rec)
			}
		}
	})
	return g, func() {
		cancel()
		loop.Wait()
		if err := g.Close(within(r.t)); err != nil {
			r.t.Error(err)
		}
	}
}

func produceMany(t *testing.T, client *pulsemq.Client, from, to, partitions int) {
	t.Helper()
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		m := &pulsemq.Message{Topic: "t", Partition: pulsemq.PartitionNumber(uint32(i % partitions)), Value: fmt.Append(nil, i)}
		if err := p.SendAsync(within(t), m, func(_ pulsemq.Result, err error) {
			if err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
}

// TestRealBrokerGroup shares a topic between members that come and go, through a kill -9 of the broker: every record is
// processed, a member that closes leaves nothing to be processed again, and the members keep their places.
func TestRealBrokerGroup(t *testing.T) {
	b := realBroker(t)
	client := connect(t, b)
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: 6}); err != nil {
		t.Fatal(err)
	}
	run := &groupRun{t: t, seen: map[string]int{}, moved: make(chan struct{}, 1)}
	produceMany(t, client, 0, 600, 6)
	first, stopFirst := run.consume(client)
	run.until(within(t), 600)
	second, stopSecond := run.consume(connect(t, b))
	wait := func(what string, ok func() bool) {
		t.Helper()
		for ctx := within(t); !ok(); {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	wait("the members do not share", func() bool { return len(first.Assignment()) == 3 && len(second.Assignment()) == 3 })
	produceMany(t, client, 600, 1200, 6)
	run.until(within(t), 1200)

	ids := [2]string{first.MemberID(), second.MemberID()}
	b.kill()
	again, err := startBroker(b.data, b.address)
	if err != nil {
		t.Fatal(err)
	}
	*b = *again
	produceMany(t, client, 1200, 1800, 6)
	run.until(within(t), 1800)
	if first.MemberID() != ids[0] || second.MemberID() != ids[1] || len(first.Assignment()) != 3 || len(second.Assignment()) != 3 {
		t.Errorf("the kill moved partitions: %v, %v", first.Assignment(), second.Assignment())
	}
	stopSecond()
	wait("who is left does not get everything", func() bool { return len(first.Assignment()) == 6 })
	stopFirst()
	offsets, err := client.Admin().GroupOffsets(within(t), "g")
	if err != nil || len(offsets) != 6 {
		t.Fatalf("%v, %v", offsets, err)
	}
	for _, o := range offsets {
		if o.Committed != 300 || o.Lag() != 0 {
			t.Errorf("partition %d: %+v", o.Partition, o)
		}
	}
	for at, n := range run.seen {
		if n > 2 {
			t.Errorf("%s was processed %d times", at, n)
		}
	}
	if err := client.Admin().SeekGroup(within(t), "g", "t", map[uint32]int64{2: 290}, false); err != nil {
		t.Fatal(err)
	}
	clear(run.seen)
	_, stop := run.consume(client)
	run.until(within(t), 10)
	stop()
	if run.distinct() != 10 {
		t.Errorf("%d records after the seek", run.distinct())
	}
	if err := client.Admin().DeleteGroup(within(t), "g"); err != nil {
		t.Fatal(err)
	}
	if offsets, err = client.Admin().GroupOffsets(within(t), "g"); err != nil || len(offsets) != 0 {
		t.Errorf("after the deletion: %v, %v", offsets, err)
	}
}
