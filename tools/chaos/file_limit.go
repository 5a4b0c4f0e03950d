package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

var fileLimit = scenario{
	name: "file-size", what: "a limit on the size of files, below that of a segment: smaller segments, nothing lost",
	lack: lackLauncher, play: playFileLimit,
}

// fileBytesMax is more than a journal file and less than a segment.
const fileBytesMax = 6 << 20

func playFileLimit(ctx context.Context, s *stage) error {
	b := newBroker(s)
	// Not even a journal file fits: it does not start, and says which file.
	b.limits = []string{fmt.Sprintf("filebytes=%d", 1<<20)}
	if err := b.start(); err == nil {
		b.end()
		return errors.New("the broker has started with files too small for its journal")
	}
	if n, err := b.logged("file too large"); err != nil || n == 0 {
		return fmt.Errorf("the log does not say that a file is too large (%v)", err)
	}
	// What was left of that start does not hinder one with room enough.
	b.limits = []string{fmt.Sprintf("filebytes=%d", fileBytesMax)}
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	c, err := newCast(ctx, b.Address, []role{
		{name: "little", partitions: 2, config: map[string]string{"segment.bytes": "64MiB"}, sizes: []int{100, 20_000}, windows: 50},
		{name: "big", partitions: 1, config: map[string]string{"segment.bytes": "64MiB"}, sizes: []int{400_000}, windows: 4},
	})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	for range pick(s, 1, 5) {
		play, stop := context.WithCancel(ctx)
		random := rand.New(rand.NewPCG(s.random.Uint64(), 1))
		all.Go(func() { c.play(play, random) })
		err := eventually(ctx, time.Minute, func() error {
			failures, err := b.metric("pulsemq_storage_failures_total")
			if err == nil && failures < 3 {
				err = fmt.Errorf("%v writes met the limit", failures)
			}
			return errors.Join(err, b.Alive())
		})
		stop()
		all.Wait()
		if err != nil {
			return err
		}
		if len(c.refused) > 0 {
			return fmt.Errorf("messages were refused for good: %v", c.refused)
		}
		if _, err := c.verify(ctx); err != nil {
			return err
		}
		if err := errors.Join(b.sound(), b.Kill(), b.restart()); err != nil {
			return err
		}
		if _, err := c.verify(ctx); err != nil {
			return fmt.Errorf("after a kill: %w", err)
		}
	}
	sent, acked := c.counts()
	s.say("%d sent, %d acknowledged", sent, acked)
	return b.Terminate()
}
