package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var terminate = scenario{
	name: "terminate", what: "SIGTERM under load: what is under way is answered, the exit is clean and in time",
	lack: anywhere, play: playTerminate,
}

// syncRoles are topics at the default durability with small files, for scenarios that need load rather than variety.
var syncRoles = []role{
	{name: "little", partitions: 3, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 100, 2000}, windows: 50},
	{name: "big", partitions: 2, config: map[string]string{"segment.bytes": "2MiB"}, sizes: []int{200_000}, windows: 4},
}

// terminateLimit is broker.shutdown-timeout, and terminateGrace what a busy machine may add to it.
const (
	terminateLimit = 10 * time.Second
	terminateGrace = 5 * time.Second
)

func playTerminate(ctx context.Context, s *stage) error {
	b := newBroker(s, "broker.shutdown-timeout="+terminateLimit.String())
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
	created, err := c.client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: "bare", Partitions: 1})
	if err != nil {
		return err
	}
	c.roles = append(c.roles[:len(c.roles):len(c.roles)], role{name: "bare"}) // audited with the others, written by hand
	c.ledgers["bare"] = []*ledger{newLedger("bare", 0)}
	for round := range pick(s, 1, 30) {
		if err := terminateOnce(ctx, s, b, c, created.ID); err != nil {
			return fmt.Errorf("SIGTERM %d: %w", round+1, err)
		}
	}
	return nil
}

func terminateOnce(ctx context.Context, s *stage, b *broker, c *cast, topic pulsemq.TopicID) error {
	// One line falls silent just before the signal: whatever it has sent must be answered. The other goes on, and all
	// that it is told must be a reason to come again.
	var lines []*pipeline
	for range 2 {
		p, err := newPipeline(b.Address, topic, c.ledgers["bare"][0], c.writers.Add(1), 64, 500)
		if err != nil {
			return err
		}
		defer p.close()
		lines = append(lines, p)
	}
	play, stop := context.WithCancel(ctx)
	silence, over := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	hush := sync.OnceFunc(func() { close(over) })
	defer hush()
	defer stop()
	seed := s.random.Uint64()
	all.Go(func() { c.play(play, rand.New(rand.NewPCG(seed, 1))) })
	quiet := make(chan error, 1)
	go func() { quiet <- lines[0].pump(silence) }()
	all.Go(func() { lines[1].pump(over) })
	time.Sleep(time.Duration(100+s.random.IntN(400)) * time.Millisecond)
	close(silence)
	if err := <-quiet; err != nil {
		return err
	}
	began := time.Now()
	if err := b.Terminate(); err != nil {
		return err
	}
	took := time.Since(began)
	if took > terminateLimit+terminateGrace {
		return fmt.Errorf("the exit took %v; its limit is %v", took, terminateLimit)
	}
	for i, p := range lines {
		<-p.ended
		o := p.outcome()
		if i == 0 {
			if o.unanswered > 0 {
				o.faults = append(o.faults, fmt.Sprintf("%d requests that were under way at the signal have no answer", o.unanswered))
			}
			if !errors.Is(o.farewell, pulsemq.ErrShuttingDown) {
				o.faults = append(o.faults, fmt.Sprintf("the client was not told that the broker shuts down: %v", o.farewell))
			}
		}
		if len(o.faults) > 0 {
			return errors.New(strings.Join(o.faults, "\n"))
		}
		s.say("exit in %v; line %d: %d acknowledged, refused %v, without answer %d", took.Round(time.Millisecond), i, o.acked, o.refused, o.unanswered)
	}
	if err := b.restart(); err != nil {
		return err
	}
	stop()
	hush()
	all.Wait()
	if len(c.refused) > 0 {
		return fmt.Errorf("messages were refused for good: %v", c.refused)
	}
	if cut, err := b.metric("pulsemq_tails_cut_total"); err != nil || cut > 0 {
		return fmt.Errorf("after a clean exit %v tails were cut (%v)", cut, err)
	}
	if _, err := c.verify(ctx); err != nil {
		return err
	}
	return b.sound()
}
