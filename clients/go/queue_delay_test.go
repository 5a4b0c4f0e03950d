package pulsemq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// polled are so many messages of a consumer.
func polled(t *testing.T, q *QueueConsumer, n int) (messages []*QueueMessage) {
	t.Helper()
	for range n {
		m, err := q.Poll(within(t))
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages
}

// next is what comes next, in good time.
func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-within(t).Done():
		t.Error("nothing comes")
	}
	return v
}

// A time that the broker does not allow fails by itself: it neither settles its message nor reaches those beside it.
func TestQueueDelayOutsideFailsAlone(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 3)
	told := make(chan error, 10)
	q := queueConsumer(t, client, QueuePrefetch(3), QueueOnError(func(_ *QueueMessage, err error) { told <- err }))
	messages := polled(t, q, 3)
	m := messages[1]
	first := messages[0].Ack()
	for text, s := range map[string]*Settling{
		"Nack with a delay of 192h0m0s: 0 to 168h0m0s is allowed": m.Nack(8*24*time.Hour, "bad"),
		"Nack with a delay of -1s: 0 to 168h0m0s is allowed":      m.Nack(-time.Second, "bad"),
		"Extend by 25h0m0s: 100ms to 24h0m0s is allowed":          m.Extend(25 * time.Hour),
		"Extend by 1ms: 100ms to 24h0m0s is allowed":              m.Extend(time.Millisecond),
		"Extend by -1ns: 100ms to 24h0m0s is allowed":             m.Extend(-1),
	} {
		if err := s.Wait(within(t)); !errors.Is(err, ErrInvalidTimeout) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
		if err := next(t, told); !errors.Is(err, ErrInvalidTimeout) {
			t.Errorf("QueueOnError got %v", err)
		}
	}
	for _, s := range []*Settling{first, messages[2].Ack(), m.Extend(24 * time.Hour), m.Nack(7*24*time.Hour, "good")} {
		if err := s.Wait(within(t)); err != nil {
			t.Error(err)
		}
	}
	if n := c.Settled(proto.SettlementAck); n != 2 {
		t.Errorf("%d messages are acknowledged, want 2", n)
	}
}

// A handler's back-off that grows beyond the limit is the limit, and a Nack that was not sent is no acknowledgement.
func TestQueueHandlerDelayOutside(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c)
	queued(t, c, client, "jobs", 1, 3)
	nacks := make(chan proto.SettledRange, 10)
	c.SetFault(func(request proto.Message) fakebroker.Fault {
		if r, ok := request.(*proto.SettleRequest); ok {
			for _, s := range r.Ranges {
				if s.Outcome == proto.SettlementNack {
					nacks <- s
				}
			}
		}
		return fakebroker.Fault{}
	})
	q := queueConsumer(t, client)
	var all sync.WaitGroup
	all.Go(func() {
		q.Handle(within(t), func(_ context.Context, m *QueueMessage) error {
			switch v := string(m.Value); {
			case v == "0":
				return RetryAfter(30*24*time.Hour, errors.New("later"))
			case v == "1" && m.Attempt == 1:
				m.Nack(30*24*time.Hour, "later")
			}
			return nil
		})
	})
	if s := next(t, nacks); s.BaseOffset != 0 || s.DelayMs != proto.NackDelayMsMax || s.Reason != "later" {
		t.Errorf("RetryAfter became %+v", s)
	}
	if s := next(t, nacks); s.BaseOffset != 1 || s.DelayMs != 0 || !strings.Contains(s.Reason, "is allowed") {
		t.Errorf("a Nack that cannot be sent became %+v", s)
	}
	until(t, "the others are done", func() bool { return c.Settled(proto.SettlementAck) == 2 })
	q.Close(within(t))
	all.Wait()
}

// A broker that refuses a request because of one range gets the ranges one by one: what is good takes effect.
func TestQueueRefusedRangeFailsAlone(t *testing.T) {
	for _, code := range []proto.Code{proto.CodeInvalidTimeout, proto.CodeInvalidRequest} {
		t.Run(code.String(), func(t *testing.T) {
			c := fake(t, 1)
			client := connect(t, c)
			queued(t, c, client, "jobs", 1, 5)
			q := queueConsumer(t, client, QueuePrefetch(5))
			messages := polled(t, q, 5)
			held := make(chan struct{})
			var mu sync.Mutex
			asked, refused := 0, 0
			c.SetFault(func(request proto.Message) fakebroker.Fault {
				r, ok := request.(*proto.SettleRequest)
				if !ok {
					return fakebroker.Fault{}
				}
				<-held
				mu.Lock()
				defer mu.Unlock()
				asked++
				for _, s := range r.Ranges {
					if s.Reason == "bad" {
						refused++
						return fakebroker.Fault{Refuse: code.Errorf("range 1")}
					}
				}
				return fakebroker.Fault{}
			})
			var good []*Settling
			var bad *Settling
			for i, m := range messages {
				if i == 2 {
					bad = m.Nack(0, "bad")
				} else {
					good = append(good, m.Ack())
				}
			}
			close(held)
			for _, s := range good {
				if err := s.Wait(within(t)); err != nil {
					t.Error(err)
				}
			}
			if err := bad.Wait(within(t)); !errors.Is(err, code) {
				t.Errorf("the one that is refused says %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if asked != 5 || refused != 2 { // the first, those that gathered meanwhile, and their three ranges
				t.Errorf("%d requests, %d refused; want 5 and 2", asked, refused)
			}
		})
	}
}
