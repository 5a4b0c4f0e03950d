package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var restart = scenario{
	name: "restart", what: "2,000 partitions with data, kill -9, start, kill -9 in the middle of the start, start: alive at once, ready later",
	lack: anywhere, play: playRestart,
}

var restartFull = scenario{
	name: "restart-full", what: "the same on a disk without one free block",
	lack: lackLoop, play: playRestartFull,
}

const (
	// aliveMax is how long the operators' port may take after the process has begun. It is far above what is seen,
	// because the machine has other work; a port that comes after the recovery of thousands of partitions is later.
	aliveMax = 10 * time.Second

	// progressSlack is what a busy machine may add to a start.
	progressSlack = 10 * time.Second

	// progressLogged is how long a start takes before its log has to say how far it is.
	progressLogged = 15 * time.Second

	// restartReadyWait bounds a start: a partition takes a sync or two, and a sync on a loop device of a busy machine
	// takes a tenth of a second.
	restartReadyWait = 15 * time.Minute

	topicPartitionsMax = 500
)

func playRestart(ctx context.Context, s *stage) error {
	return playRestartOn(ctx, s, newRestartBroker(s), nil)
}

func playRestartFull(ctx context.Context, s *stage) (err error) {
	disk, err := mountLoop(s.folder, pick[int64](s, 1<<30, 6<<30))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.unmount()) }()
	b := newRestartBroker(s)
	b.data = filepath.Join(disk.mount, "data")
	return playRestartOn(ctx, s, b, disk)
}

// newRestartBroker has segments that do not vanish and a journal that holds a good part of what is written.
func newRestartBroker(s *stage) *broker {
	return newBroker(s, "storage.journal-size=64MiB", "storage.journal-file-size=8MiB", "broker.shards=2", "memory.limit=512MiB")
}

func playRestartOn(ctx context.Context, s *stage, b *broker, disk *loopDisk) error {
	defer func() { b.end() }()
	if err := b.start(); err != nil {
		return err
	}
	partitions := pick(s, 150, 2000)
	c, err := newCast(ctx, b.Address, restartRoles(partitions))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := fillAll(ctx, c, pick(s, 4, 12)); err != nil {
		return err
	}
	sent, acked := c.counts()
	s.say("%d partitions filled with %d messages, %d acknowledged, in %v", partitions, sent, acked, time.Since(began).Round(time.Millisecond))
	c.crashed()
	if err := b.Kill(); err != nil {
		return err
	}
	if disk != nil {
		if err := disk.fill(); err != nil {
			return err
		}
	}
	// The second kill comes at several moments of the start; each start is begun on what the one before has left.
	full, err := restartOnce(s, b, partitions)
	if err != nil {
		return err
	}
	for _, part := range pick(s, []int{50}, []int{5, 20, 50, 80, 95}) {
		if err := b.Kill(); err != nil {
			return err
		}
		if err := b.launch(); err != nil {
			return err
		}
		time.Sleep(full * time.Duration(part) / 100)
	}
	if err := b.Kill(); err != nil {
		return err
	}
	again, err := restartOnce(s, b, partitions)
	if err != nil {
		return fmt.Errorf("after kills in the middle of a start: %w", err)
	}
	// What a start has done is not lost with it: the next one has no more to do.
	if again > 2*full+progressSlack {
		return fmt.Errorf("a start took %v, and the one after it was killed half way %v", full, again)
	}
	if disk != nil {
		if err := disk.release(); err != nil {
			return err
		}
	}
	records, err := c.verify(ctx)
	if err != nil {
		return err
	}
	if damages, err := b.metric("pulsemq_damages_total"); err != nil || damages > 0 {
		return fmt.Errorf("%v damages (%v)", damages, err)
	}
	s.say("%d records read back", records)
	return b.sound()
}

func restartRoles(partitions int) (roles []role) {
	for n := 0; partitions > 0; n++ {
		count := min(partitions, topicPartitionsMax)
		partitions -= count
		roles = append(roles, role{name: fmt.Sprintf("many-%d", n), partitions: uint32(count), config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}})
	}
	return roles
}

// fillAll writes a few messages to every partition, small ones and large ones, so that each has frames in its segment
// and some of them in the journal alone.
func fillAll(ctx context.Context, c *cast, messages int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	failures := make(chan error, 1)
	writer := c.writers.Add(1)
	for n := range messages {
		for i := range c.roles {
			for _, l := range c.ledgers[c.roles[i].name] {
				st := l.next(writer)
				size := 200
				if n%3 == 1 {
					size = 5000
				}
				if n == 2 {
					size = 70_000
				}
				all.Add(1)
				err := c.producer.SendAsync(ctx, &pulsemq.Message{Topic: l.topic, Partition: pulsemq.PartitionNumber(l.partition), Value: st.value(size)}, func(r pulsemq.Result, err error) {
					defer all.Done()
					if err == nil {
						l.ack(st, r.Offset, "")
						return
					}
					select {
					case failures <- fmt.Errorf("fill %s/%d: %w", l.topic, l.partition, err):
					default:
					}
				})
				if err != nil {
					return err
				}
			}
		}
	}
	all.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// restartOnce starts the broker and watches the start as an operator does.
func restartOnce(s *stage, b *broker, partitions int) (full time.Duration, err error) {
	began := time.Now()
	if err := b.launch(); err != nil {
		return 0, err
	}
	alive := time.Since(began)
	if alive > aliveMax {
		return 0, fmt.Errorf("the operators' port came after %v", alive)
	}
	if status, text, err := b.page("/healthz"); status != 200 {
		return 0, fmt.Errorf("/healthz while starting: %d %s %v", status, text, err)
	}
	seen := map[string]bool{}
	counted := 0
	for {
		status, text, err := b.page("/readyz")
		if err != nil {
			return 0, errors.Join(err, b.Alive())
		}
		var p struct {
			Ready           bool   `json:"ready"`
			Stage           string `json:"stage"`
			PartitionsDone  int    `json:"partitions_done"`
			PartitionsTotal int    `json:"partitions_total"`
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return 0, fmt.Errorf("/readyz: %q: %w", text, err)
		}
		if p.Ready != (status == 200) {
			return 0, fmt.Errorf("/readyz: %d %s", status, text)
		}
		seen[p.Stage] = true
		if p.PartitionsDone < counted {
			return 0, fmt.Errorf("/readyz goes back: %d partitions after %d", p.PartitionsDone, counted)
		}
		counted = p.PartitionsDone
		if p.Ready {
			if p.PartitionsTotal < partitions || p.PartitionsDone != p.PartitionsTotal {
				return 0, fmt.Errorf("/readyz when ready: %s; there are %d partitions", text, partitions)
			}
			break
		}
		if time.Since(began) > restartReadyWait {
			return 0, fmt.Errorf("not ready after %v: %s", restartReadyWait, strings.TrimSpace(text))
		}
		if _, text, err := b.page("/metrics"); err != nil || len(text) == 0 {
			return 0, fmt.Errorf("/metrics while starting: %q %w", text, err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := b.serves(); err != nil { // the line in the log follows at once
		return 0, err
	}
	full = time.Since(began)
	if lines, err := b.logged(`"partitions_total":`); err != nil || full > progressLogged && lines == 0 {
		return 0, fmt.Errorf("the start took %v, and the log does not say how far it was (%v)", full, err)
	}
	s.say("alive after %v, ready after %v; /readyz showed %d stages", alive.Round(time.Millisecond), full.Round(time.Millisecond), len(seen))
	return full, nil
}
