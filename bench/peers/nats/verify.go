package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// verifyWait bounds the wait for the next message of a stream that says that it has more.
const verifyWait = 30 * time.Second

// Verify reads every stream from its first message to its last, and fails unless every producer's messages are there,
// once and in order.
func (s *Streams) Verify(ctx context.Context, p Published) error {
	next := make([]uint64, len(p.ByCounter))
	for _, name := range s.names {
		if err := s.verifyStream(ctx, name, next); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	for producer, n := range next {
		if n != p.ByCounter[producer] {
			return fmt.Errorf("producer %d: %d messages were acknowledged, %d are there", producer, p.ByCounter[producer], n)
		}
	}
	return nil
}

func (s *Streams) verifyStream(ctx context.Context, name string, next []uint64) error {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default: // the first one counts
		}
	}
	left := info.State.Msgs
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		if left == 0 {
			return
		}
		producer, counter, ok := readMark(m.Data())
		if !ok || int(producer) >= len(next) {
			finish(fmt.Errorf("a message of %d bytes is no producer's", len(m.Data())))
			return
		}
		if counter != next[producer] {
			finish(fmt.Errorf("producer %d: message %d is where %d should be", producer, counter, next[producer]))
			return
		}
		next[producer]++
		if left--; left == 0 {
			finish(nil)
		}
	}, jetstream.PullMaxMessages(verifyPullMessages))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	total := time.NewTimer(verifyWait + time.Duration(info.State.Msgs)*verifyEach)
	defer total.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-total.C:
		return errors.New("reading it back takes too long")
	}
}

const (
	verifyPullMessages = 10_000

	// verifyEach is how long reading one message back may take at most.
	verifyEach = 100 * time.Microsecond
)
