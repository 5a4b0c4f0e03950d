package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var queueRounds = scenario{
	name: "queue", what: "kill -9 at random moments while a queue group acks: nothing acked comes again, each poisoned message is one dead letter",
	lack: anywhere, play: playQueue,
}

const (
	queueTopic   = "jobs"
	queueLetters = "jobs-dead"
	queueGroup   = "workers"
	queueWorkers = 3

	// queuePoison is one message in how many that nobody acks.
	queuePoison = 25
	// queueSettleWait bounds how long the group takes to settle everything after the last kill.
	queueSettleWait = 2 * time.Minute
)

// place is where a message lies.
type place struct {
	partition uint32
	offset    int64
}

// queueLedger is what the group was told of its messages.
type queueLedger struct {
	mu     sync.Mutex
	acked  map[place]int // the attempt whose ack was answered
	faults []string
}

// delivered takes a message that came.
func (l *queueLedger) delivered(at place, attempt int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.acked[at]; ok && attempt > before && len(l.faults) < 10 { // one that was on its way comes under its own attempt
		l.faults = append(l.faults, fmt.Sprintf("message %v was acked in attempt %d and comes again in attempt %d", at, before, attempt))
	}
}

// ack takes that an ack is durable.
func (l *queueLedger) ack(at place, attempt int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[at] = attempt
}

// playQueue kills the broker again and again under a producer and the members of a queue group. In the end everything is
// settled: acked by somebody, or a dead letter, once.
func playQueue(ctx context.Context, s *stage) error {
	b := newBroker(s)
	if err := b.start(); err != nil {
		return err
	}
	defer b.end()
	c, err := newCast(ctx, b.Address, []role{
		{name: queueLetters, partitions: 2},
		{name: queueTopic, partitions: 4, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "dead.letter.topic": queueLetters, "queue.max.deliveries": "3", "queue.ack.timeout.ms": "2000"},
			sizes: []int{100, 100, 3000}, windows: 30},
	})
	if err != nil {
		return err
	}
	defer c.close()
	c.churn, c.pace = nil, 2*time.Millisecond
	if err := c.create(ctx); err != nil {
		return err
	}
	ledger := &queueLedger{acked: map[place]int{}}
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for range queueWorkers {
		q, err := c.client.NewQueueConsumer(queueGroup, pulsemq.QueueTopics(queueTopic), pulsemq.QueueSessionTimeout(20*time.Second))
		if err != nil {
			return err
		}
		workers.Go(func() { workQueue(working, q, ledger) })
	}
	sending, enough := context.WithCancel(ctx)
	defer enough()
	var load sync.WaitGroup
	load.Go(func() { c.play(sending, rand.New(rand.NewPCG(s.seed, 1))) })
	kills := pick(s, 4, 100)
	for range kills {
		time.Sleep(time.Duration(100+s.random.IntN(500)) * time.Millisecond)
		if err := b.Kill(); err != nil {
			return err
		}
		if err := b.restart(); err != nil {
			return err
		}
	}
	enough()
	load.Wait()
	if err := eventually(ctx, queueSettleWait, func() error { return queueDone(ctx, c.client) }); err != nil {
		return fmt.Errorf("the group does not settle what it has: %w", err)
	}
	stop()
	workers.Wait()
	letters, err := ledger.audit(ctx, c)
	if err != nil {
		return err
	}
	sent, stored := c.counts()
	s.say("%d kills: %d messages sent, %d stored, %d acks answered, %d dead letters", kills, sent, stored, len(ledger.acked), letters)
	return b.sound()
}

// workQueue acks what it gets, but for what is poisoned.
func workQueue(ctx context.Context, q *pulsemq.QueueConsumer, ledger *queueLedger) {
	var answers sync.WaitGroup
	for {
		m, err := q.Poll(ctx)
		var about *pulsemq.PartitionError
		switch {
		case errors.As(err, &about):
			continue // it is tried again
		case err != nil:
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			_ = q.Close(ending) // else its leases end
			cancel()
			answers.Wait()
			return
		}
		at := place{m.Partition, m.Offset}
		ledger.delivered(at, m.Attempt)
		if poisoned(m.Value) {
			m.Nack(time.Millisecond, "poisoned")
			continue
		}
		settling, attempt := m.Ack(), m.Attempt
		answers.Go(func() {
			if settling.Wait(ctx) == nil {
				ledger.ack(at, attempt)
			}
		})
	}
}

// poisoned says whether nobody acks a message.
func poisoned(value []byte) bool {
	s, err := stampOf(value)
	return err == nil && s.number%queuePoison == 0
}

// queueDone says what is left to settle.
func queueDone(ctx context.Context, client *pulsemq.Client) error {
	stands, err := client.Admin().DescribeQueue(ctx, queueGroup)
	if err != nil {
		return err
	}
	for _, p := range stands {
		if p.Err != nil || p.LowOffset != p.HighWatermark {
			return fmt.Errorf("partition %d: low offset %d of %d, %d leased, %d delayed, %d dying, %d dead, %v", p.Partition, p.LowOffset, p.HighWatermark, p.Leased, p.Delayed, p.Dying, p.Dead, p.Err)
		}
	}
	return nil
}

// audit compares the messages with the dead letters: each that is poisoned is one of them, once, and no other is.
func (l *queueLedger) audit(ctx context.Context, c *cast) (letters int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) > 0 {
		return 0, errors.New(l.faults[0])
	}
	d, err := c.client.Admin().DescribeTopic(ctx, queueTopic)
	if err != nil {
		return 0, err
	}
	want := map[stamp]int{}
	for _, ledger := range c.ledgers[queueTopic] {
		records, start, end, err := c.read(ctx, ledger, d)
		if err != nil {
			return 0, err
		}
		if faults := ledger.audit(records, start, end); len(faults) > 0 {
			return 0, errors.New(faults[0])
		}
		for _, r := range records {
			if r.stamp.number%queuePoison == 0 {
				want[r.stamp] = 1
			}
		}
	}
	if d, err = c.client.Admin().DescribeTopic(ctx, queueLetters); err != nil {
		return 0, err
	}
	for _, ledger := range c.ledgers[queueLetters] {
		records, _, _, err := c.read(ctx, ledger, d)
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			if r.err != nil {
				return 0, fmt.Errorf("dead letter %d: %w", r.offset, r.err)
			}
			letters++
			want[r.stamp]--
		}
	}
	for s, left := range want { // one that was with somebody at each kill may have died too
		poison := 0
		if s.number%queuePoison == 0 {
			poison = 1
		}
		switch times := poison - left; {
		case times < poison:
			return 0, fmt.Errorf("%v is poisoned, settled, and no dead letter", s)
		case times > 1:
			return 0, fmt.Errorf("%v is %d dead letters", s, times)
		case times > 0 && l.hasAcked(c, s):
			return 0, fmt.Errorf("%v was acked and is a dead letter", s)
		}
	}
	return letters, nil
}

// hasAcked says whether the ack of a message was answered.
func (l *queueLedger) hasAcked(c *cast, s stamp) bool {
	for _, ledger := range c.ledgers[queueTopic] {
		if offset, ok := ledger.where[s]; ok {
			_, acked := l.acked[place{ledger.partition, offset}]
			return acked
		}
	}
	return false
}
