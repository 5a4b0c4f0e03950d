package abuse

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// othersMax is how long another client's message may take at the worst. It is far above what is seen, because the
	// machine has other work; a client that is shut out waits for its timeout.
	othersMax = 10 * time.Second
	// medianFactor and medianSlack bound the median during a case by that before.
	medianFactor = 20
	medianSlack  = time.Second
)

// neighbour is a client that has nothing to do with the abuse: it sends numbered messages and remembers where each one was
// acknowledged.
type neighbour struct {
	producer *pulsemq.Producer
	topic    [16]byte
	next     uint64
	acked    map[int64]uint64 // number by offset
	before   time.Duration    // median without abuse
}

func newNeighbour(t *testing.T, b *broker) *neighbour {
	n := &neighbour{topic: b.create(t, "neighbour", nil), acked: map[int64]uint64{}}
	var err error
	if n.producer, err = b.client.NewProducer(pulsemq.ProducerDeliveryTimeout(2*othersMax), pulsemq.ProducerLinger(0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.producer.Close(context.Background()) })
	var took []time.Duration
	for range 50 {
		d, err := n.send()
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	n.before = took[len(took)/2]
	return n
}

// send sends the next message and waits for its acknowledgement.
func (n *neighbour) send() (time.Duration, error) {
	value := binary.BigEndian.AppendUint64(nil, n.next)
	began := time.Now()
	r, err := n.producer.Send(context.Background(), &pulsemq.Message{Topic: "neighbour", Value: value})
	if err != nil {
		return 0, fmt.Errorf("message %d: %w", n.next, err)
	}
	if _, twice := n.acked[r.Offset]; twice {
		return 0, fmt.Errorf("offset %d was given twice", r.Offset)
	}
	n.acked[r.Offset] = n.next
	n.next++
	return time.Since(began), nil
}

// during runs a case and lives on beside it.
func (n *neighbour) during(t *testing.T, run func()) {
	t.Helper()
	stop := make(chan struct{})
	var took []time.Duration
	var failed error
	var living sync.WaitGroup
	living.Go(func() {
		for {
			d, err := n.send()
			if err != nil {
				failed = err
				return
			}
			took = append(took, d)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	defer func() { // also when the case fails
		close(stop)
		living.Wait()
		if failed != nil {
			t.Errorf("another client: %v", failed)
			return
		}
		slices.Sort(took)
		median, worst := took[len(took)/2], took[len(took)-1]
		t.Logf("%d messages of another client: median %v, worst %v; before %v", len(took), median.Round(10*time.Microsecond), worst.Round(time.Millisecond), n.before.Round(10*time.Microsecond))
		if worst > othersMax || median > medianFactor*n.before+medianSlack {
			t.Errorf("another client's messages took %v, the worst %v; %v before", median, worst, n.before)
		}
	}()
	run()
}

// verify reads everything back: each message once, at its offset, in the order of sending.
func (n *neighbour) verify(t *testing.T, b *broker) {
	t.Helper()
	c := b.dial(t)
	next, last := int64(0), uint64(0)
	for id, more := uint64(100), false; next < int64(len(n.acked)); {
		if !more {
			id++
			write(t, c, proto.AppendFrame(nil, id, &proto.FetchRequest{TopicID: n.topic, LeaderEpoch: -1, LastEpoch: -1, Offset: next, MaxBytes: 1 << 20}))
		}
		h, p := answerTo(t, c, id)
		var m proto.FetchResponse
		if h.Command != proto.CommandFetch || m.Decode(p) != nil {
			t.Fatalf("the neighbour's messages from %d on: %v %v", next, h.Command, refusal(p))
		}
		if more = m.More; len(m.Batches) == 0 {
			t.Fatalf("the neighbour's messages end at %d, %d were acknowledged", next, len(n.acked))
		}
		for rest := m.Batches; len(rest) > 0; {
			one, behind, err := proto.NextBatch(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = behind
			var it proto.RecordIterator
			for _ = it.Reset(one, 1<<20); it.Next(); {
				r := it.Record()
				number := binary.BigEndian.Uint64(r.Value)
				if want, ok := n.acked[r.Offset]; !ok || want != number {
					t.Fatalf("offset %d holds message %d, acknowledged was %d, %v", r.Offset, number, want, ok)
				}
				if r.Offset != next || number < last {
					t.Fatalf("message %d at offset %d comes after message %d, offset %d", number, r.Offset, last, next-1)
				}
				last, next = number, r.Offset+1
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
