package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
)

var littleMemory = scenario{
	name: "memory", what: "little memory, heavy load, consumers that do not read: OVERLOADED rather than an OOM kill, and an end to it",
	lack: lackMemoryLimit, play: playMemoryLimit,
}

const (
	// memoryBytes is memory.limit: the least there may be for one shard and one reactor.
	memoryBytes = 128 << 20
	// memorySlack is the program itself and what its garbage collector has not given back yet.
	memorySlack = 64 << 20
)

// lackMemoryLimit says why memory cannot be measured here. A control group that kills is used where one can be made.
func lackMemoryLimit(s *stage) error { return lackLauncher(s) }

func playMemoryLimit(ctx context.Context, s *stage) error {
	b := newBroker(s, fmt.Sprintf("memory.limit=%dMiB", memoryBytes>>20), "network.slow-reader-timeout=5s")
	group, err := newMemoryGroup(memoryBytes + memorySlack)
	if err != nil {
		s.say("no control group bounds the broker, so only its own account does: %v", err)
	} else {
		defer group.remove()
		b.limits = []string{"cgroup=" + group.folder}
	}
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }() // before its group goes
	c, err := newCast(ctx, b.Address, []role{
		{name: "little", partitions: 4, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 100, 2000}, windows: 500},
		{name: "big", partitions: 4, config: map[string]string{"segment.bytes": "8MiB", "retention.bytes": "64MiB"}, sizes: []int{900_000}, windows: 8},
	})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	d, err := c.client.Admin().DescribeTopic(ctx, "big")
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	play, stop := context.WithCancel(ctx)
	defer stop()
	random := rand.New(rand.NewPCG(s.random.Uint64(), 1))
	all.Go(func() { c.play(play, random) })
	time.Sleep(300 * time.Millisecond) // there is something to read

	flood := floodOf(b.Address, d.ID, pick(s, 40, 200))
	all.Go(func() { flood.run(play) })
	until := time.Now().Add(pick(s, 2*time.Second, 60*time.Second))
	for time.Now().Before(until) {
		if err := b.Alive(); err != nil {
			return fmt.Errorf("under load: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, peak, err := b.residentBytes()
	if err != nil {
		return err
	}
	if peak > memoryBytes+memorySlack {
		return fmt.Errorf("the broker took %d MiB; its limit is %d MiB", peak>>20, memoryBytes>>20)
	}
	stop()
	all.Wait()
	served, refused := flood.outcome()
	if refused[proto.CodeOverloaded]+refused[proto.CodeTooManyConnections] == 0 {
		return fmt.Errorf("nobody was refused: the load was not heavy (%d served, refused %v)", served, refused)
	}
	for code, n := range refused {
		if !code.Retriable() {
			return fmt.Errorf("%d were refused for good with %v", n, code)
		}
	}
	// The load has ended: who comes is served, and what was acknowledged is there.
	if err := eventually(ctx, 15*time.Second, func() error {
		l, err := dialLine(b.Address)
		if err != nil {
			return err
		}
		defer l.close()
		return nil
	}); err != nil {
		return fmt.Errorf("after the load: %w", err)
	}
	if len(c.refused) > 0 {
		return fmt.Errorf("messages were refused for good: %v", c.refused)
	}
	records, err := c.verify(ctx)
	if err != nil {
		return err
	}
	now, _, err := b.residentBytes()
	if err != nil {
		return err
	}
	s.say("peak %d MiB, %d MiB afterwards; flood: %d served, refused %v; %d records read back", peak>>20, now>>20, served, refused, records)
	return errors.Join(b.sound(), b.Terminate())
}

// flood is many bare connections that ask for everything and read little.
type flood struct {
	address string
	topic   pulsemq.TopicID
	count   int

	mu      sync.Mutex
	served  int
	refused map[proto.Code]int
}

func floodOf(address string, topic pulsemq.TopicID, count int) *flood {
	return &flood{address: address, topic: topic, count: count, refused: map[proto.Code]int{}}
}

func (f *flood) outcome() (served int, refused map[proto.Code]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served, f.refused
}

func (f *flood) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range f.count {
		all.Go(func() {
			for ctx.Err() == nil {
				f.visit(ctx, i)
			}
		})
	}
	all.Wait()
}

// visit is one connection that asks for far more than fits. One in two reads nothing of it; the others read it all.
func (f *flood) visit(ctx context.Context, i int) {
	l, err := dialLine(f.address)
	if err != nil {
		if code, ok := proto.CodeOf(err); ok {
			f.note(code)
		}
		pauseFor(ctx, 50*time.Millisecond)
		return
	}
	defer l.close()
	f.mu.Lock()
	f.served++
	f.mu.Unlock()
	for id := range uint64(20) {
		ask := &proto.FetchRequest{TopicID: f.topic, Partition: uint32(id % 4), LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 16 << 20, MaxRecords: 1000}
		if l.send(id+10, ask) != nil {
			return
		}
	}
	if i%2 == 0 {
		pauseFor(ctx, time.Second)
		return
	}
	for range 20 {
		h, payload, err := l.next()
		if err != nil || ctx.Err() != nil {
			return
		}
		if h.Command == proto.CommandError {
			if code, ok := proto.CodeOf(refusalOf(h, payload)); ok {
				f.note(code)
			}
		}
	}
}

func (f *flood) note(code proto.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[code]++
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// memoryGroup is a control group that kills what takes more memory than it allows.
type memoryGroup struct{ folder string }

// newMemoryGroup makes one under version 1, where the memory controller is mounted by itself, or version 2.
func newMemoryGroup(bytes int64) (*memoryGroup, error) {
	for _, try := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		folder := filepath.Join(try.root, fmt.Sprintf("pulsemq-chaos-%d", os.Getpid()))
		if err := os.Mkdir(folder, 0o755); err != nil {
			continue
		}
		g := &memoryGroup{folder}
		if err := os.WriteFile(filepath.Join(folder, try.limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
			g.remove()
			continue
		}
		return g, nil
	}
	return nil, errors.New("no control group for memory can be made here")
}

func (g *memoryGroup) remove() { os.Remove(g.folder) }
