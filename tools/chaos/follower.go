package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// follower consumes a topic from its start while the broker is being hurt, and holds what it gets to its order: no record
// twice, none left out, none that is not what was sent.
type follower struct {
	topic string

	mu     sync.Mutex
	next   map[uint32]int64 // by partition: the offset that has to come
	faults []string
	ended  chan struct{}
	cancel context.CancelFunc
}

func follow(ctx context.Context, client *pulsemq.Client, topic string) (*follower, error) {
	k, err := client.NewConsumer()
	if err != nil {
		return nil, err
	}
	if err := k.AssignTopic(ctx, topic, pulsemq.StartEarliest()); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	f := &follower{topic: topic, next: map[uint32]int64{}, ended: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.ended)
		defer k.Close()
		for r, err := range k.Records(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					f.fault("the consumer has ended: %v", err)
				}
				return
			}
			f.take(r)
		}
	}()
	return f, nil
}

func (f *follower) fault(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.faults) < 10 {
		f.faults = append(f.faults, "follower of "+f.topic+": "+fmt.Sprintf(format, args...))
	}
}

func (f *follower) take(r *pulsemq.Record) {
	if _, err := stampOf(r.Value); err != nil {
		f.fault("%d/%d: %v", r.Partition, r.Offset, err)
	}
	f.mu.Lock()
	want := f.next[r.Partition]
	f.next[r.Partition] = r.Offset + 1
	f.mu.Unlock()
	if r.Offset != want {
		f.fault("partition %d: offset %d came, %d had to", r.Partition, r.Offset, want)
	}
}

// caughtUp waits until it has read everything that was acknowledged, ends it, and fails with what it found.
func (f *follower) caughtUp(ctx context.Context, ledgers []*ledger) error {
	defer func() { f.cancel(); <-f.ended }()
	err := eventually(ctx, time.Minute, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, fault := range f.faults {
			return errors.New(fault)
		}
		for _, l := range ledgers {
			l.mu.Lock()
			last := int64(-1)
			for offset := range l.acked {
				last = max(last, offset)
			}
			l.mu.Unlock()
			if f.next[l.partition] <= last {
				return fmt.Errorf("%s/%d: read up to %d, acknowledged up to %d", l.topic, l.partition, f.next[l.partition]-1, last)
			}
		}
		return nil
	})
	return err
}
