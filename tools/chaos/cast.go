package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
)

// role is a topic of the cast and how it is written.
type role struct {
	name       string
	partitions uint32
	config     map[string]string
	sizes      []int // of values; a random one below a random one of these
	keys       int   // how many keys; 0: no keys
	trims      bool  // a trimmer follows the writers
	windows    int   // messages under way per writer; 0: the scenario writes it by hand
}

// allRoles have small files, so that every kind of roll and recycling happens all the time.
var allRoles = []role{
	{name: "small", partitions: 6, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 100, 2000}, windows: 200},
	{name: "large", partitions: 2, config: map[string]string{"segment.bytes": "2MiB"}, sizes: []int{300_000}, windows: 6},
	{name: "mixed", partitions: 3, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 100, 100, 200_000}, windows: 40},
	{name: "trimmed", partitions: 2, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 5000}, trims: true, windows: 100},
	{name: "retained", partitions: 1, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "retention.bytes": "3MiB"}, sizes: []int{20_000}, windows: 40},
	{name: "compacted", partitions: 2, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "cleanup.policy": "compact"}, sizes: []int{5000}, keys: 50, windows: 40},
	{name: "batched", partitions: 2, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "durability": "batch"}, sizes: []int{500, 100_000}, windows: 60},
	{name: "unsynced", partitions: 2, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "durability": "none"}, sizes: []int{500, 5000}, windows: 60},
}

// cast is the topics, their writers and their ledgers.
type cast struct {
	client   *pulsemq.Client
	producer *pulsemq.Producer
	roles    []role
	ledgers  map[string][]*ledger
	writers  atomic.Uint64
	powerCut bool // batch may lose a suffix
	churn    *churn
	pace     time.Duration
	resting  atomic.Bool    // nothing is sent for the moment
	refused  map[string]int // messages without an acknowledgement, by topic and error
	mu       sync.Mutex     // of refused
}

// newCast connects a cast to a broker. Close it when it is through.
func newCast(ctx context.Context, address string, roles []role) (*cast, error) {
	client, err := pulsemq.Connect(ctx, "mq://"+address, pulsemq.ClientReconnect(10*time.Millisecond, 100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	producer, err := client.NewProducer(pulsemq.ProducerDeliveryTimeout(deliverWait), pulsemq.ProducerLinger(0))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &cast{client: client, producer: producer, roles: roles, churn: &churn{client: client}, refused: map[string]int{}}, nil
}

func (c *cast) close() { c.client.Close() }

func (c *cast) create(ctx context.Context) error {
	c.ledgers = map[string][]*ledger{}
	for i := range c.roles {
		r := &c.roles[i]
		if _, err := c.client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: r.name, Partitions: r.partitions, Config: r.config}); err != nil {
			return fmt.Errorf("create %s: %w", r.name, err)
		}
		for p := range r.partitions {
			l := newLedger(r.name, p)
			l.compacted, l.retains = r.keys > 0, r.config["retention.bytes"] != ""
			l.unsynced = r.config["durability"] == "none"
			l.weak = l.unsynced || c.powerCut && r.config["durability"] == "batch"
			c.ledgers[r.name] = append(c.ledgers[r.name], l)
		}
	}
	return nil
}

func (c *cast) remove(ctx context.Context) error {
	for i := range c.roles {
		if _, err := c.client.Admin().DeleteTopic(ctx, c.roles[i].name); err != nil {
			return fmt.Errorf("delete %s: %w", c.roles[i].name, err)
		}
	}
	return nil
}

// hurt says whether bytes at rest of any partition were changed.
func (c *cast) hurt() bool {
	for _, ledgers := range c.ledgers {
		for _, l := range ledgers {
			if l.hurt {
				return true
			}
		}
	}
	return false
}

// crashed notes that a suffix of what is not synced may be gone.
func (c *cast) crashed() {
	if c.churn != nil {
		c.churn.crashes.Add(1)
	}
	for _, ledgers := range c.ledgers {
		for _, l := range ledgers {
			l.mu.Lock()
			l.crashes++
			l.mu.Unlock()
		}
	}
}

// play sends until ctx ends, and returns when every message has its result.
func (c *cast) play(ctx context.Context, random *rand.Rand) {
	var all sync.WaitGroup
	for i := range c.roles {
		r := &c.roles[i]
		if r.windows == 0 {
			continue // the scenario writes it by hand
		}
		for _, l := range c.ledgers[r.name] {
			writer, seed := c.writers.Add(1), random.Uint64()
			all.Go(func() { c.write(ctx, r, l, writer, rand.New(rand.NewPCG(seed, writer))) })
		}
		if r.trims {
			all.Go(func() { c.trim(ctx, r) })
		}
	}
	if c.churn != nil {
		all.Go(func() { c.churn.run(ctx) })
	}
	all.Wait()
}

func (c *cast) write(ctx context.Context, r *role, l *ledger, writer uint64, random *rand.Rand) {
	window := make(chan struct{}, r.windows)
	var under sync.WaitGroup
	defer under.Wait()
	for ctx.Err() == nil {
		select {
		case window <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if len(window) == 1 {
			time.Sleep(c.pace)
		}
		for c.resting.Load() && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		s := l.next(writer)
		m := &pulsemq.Message{Topic: r.name, Partition: pulsemq.PartitionNumber(l.partition), Value: s.value(random.IntN(r.sizes[random.IntN(len(r.sizes))]))}
		key := ""
		if r.keys > 0 {
			key = strconv.Itoa(random.IntN(r.keys))
			m.Key = []byte(key)
		}
		under.Add(1)
		err := c.producer.SendAsync(context.WithoutCancel(ctx), m, func(result pulsemq.Result, err error) {
			if err == nil {
				l.ack(s, result.Offset, key)
			} else {
				c.refuse(r, err)
			}
			<-window
			under.Done()
		})
		if err != nil {
			c.refuse(r, err)
			<-window
			under.Done()
		}
	}
}

// refuse counts a message that was not acknowledged.
func (c *cast) refuse(r *role, err error) {
	why := err.Error()
	if code, ok := proto.CodeOf(err); ok {
		why = code.String()
		if e := (*pulsemq.Error)(nil); errors.As(err, &e) {
			why += " " + e.Text
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[r.name+" "+why]++
}

// refusals is how many messages were not acknowledged.
func (c *cast) refusals() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.refused {
		n += count
	}
	return n
}

// trim deletes records in the middle of what there is.
func (c *cast) trim(ctx context.Context, r *role) {
	for ctx.Err() == nil {
		for _, l := range c.ledgers[r.name] {
			l.mu.Lock()
			before := l.trimmed
			for offset := range l.acked {
				before = max(before, offset-200)
			}
			l.mu.Unlock()
			l.mayTrim(before)
			c.client.Admin().DeleteRecords(ctx, r.name, l.partition, before)
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// counts is how many messages were sent and acknowledged.
func (c *cast) counts() (sent, acked int) {
	for _, ledgers := range c.ledgers {
		for _, l := range ledgers {
			s, a := l.counts()
			sent, acked = sent+s, acked+a
		}
	}
	return sent, acked
}

// verify reads every partition and fails with what is wrong.
func (c *cast) verify(ctx context.Context) (records int, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	faults, records, err := c.audit(ctx)
	if err == nil && len(faults) > 0 {
		err = errors.New(strings.Join(faults, "\n"))
	}
	return records, err
}

// audit reads every partition and returns what is wrong.
func (c *cast) audit(ctx context.Context) (faults []string, records int, err error) {
	for i := range c.roles {
		d, err := c.client.Admin().DescribeTopic(ctx, c.roles[i].name)
		if err != nil {
			return faults, records, err
		}
		for _, l := range c.ledgers[c.roles[i].name] {
			found, start, end, err := c.read(ctx, l, d)
			if err != nil {
				return faults, records, fmt.Errorf("read %s/%d: %w", l.topic, l.partition, err)
			}
			records += len(found)
			faults = append(faults, l.audit(found, start, end)...)
		}
	}
	if c.churn == nil {
		return faults, records, nil
	}
	more, err := c.churn.audit(ctx)
	return append(faults, more...), records, err
}

// shownWait bounds how long what was acknowledged in memory is not shown yet, since the disk has to take it first.
const shownWait = 30 * time.Second

// read is everything that a partition holds, of a topic that was described after everything had settled.
func (c *cast) read(ctx context.Context, l *ledger, d pulsemq.TopicDescription) (records []found, start, end int64, err error) {
	if l.unsynced {
		err := eventually(ctx, shownWait, func() (err error) {
			if p := d.Partitions[l.partition]; p.Err != nil || p.HighWatermark == p.LogEndOffset {
				return nil
			}
			if d, err = c.client.Admin().DescribeTopic(ctx, l.topic); err != nil {
				return err
			}
			p := d.Partitions[l.partition]
			return fmt.Errorf("%d of %d records are shown", p.HighWatermark, p.LogEndOffset)
		})
		if err != nil {
			return nil, 0, 0, err
		}
	}
	for try := 0; ; try++ {
		if try > 0 || l.retains {
			if d, err = c.client.Admin().DescribeTopic(ctx, l.topic); err != nil {
				return nil, 0, 0, err
			}
		}
		records, start, end, err = c.readOnce(ctx, l, d.Partitions[l.partition])
		// Retention takes away what is being read: then it is read again.
		if l.retains && errors.Is(err, pulsemq.ErrOffsetOutOfRange) && try < 20 {
			continue
		}
		return records, start, end, err
	}
}

// readOnce reads a partition from its start to its end. When its bytes were changed it reads on behind what the broker
// calls damaged, and leaves that in the ledger's gaps.
func (c *cast) readOnce(ctx context.Context, l *ledger, p pulsemq.PartitionDescription) (records []found, start, end int64, err error) {
	l.gaps = nil
	if p.Err != nil {
		return nil, 0, 0, p.Err
	}
	if p.HighWatermark != p.LogEndOffset {
		return nil, 0, 0, fmt.Errorf("nothing is under way, and the high watermark %d is not the end %d", p.HighWatermark, p.LogEndOffset)
	}
	k, err := c.client.NewConsumer(pulsemq.ConsumerStopAtEnd(), pulsemq.ConsumerSkipCorrupt(l.hurt))
	if err != nil {
		return nil, 0, 0, err
	}
	defer k.Close()
	if err := k.AssignPartition(ctx, l.topic, l.partition, pulsemq.StartOffset(p.LogStartOffset)); err != nil {
		return nil, 0, 0, err
	}
	for r, err := range k.Records(ctx) {
		var about *pulsemq.PartitionError
		if errors.As(err, &about) && !about.Stopped && errors.Is(err, pulsemq.ErrCorruptRecord) {
			l.gaps = append(l.gaps, gap{about.Base, about.Next})
			continue
		}
		if err != nil {
			return nil, 0, 0, err
		}
		s, err := stampOf(r.Value)
		records = append(records, found{r.Offset, s, err})
	}
	return records, p.LogStartOffset, p.LogEndOffset, nil
}
