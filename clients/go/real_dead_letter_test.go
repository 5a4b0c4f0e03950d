package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// headerOf is the value of a header; "" when there is none.
func headerOf(r *pulsemq.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// Every message is given up, some by a word and some by failing, while the broker is killed again and again: each lies in
// the dead-letter topic once, as it was.
func TestRealBrokerDeadLetters(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	const partitions, messages = 4, 4_000
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t.dead", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	queueTopic(t, client, partitions, map[string]string{"dead.letter.topic": "t.dead", "queue.max.deliveries": "2"})
	produceMany(t, client, 0, messages, partitions)
	r := &queueRun{t: t, seen: map[string]int{}, acked: map[string]bool{}}
	var given atomic.Int64
	handle := func(_ context.Context, m *pulsemq.QueueMessage) error {
		given.Add(1)
		if m.Offset%2 == 0 {
			return pulsemq.Rejected(fmt.Errorf("no use for offset %d", m.Offset))
		}
		return errors.New("it fails")
	}
	stops := []func(){r.consume(client, handle, pulsemq.QueueConcurrency(8), pulsemq.QueuePrefetch(64)), r.consume(client, handle, pulsemq.QueueConcurrency(8))}
	for i := range 5 {
		eventually(t, func() bool { return given.Load() > int64(i+1)*messages/6 })
		b.kill()
		var err error
		if b, err = startBroker(b.data, b.address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.kill)
	}
	settled(t, client)
	for _, stop := range stops {
		stop()
	}

	consumer, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd())
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.AssignTopic(within(t), "t.dead", pulsemq.StartEarliest()); err != nil {
		t.Fatal(err)
	}
	letters := map[string]int{}
	for {
		records, err := consumer.Poll(within(t))
		if errors.Is(err, pulsemq.ErrEndOfLog) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			l := &records[i]
			partition, offset := headerOf(l, "mq-partition"), headerOf(l, "mq-offset")
			letters[partition+"@"+offset]++
			number, err := strconv.Atoi(partition)
			if err != nil || uint32(number%3) != l.Partition {
				t.Fatalf("a letter of partition %q lies in partition %d", partition, l.Partition)
			}
			o, err := strconv.Atoi(offset)
			if err != nil || headerOf(l, "mq-topic") != "t" || headerOf(l, "mq-group") != "q" {
				t.Fatalf("a letter with the headers %q", l.Headers)
			}
			if want := fmt.Sprintf("rejected: no use for offset %d", o); o%2 == 0 && headerOf(l, "mq-reason") != want {
				// A broker that is killed loses who had the record; its second delivery may be the last.
				if reason := headerOf(l, "mq-reason"); headerOf(l, "mq-attempts") != "2" || reason != "attempts-used-up" && reason != "timed-out" && reason != "abandoned" {
					t.Errorf("offset %d: %q after %s attempts", o, reason, headerOf(l, "mq-attempts"))
				}
			}
		}
	}
	for p := range partitions {
		for o := range messages / partitions {
			if n := letters[fmt.Sprintf("%d@%d", p, o)]; n != 1 {
				t.Errorf("partition %d, offset %d: %d letters", p, o, n)
			}
		}
	}
	if len(letters) != messages {
		t.Errorf("%d letters of %d messages", len(letters), messages)
	}
}
