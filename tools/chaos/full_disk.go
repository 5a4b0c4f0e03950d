package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
)

var fullDisk = scenario{
	name: "full-disk", what: "a disk without one free block, under load, at kill, at exit and at start",
	lack: lackLoop, play: playFullDisk,
}

const (
	fullDiskBytes = 192 << 20
	// fullDiskNotice is how long the broker may take to see that space has gone or returned.
	fullDiskNotice = 15 * time.Second
)

func playFullDisk(ctx context.Context, s *stage) (err error) {
	disk, err := mountLoop(s.folder, fullDiskBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.unmount()) }()
	b := newBroker(s, "broker.shutdown-timeout="+terminateLimit.String())
	b.data = filepath.Join(disk.mount, "data")
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }() // before the unmount
	c, err := newCast(ctx, b.Address, fullRoles)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	f := &fullness{stage: s, disk: disk, broker: b, cast: c}
	for round := range pick(s, 1, 12) {
		for _, step := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"fill under load", f.fillUnderLoad},
			{"work on the full disk", f.work},
			{"kill -9 on the full disk, and start", func(ctx context.Context) error { return f.again(ctx, b.Kill) }},
			{"SIGTERM on the full disk, and start", func(ctx context.Context) error { return f.again(ctx, f.terminate) }},
			{"space returns", f.recover},
		} {
			began := time.Now()
			if err := step.do(ctx); err != nil {
				return fmt.Errorf("round %d: %s: %w", round+1, step.name, err)
			}
			s.say("round %d: %s: %v", round+1, step.name, time.Since(began).Round(time.Millisecond))
		}
	}
	return b.sound()
}

// fullRoles leave space for each other: what they may keep is bounded, but for the one by which the disk fills.
var fullRoles = []role{
	{name: "little", partitions: 3, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "retention.bytes": "4MiB"}, sizes: []int{100, 100, 2000}, windows: 30},
	{name: "big", partitions: 2, config: map[string]string{"segment.bytes": "2MiB", "retention.bytes": "8MiB"}, sizes: []int{150_000}, windows: 4},
	{name: "batched", partitions: 1, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "durability": "batch", "retention.bytes": "4MiB"}, sizes: []int{500, 100_000}, windows: 20},
}

// fullness is a broker whose disk fills and empties.
type fullness struct {
	stage  *stage
	disk   *loopDisk
	broker *broker
	cast   *cast
	turn   int
}

// spare is the name of the topic that is deleted in this turn.
func (f *fullness) spare() string { return fmt.Sprintf("spare-%d", f.turn) }

// fillUnderLoad takes all space away while messages are being sent, until producers are refused.
func (f *fullness) fillUnderLoad(ctx context.Context) error {
	f.turn++
	if _, err := f.cast.client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: f.spare(), Partitions: 2}); err != nil {
		return err
	}
	play, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	hasty, err := f.cast.client.NewProducer(pulsemq.ProducerDeliveryTimeout(time.Second), pulsemq.ProducerLinger(0))
	if err != nil {
		return err
	}
	f.cast.producer = hasty // nobody waits until there is space
	random := rand.New(rand.NewPCG(f.stage.random.Uint64(), 1))
	all.Go(func() { f.cast.play(play, random) })
	time.Sleep(time.Duration(200+f.stage.random.IntN(400)) * time.Millisecond)
	// Retention goes on freeing what the next writes would take: it is taken away again until the broker has noticed.
	err = eventually(ctx, fullDiskNotice, func() error {
		return errors.Join(f.disk.fill(), f.full(1))
	})
	if err != nil {
		return err
	}
	stop()
	all.Wait()
	for why := range f.cast.refused {
		f.stage.say("refused: %s", why)
	}
	return f.disk.fill()
}

// full fails when pulsemq_storage_full is not so.
func (f *fullness) full(want float64) error {
	got, err := f.broker.metric("pulsemq_storage_full")
	if err == nil && got != want {
		err = fmt.Errorf("pulsemq_storage_full is %v", got)
	}
	return err
}

// refused holds a message of each kind to being refused as it should be.
func (f *fullness) refused(ctx context.Context) error {
	for i := range f.cast.roles {
		r := &f.cast.roles[i]
		size := r.sizes[len(r.sizes)-1]
		if _, err := f.probe(ctx, f.cast.ledgers[r.name][0], size); !errors.Is(err, proto.ErrStorageFull) {
			return fmt.Errorf("a message for %s: %v; want STORAGE_FULL", r.name, err)
		}
	}
	return nil
}

// probe sends one message on a connection of its own.
func (f *fullness) probe(ctx context.Context, l *ledger, size int) (int64, error) {
	d, err := f.cast.client.Admin().DescribeTopic(ctx, l.topic)
	if err != nil {
		return 0, err
	}
	line, err := dialLine(f.broker.Address)
	if err != nil {
		return 0, err
	}
	defer line.close()
	st := l.next(f.cast.writers.Add(1))
	m, err := produceRequest(d.ID, l.partition, st.value(size))
	if err != nil {
		return 0, err
	}
	if err := line.send(2, m); err != nil {
		return 0, err
	}
	h, payload, err := line.next()
	if err != nil {
		return 0, err
	}
	if h.Command != proto.CommandProduce {
		return 0, refusalOf(h, payload)
	}
	var answer proto.ProduceResponse
	if err := answer.Decode(payload); err != nil {
		return 0, err
	}
	l.ack(st, answer.BaseOffset, "")
	return answer.BaseOffset, nil
}

// work does on a full disk all that has to work there.
func (f *fullness) work(ctx context.Context) error {
	if err := f.refused(ctx); err != nil {
		return err
	}
	if _, err := f.cast.verify(ctx); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	admin := f.cast.client.Admin()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// A new topic needs space, so it is refused like a message. What makes room works: deleting, trimming, keeping less.
	if _, err := admin.CreateTopic(ctx, pulsemq.TopicSpec{Name: "too-much", Partitions: 2}); !errors.Is(err, proto.ErrStorageFull) {
		return fmt.Errorf("create a topic: %v; want STORAGE_FULL", err)
	}
	if _, err := admin.AlterTopic(ctx, "batched", pulsemq.TopicChange{Set: map[string]string{"retention.ms": fmt.Sprintf("%dd", f.turn)}}); err != nil {
		return fmt.Errorf("alter a topic: %w", err)
	}
	if _, err := admin.DeleteTopic(ctx, f.spare()); err != nil {
		return fmt.Errorf("delete a topic: %w", err)
	}
	l := f.cast.ledgers["little"][0]
	d, err := admin.DescribeTopic(ctx, "little")
	if err != nil {
		return err
	}
	middle := (d.Partitions[0].LogStartOffset + d.Partitions[0].HighWatermark) / 2
	l.mayTrim(middle)
	start, err := admin.DeleteRecords(ctx, "little", 0, middle)
	if err != nil || start < middle {
		return fmt.Errorf("trim to %d: the log starts at %d, %w", middle, start, err)
	}
	if _, err := f.cast.verify(ctx); err != nil {
		return fmt.Errorf("read after the trim: %w", err)
	}
	// What was freed by all of this must not end the test early.
	return errors.Join(f.disk.fill(), f.broker.Alive())
}

func (f *fullness) terminate() error {
	began := time.Now()
	if err := f.broker.Terminate(); err != nil {
		return err
	}
	if took := time.Since(began); took > terminateLimit+terminateGrace {
		return fmt.Errorf("the exit took %v; its limit is %v", took, terminateLimit)
	}
	return nil
}

// again ends the broker, takes what that freed, and starts it on the full disk: it serves everything but producers.
func (f *fullness) again(ctx context.Context, end func() error) error {
	f.cast.crashed()
	if err := end(); err != nil {
		return err
	}
	if err := f.disk.fill(); err != nil {
		return err
	}
	if err := f.broker.restart(); err != nil {
		return err
	}
	if err := eventually(ctx, fullDiskNotice, func() error { return errors.Join(f.disk.fill(), f.refused(ctx)) }); err != nil {
		return err
	}
	if _, err := f.cast.verify(ctx); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return f.broker.Alive()
}

// recover gives the space back: producing goes on by itself, and everything is there.
func (f *fullness) recover(ctx context.Context) error {
	if err := f.disk.release(); err != nil {
		return err
	}
	for i := range f.cast.roles {
		r := &f.cast.roles[i]
		for _, l := range f.cast.ledgers[r.name] {
			if err := eventually(ctx, fullDiskNotice, func() error {
				_, err := f.probe(ctx, l, r.sizes[len(r.sizes)-1])
				return err
			}); err != nil {
				return fmt.Errorf("a message for %s/%d: %w", l.topic, l.partition, err)
			}
		}
	}
	if err := f.full(0); err != nil {
		return err
	}
	_, err := f.cast.verify(ctx)
	return err
}
