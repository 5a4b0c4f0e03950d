package pulsemq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Handle runs a function for each message, QueueConcurrency of them at a time, until ctx or the consumer ends: then it
// waits for those that run. A message whose function returns nil is acknowledged. With an error it is given back to be
// delivered again, or to go to the dead-letter topic when its deliveries are used up, with the error as reason; RetryAfter
// and Rejected say more. The function may also settle the message itself. Its context ends when the message's lease is
// lost, with the reason as its cause.
//
// Handle returns nil when the consumer was closed, else the error of ctx or what keeps the member from its group for good.
func (q *QueueConsumer) Handle(ctx context.Context, handle func(context.Context, *QueueMessage) error) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.handling.Add(1)
	q.mu.Unlock()
	defer q.handling.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range q.config.concurrency {
		workers.Go(func() {
			for {
				m, err := q.Poll(ctx)
				var about *PartitionError
				switch {
				case errors.As(err, &about):
					q.mu.Lock()
					q.report(nil, err)
					q.mu.Unlock()
				case err != nil:
					cancel(err) // the first one says why
					return
				default:
					m.handle(ctx, handle)
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// handle runs the function for one message. Its context does not end with that of Handle: what was begun is ended.
func (m *QueueMessage) handle(ctx context.Context, handle func(context.Context, *QueueMessage) error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	m.consumer.mu.Lock()
	m.ended = cancel
	if m.lost != nil {
		cancel(m.lost)
	}
	m.consumer.mu.Unlock()
	err := handle(ctx, m)
	var rejected *rejection
	var later *retry
	switch {
	case err == nil:
		m.settleBy(proto.SettlementAck, 0, "")
	case errors.As(err, &rejected):
		m.settleBy(proto.SettlementReject, 0, err.Error())
	case errors.As(err, &later):
		m.settleBy(proto.SettlementNack, min(max(later.after, 0), nackDelayMax), err.Error())
	default:
		m.settleBy(proto.SettlementNack, 0, err.Error())
	}
}

// Rejected makes an error that Handle does not try again for: the message goes to the dead-letter topic at once.
func Rejected(err error) error { return &rejection{err} }

type rejection struct{ err error }

func (r *rejection) Error() string { return r.err.Error() }
func (r *rejection) Unwrap() error { return r.err }

// RetryAfter makes an error that Handle tries again for after a delay; 0 and less leave that to the topic's
// queue.backoff.ms. More than 7 days, as of a back-off that has grown for long, become 7 days.
func RetryAfter(delay time.Duration, err error) error { return &retry{delay, err} }

type retry struct {
	after time.Duration
	err   error
}

func (r *retry) Error() string { return r.err.Error() }
func (r *retry) Unwrap() error { return r.err }
