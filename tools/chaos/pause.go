package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var pause = scenario{
	name: "pause", what: "SIGSTOP for 30 s and SIGCONT under load: nothing stale, nothing twice, clients go on",
	lack: anywhere, play: playPause,
}

// playPause stops a broker whose deadlines are all shorter than the pause. Two producers are at work: one that waits
// through the pause, and one that gives its messages up during it; those must be there once or not at all. A consumer
// follows through it.
func playPause(ctx context.Context, s *stage) error {
	length := pick(s, 2*time.Second, 30*time.Second)
	b := newBroker(s, "network.idle-timeout=2s", "network.keepalive=1s", "network.slow-reader-timeout=1s")
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	c, err := newCast(ctx, b.Address, syncRoles)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	hasty, err := newCast(ctx, b.Address, []role{{name: "hasty", partitions: 2, sizes: []int{300}, windows: 20}})
	if err != nil {
		return err
	}
	defer hasty.close()
	hasty.churn = nil // the other cast's has the names
	if err := hasty.create(ctx); err != nil {
		return err
	}
	if hasty.producer, err = hasty.client.NewProducer(pulsemq.ProducerDeliveryTimeout(time.Second), pulsemq.ProducerLinger(0)); err != nil {
		return err
	}
	behind, err := follow(ctx, c.client, "little")
	if err != nil {
		return err
	}
	play, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i, one := range []*cast{c, hasty} {
		random := rand.New(rand.NewPCG(s.seed, uint64(i)))
		all.Go(func() { one.play(play, random) })
	}
	for range pick(s, 1, 3) {
		time.Sleep(500 * time.Millisecond)
		if err := b.Halt(); err != nil {
			return err
		}
		// What was answered before the pause is still being taken in by a busy client for a moment.
		var before int
		if err := eventually(ctx, length, func() error {
			_, before = c.counts()
			time.Sleep(length / 10)
			if _, now := c.counts(); now != before {
				return fmt.Errorf("messages are still being acknowledged")
			}
			return nil
		}); err != nil {
			return err
		}
		time.Sleep(length)
		if _, during := c.counts(); during != before {
			return fmt.Errorf("%d messages were acknowledged by a broker that stood still", during-before)
		}
		if err := b.Resume(); err != nil {
			return err
		}
		began := time.Now()
		for _, one := range []*cast{c, hasty} {
			_, at := one.counts()
			if err := eventually(ctx, 20*time.Second, func() error {
				if _, now := one.counts(); now == at {
					return fmt.Errorf("nothing is acknowledged after the pause")
				}
				return nil
			}); err != nil {
				return err
			}
		}
		s.say("stood still for %v; both producers had acknowledgements again after %v", length, time.Since(began).Round(time.Millisecond))
		if err := eventually(ctx, 5*time.Second, func() error {
			if status, text, err := b.page("/healthz"); status != 200 {
				return fmt.Errorf("/healthz: %d %s %v", status, text, err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	stop()
	all.Wait()
	if len(c.refused) > 0 {
		return fmt.Errorf("messages of the patient producer were refused for good: %v", c.refused)
	}
	if len(hasty.refused) == 0 {
		return fmt.Errorf("no message was given up during %v: the pause did not bite", length)
	}
	if err := behind.caughtUp(ctx, c.ledgers["little"]); err != nil {
		return err
	}
	for _, one := range []*cast{c, hasty} {
		if _, err := one.verify(ctx); err != nil {
			return err
		}
	}
	return b.sound()
}
