package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Fast publishes into each stream with a fast batch publisher of its own, on a connection of its own, at the client's
// default settings. The batch stays open for the whole run: that is the best it can do.
func (s *Streams) Fast(ctx context.Context, load Load) (Published, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sum := Published{ByCounter: make([]uint64, len(s.names))}
	var running sync.WaitGroup
	start := time.Now()
	for i, name := range s.names {
		running.Go(func() {
			sent, err := s.fastOne(ctx, uint32(i), name, load, start.Add(load.Duration))
			if err != nil {
				cancel(fmt.Errorf("stream %s: %w", name, err))
			}
			sum.ByCounter[i] = sent
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return Published{}, err
	}
	sum.Took = time.Since(start)
	for _, n := range sum.ByCounter {
		sum.Acked += int64(n)
	}
	return sum, nil
}

func (s *Streams) fastOne(ctx context.Context, number uint32, name string, load Load, end time.Time) (sent uint64, err error) {
	conn, err := nats.Connect("nats://" + s.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	publisher, err := jetstreamext.NewFastPublisher(js)
	if err != nil {
		return 0, err
	}
	payload := newPayload(load.RecordBytes)
	for first := true; first || time.Now().Before(end); first = false {
		if ctx.Err() != nil {
			return sent, context.Cause(ctx)
		}
		putMark(payload, number, sent)
		if _, err := publisher.Add(name, payload); err != nil {
			return sent, err
		}
		sent++
	}
	ack, err := publisher.Close(ctx)
	if err != nil {
		return sent, fmt.Errorf("commit: %w", err)
	}
	if ack.BatchSize < sent {
		return sent, fmt.Errorf("%d messages were sent, %d are acknowledged", sent, ack.BatchSize)
	}
	return sent, nil
}
