package pulsemq

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
)

// hurtConn changes what the broker says at one place of the stream.
type hurtConn struct {
	net.Conn
	at    *atomic.Int64 // bytes until the place, over all connections; negative: done
	bytes []byte
}

func (c *hurtConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if after := c.at.Add(-int64(n)); after < 0 && after >= -int64(n) {
		copy(b[int64(n)+after:n], c.bytes)
	}
	return n, err
}

// FuzzAnswers hurts one place of everything that a broker says to a client that produces and
// consumes: nothing panics, every call ends in time, and what is delivered is what was sent.
func FuzzAnswers(f *testing.F) {
	for at := uint32(0); at < 2000; at += 97 {
		f.Add(at, []byte{0xff})
		f.Add(at, []byte{0, 0, 0, 0})
	}
	f.Add(uint32(4), bytes.Repeat([]byte{0x80}, 12))
	f.Fuzz(func(t *testing.T, at uint32, b []byte) {
		if len(b) == 0 || len(b) > 1<<10 {
			return
		}
		cluster := fakebroker.New(1)
		defer cluster.Close()
		cluster.Create("t", 1)
		var left atomic.Int64
		left.Store(int64(at % 4000))
		client, err := Connect(context.Background(), cluster.Addresses(), ClientLazy(), ClientReconnect(time.Millisecond, 5*time.Millisecond),
			ClientRequestTimeout(300*time.Millisecond), ClientDialTimeout(300*time.Millisecond),
			ClientDial(func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &hurtConn{nc, &left, b}, nil
			}))
		if err != nil {
			return
		}
		begun := time.Now()
		defer func() {
			client.Close()
			if d := time.Since(begun); d > testTime {
				t.Fatalf("it took %v", d)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		p, err := client.NewProducer(ProducerDeliveryTimeout(time.Second), ProducerRetry(time.Millisecond, 5*time.Millisecond))
		if err != nil {
			return
		}
		values := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
		acked := 0
		for _, v := range values {
			if _, err := p.Send(ctx, &Message{Topic: "t", Value: v}); err == nil {
				acked++
			}
		}
		_ = p.Close(ctx)
		k, err := client.NewConsumer(ConsumerStopAtEnd(), ConsumerRetry(time.Millisecond, 5*time.Millisecond))
		if err != nil {
			return
		}
		defer k.Close()
		if err := k.AssignTopic(ctx, "t", StartEarliest()); err != nil {
			return
		}
		for ctx.Err() == nil {
			records, err := k.Poll(ctx)
			for _, r := range records {
				if !bytes.Equal(r.Value, values[0]) && !bytes.Equal(r.Value, values[1]) && !bytes.Equal(r.Value, values[2]) {
					t.Fatalf("delivered %q, which nobody sent", r.Value)
				}
			}
			if err != nil || len(records) == 0 {
				break
			}
		}
	})
}
