package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var steady = scenario{
	name: "steady", what: "1,000 segment rolls, 50 times creating and deleting topics, 10,000 partitions: descriptors and memory flat, the metrics page within a second",
	lack: lackLauncher, play: playSteady,
}

const (
	// steadyDescriptors is by how many descriptors two measurements at rest may differ: a connection, a file that
	// retention is removing.
	steadyDescriptors = 8
	// steadyBytes is by how much memory may grow between them: the heap of a garbage collector is not a constant.
	steadyBytes = 24 << 20
	// scrapeMax bounds the metrics page.
	scrapeMax = time.Second
)

// playSteady does everything once to warm up, and then again many times: what is open and resident afterwards must not
// depend on how often.
func playSteady(ctx context.Context, s *stage) error {
	b := newBroker(s, "memory.limit=192MiB")
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	c, err := newCast(ctx, b.Address, []role{
		{name: "rolled", partitions: 4, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "1000KiB", "retention.bytes": "3MiB"}},
	})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	if err := errors.Join(roll(ctx, c, 20), createAndDelete(ctx, c, 3)); err != nil {
		return err
	}
	before, err := measure(b)
	if err != nil {
		return err
	}
	rolls, loops := pick(s, 80, 1000), pick(s, 6, 50)
	if err := roll(ctx, c, rolls); err != nil {
		return err
	}
	if err := createAndDelete(ctx, c, loops); err != nil {
		return err
	}
	if removed, err := b.metric("pulsemq_segments_removed_total"); err != nil || removed < float64(rolls/2) {
		return fmt.Errorf("%v segments were removed after %d rolls (%v)", removed, rolls, err)
	}
	// Files of segments on their way out are closed in a moment: what counts is what stays.
	var after usage
	if err := eventually(ctx, 30*time.Second, func() error {
		if after, err = measure(b); err != nil {
			return err
		}
		return after.flat(before)
	}); err != nil {
		return fmt.Errorf("after %d rolls and %d topics: %w", rolls, loops, err)
	}
	s.say("%d rolls, %d topics: %v before, %v after", rolls, loops, before, after)
	if err := scrapeMany(ctx, s, b, c); err != nil {
		return err
	}
	for _, l := range c.ledgers["rolled"] {
		l.retains = true
	}
	if _, err := c.verify(ctx); err != nil {
		return err
	}
	return errors.Join(b.sound(), b.Terminate())
}

// usage is what a broker has.
type usage struct {
	descriptors int
	resident    int64
}

func (u usage) String() string {
	return fmt.Sprintf("%d descriptors and %d MiB", u.descriptors, u.resident>>20)
}

// flat fails when it is more than it was.
func (u usage) flat(before usage) error {
	if u.descriptors > before.descriptors+steadyDescriptors || u.resident > before.resident+steadyBytes {
		return fmt.Errorf("%v, %v before", u, before)
	}
	return nil
}

func measure(b *broker) (u usage, err error) {
	if u.descriptors, err = b.descriptors(); err != nil {
		return u, err
	}
	u.resident, _, err = b.residentBytes()
	return u, err
}

// roll writes as much as fills so many segments, one message to a bit more than half of one.
func roll(ctx context.Context, c *cast, segments int) error {
	writer := c.writers.Add(1)
	ledgers := c.ledgers["rolled"]
	window := make(chan error, 8)
	for range cap(window) {
		window <- nil
	}
	for n := range segments {
		if err := <-window; err != nil {
			return err
		}
		l := ledgers[n%len(ledgers)]
		st := l.next(writer)
		m := &pulsemq.Message{Topic: l.topic, Partition: pulsemq.PartitionNumber(l.partition), Value: st.value(600_000)}
		if err := c.producer.SendAsync(ctx, m, func(r pulsemq.Result, err error) {
			if err == nil {
				l.ack(st, r.Offset, "")
			}
			window <- err
		}); err != nil {
			return err
		}
	}
	for range cap(window) {
		if err := <-window; err != nil {
			return err
		}
	}
	return nil
}

// createAndDelete makes topics, writes to them, reads them and deletes them again.
func createAndDelete(ctx context.Context, c *cast, loops int) error {
	admin := c.client.Admin()
	for n := range loops {
		name := fmt.Sprintf("passing-%d", n%3)
		if _, err := admin.CreateTopic(ctx, pulsemq.TopicSpec{Name: name, Partitions: 10}); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		for p := range uint32(10) {
			st := stamp{uint64(n), uint64(p)}
			r, err := c.producer.Send(ctx, &pulsemq.Message{Topic: name, Partition: pulsemq.PartitionNumber(p), Value: st.value(80_000)})
			if err != nil {
				return fmt.Errorf("write to %s: %w", name, err)
			}
			if p == 0 {
				if err := reads(ctx, c.client, name, map[uint32]wanted{p: {r.Offset, st}}); err != nil {
					return err
				}
			}
		}
		if _, err := admin.DeleteTopic(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// scrapeMany looks how long the metrics page takes with many partitions, while messages are written, and how large it is.
func scrapeMany(ctx context.Context, s *stage, b *broker, c *cast) error {
	partitions := pick(s, 1000, 10_000)
	const each = 1000
	for n := range partitions / each {
		if _, err := c.client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: fmt.Sprintf("wide-%d", n), Partitions: each}); err != nil {
			return fmt.Errorf("create %d partitions: %w", each, err)
		}
	}
	var best, worst time.Duration
	size := 0
	for n := range pick(s, 2, 5) {
		time.Sleep(1100 * time.Millisecond) // a page that is asked for sooner is made of the same snapshot
		began := time.Now()
		status, text, err := b.page("/metrics")
		took := time.Since(began)
		if err != nil || status != 200 {
			return fmt.Errorf("/metrics: %d %v", status, err)
		}
		if n == 0 || took < best {
			best = took
		}
		worst, size = max(worst, took), len(text)
	}
	s.say("the metrics page with %d partitions: %d KiB in %v to %v", partitions, size>>10, best.Round(time.Millisecond), worst.Round(time.Millisecond))
	// The machine may be busy with other things: what counts is what the broker can do.
	if best > scrapeMax {
		return fmt.Errorf("the metrics page takes %v at best with %d partitions", best, partitions)
	}
	if all, err := b.metric("pulsemq_partitions"); err != nil || all < float64(partitions) {
		return fmt.Errorf("the metrics page speaks of %v partitions (%v)", all, err)
	}
	return nil
}
