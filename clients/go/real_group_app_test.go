package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// groupApp is an application that is a member of a group and notes everything that happens to it.
type groupApp struct {
	*pulsemq.GroupConsumer
	t      *testing.T
	cancel context.CancelFunc
	loop   sync.WaitGroup

	mu    sync.Mutex
	seen  []string // values, in the order of processing
	told  []*pulsemq.PartitionError
	calls []string // of the callbacks: "assigned 0@5 1@0"
}

// openApp joins a group. The options come behind those of every test.
func openApp(t *testing.T, client *pulsemq.Client, group, topic string, options ...pulsemq.GroupOption) *groupApp {
	t.Helper()
	a := &groupApp{t: t}
	note := func(call string) func([]pulsemq.GroupPartition) {
		return func(places []pulsemq.GroupPartition) {
			call := call
			for _, p := range places {
				call += fmt.Sprintf(" %d@%d", p.Partition, p.Offset)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.calls = append(a.calls, call)
		}
	}
	options = append([]pulsemq.GroupOption{
		pulsemq.GroupTopics(topic), pulsemq.GroupAutoCommit(20 * time.Millisecond), pulsemq.GroupSessionTimeout(2 * time.Second), pulsemq.GroupRebalanceTimeout(20 * time.Second),
		pulsemq.GroupOnAssigned(note("assigned")), pulsemq.GroupOnRevoked(note("revoked")), pulsemq.GroupOnLost(note("lost")),
	}, options...)
	var err error
	if a.GroupConsumer, err = client.NewGroupConsumer(group, options...); err != nil {
		t.Fatal(err)
	}
	return a
}

// run processes records in the background until stop: each is handed to process, if there is one, and then counts.
func (a *groupApp) run(process func(*pulsemq.Record)) *groupApp {
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.loop.Go(func() {
		for r, err := range a.Records(ctx) {
			var about *pulsemq.PartitionError
			switch {
			case err != nil && ctx.Err() != nil: // a record that is handed out counts as processed when the loop ends
				return
			case errors.As(err, &about):
				a.mu.Lock()
				a.told = append(a.told, about)
				a.mu.Unlock()
			case err != nil:
				a.t.Error(err)
			default:
				if process != nil {
					process(r)
				}
				a.mu.Lock()
				a.seen = append(a.seen, string(r.Value))
				a.mu.Unlock()
			}
		}
	})
	return a
}

// stop ends the application as it should: what was processed is committed, and the member leaves.
func (a *groupApp) stop() {
	a.t.Helper()
	if a.cancel != nil {
		a.cancel()
		a.loop.Wait()
	}
	if err := a.Close(within(a.t)); err != nil {
		a.t.Error(err)
	}
}

func (a *groupApp) values() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

// called says whether a callback was called with these words.
func (a *groupApp) called(call string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.calls, call)
}

// callbacks are the calls so far.
func (a *groupApp) callbacks() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

func (a *groupApp) errors() []*pulsemq.PartitionError {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

// sees waits until the values that were processed are these, joined by blanks.
func (a *groupApp) sees(want string) {
	a.t.Helper()
	if !becomes(a.t, func() bool { return strings.Join(a.values(), " ") == want }) {
		a.t.Fatalf("processed: %v, want %s; told %v; callbacks %v", a.values(), want, a.errors(), a.callbacks())
	}
}

// tells waits for the application to be told the first time.
func (a *groupApp) tells() *pulsemq.PartitionError {
	a.t.Helper()
	if !becomes(a.t, func() bool { return len(a.errors()) > 0 }) {
		a.t.Fatalf("nothing is told; processed %v", a.values())
	}
	return a.errors()[0]
}

// eventually waits for something to become so, and ends the test if it does not.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	if !becomes(t, ok) {
		t.Fatal("it does not come to be so")
	}
}

// becomes waits for something to become so; false when it does not.
func becomes(t *testing.T, ok func() bool) bool {
	for ctx := within(t); !ok(); {
		select {
		case <-time.After(3 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// groupTopic makes a topic and sends the numbers from 0 on, one each second of its own time, in turn to its partitions.
func groupTopic(t *testing.T, client *pulsemq.Client, topic string, partitions, records int) {
	t.Helper()
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: topic, Partitions: uint32(partitions)}); err != nil {
		t.Fatal(err)
	}
	sendNumbers(t, client, topic, partitions, 0, records)
}

// numbersBegin is the time of the number 0.
var numbersBegin = time.UnixMilli(1_700_000_000_000)

func sendNumbers(t *testing.T, client *pulsemq.Client, topic string, partitions, from, to int) {
	t.Helper()
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		m := &pulsemq.Message{Topic: topic, Partition: pulsemq.PartitionNumber(uint32(i % partitions)), Value: fmt.Append(nil, i), Timestamp: numbersBegin.Add(time.Duration(i) * time.Second)}
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

// committed is what a group has committed to a partition; -1 nothing.
func committed(t *testing.T, client *pulsemq.Client, group string, partition uint32) int64 {
	t.Helper()
	offsets, err := client.Admin().GroupOffsets(within(t), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offsets {
		if o.Partition == partition {
			return o.Committed
		}
	}
	return -1
}
