package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

// ConsumersSpec is what consumers do together.
type ConsumersSpec struct {
	Brokers   string
	Version   string
	Topic     string
	Group     string // whose members the consumers are, from From on; empty: each reads partitions of its own
	Consumers int
	From      []int64 // by partition; it says how many partitions there are
	Follow    bool    // go on at the end of the log until told to stop
	Rate      float64 // records per second over all consumers; 0 flat out
	Records   int64   // stop after about so many; 0 reads to the end
	Account   load.Account
	Filler    []byte // what follows the mark in each record of the run; nil when it is not known
	Reuse     bool   // the memory of records is used again with the next Poll
	EndToEnd  bool
	Clock     load.Clock
}

// Consumers is a set of consumers, each with a client of its own, that share the partitions.
type Consumers struct {
	spec      ConsumersSpec
	consumers []*consumer
	places    []place // by partition
	read      atomic.Int64
}

// place is how far a partition has been read. Members of a group that hand a partition on meet here.
type place struct {
	mu   sync.Mutex
	next int64
}

// consumer belongs to one goroutine.
type consumer struct {
	client  *pulsemq.Client
	reader  reader
	close   func(context.Context) error
	tally   *load.Tally
	latency *hdrhistogram.Histogram
	foreign int64
}

// reader is a consumer of the Go client: one that was given its partitions, or a member of a group.
type reader interface {
	Poll(ctx context.Context) ([]pulsemq.Record, error)
}

// OpenConsumers connects them, and gives them their partitions or has them join their group. Without a group there are no
// more consumers than partitions.
func OpenConsumers(ctx context.Context, spec ConsumersSpec) (_ *Consumers, err error) {
	c := &Consumers{spec: spec, places: make([]place, len(spec.From))}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	count := spec.Consumers
	if spec.Group == "" {
		count = min(count, len(spec.From))
	}
	for p := range c.places {
		c.places[p].next = spec.From[p]
	}
	for i := range count {
		client, err := pulsemq.Connect(ctx, spec.Brokers, pulsemq.ClientName("pulsebench"), pulsemq.ClientVersion(spec.Version))
		if err != nil {
			return nil, err
		}
		one := &consumer{client: client, tally: load.NewTally(), latency: load.NewLatency()}
		c.consumers = append(c.consumers, one)
		if spec.Group == "" {
			err = c.assign(ctx, one, i)
		} else if i == 0 {
			err = seek(ctx, client, spec.Group, spec.Topic, spec.From)
		}
		if err != nil {
			return nil, err
		}
	}
	if spec.Group != "" {
		// They join when all are connected, so that the group is not shared out anew for each of them.
		for _, one := range c.consumers {
			if err := c.join(one); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// options are those of every consumer.
func (c *Consumers) options() (options []pulsemq.ConsumerOption) {
	if c.spec.Reuse {
		options = append(options, pulsemq.ConsumerReuse())
	}
	return options
}

// assign gives a consumer its partitions.
func (c *Consumers) assign(ctx context.Context, one *consumer, i int) error {
	options := c.options()
	if !c.spec.Follow {
		options = append(options, pulsemq.ConsumerStopAtEnd())
	}
	reader, err := one.client.NewConsumer(options...)
	if err != nil {
		return err
	}
	one.reader, one.close = reader, func(context.Context) error { return reader.Close() }
	for p := i; p < len(c.spec.From); p += c.spec.Consumers {
		if err := reader.AssignPartition(ctx, c.spec.Topic, uint32(p), pulsemq.StartOffset(c.spec.From[p])); err != nil {
			return err
		}
	}
	return nil
}

// join makes a consumer a member.
func (c *Consumers) join(one *consumer) error {
	member, err := one.client.NewGroupConsumer(c.spec.Group, pulsemq.GroupTopics(c.spec.Topic), pulsemq.GroupClientName("pulsebench"),
		pulsemq.GroupReads(c.options()...))
	if err != nil {
		return err
	}
	one.reader, one.close = member, member.Close
	return nil
}

// Run reads until the end of the log, or as much as was asked for, or, following, until ctx ends.
func (c *Consumers) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, one := range c.consumers {
		running.Go(func() {
			err := c.poll(ctx, one)
			switch {
			case ctx.Err() != nil, err == nil, errors.Is(err, pulsemq.ErrEndOfLog):
			default:
				cancel(err)
			}
			if c.enough() {
				cancel(load.ErrEnough)
			}
		})
	}
	if c.spec.Group != "" && !c.spec.Follow {
		running.Go(func() { watchStall(ctx, cancel, &c.read, fmt.Sprintf("group %q", c.spec.Group), c.spec.Records) })
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, load.ErrEnough) {
		return err
	}
	return nil
}

// enough reports whether as much as was asked for has been read.
func (c *Consumers) enough() bool { return c.spec.Records > 0 && c.read.Load() >= c.spec.Records }

func (c *Consumers) poll(ctx context.Context, one *consumer) error {
	allowance := load.NewAllowance(c.spec.Clock(), c.spec.Rate/float64(len(c.consumers)))
	for !c.enough() {
		now := c.spec.Clock()
		asked := allowance.Due(now, one.tally, 0)
		if wait := time.Duration(asked - now); wait > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(wait):
			}
		}
		records, err := one.reader.Poll(ctx)
		if err != nil {
			var partition *pulsemq.PartitionError
			if errors.As(err, &partition) && !partition.Stopped && int(partition.Partition) < len(c.places) {
				c.spec.Account.Damage(ledger.Place{Partition: partition.Partition, BaseOffset: partition.Base}, partition.Err.Error())
				p := &c.places[partition.Partition]
				p.mu.Lock()
				p.next = partition.Next
				p.mu.Unlock()
				continue
			}
			return err
		}
		now = c.spec.Clock()
		if err := c.take(one, records, now); err != nil {
			return err
		}
		one.tally.Records.Add(int64(len(records)))
		one.tally.Requests++
		one.tally.Last = now
		load.Record(one.tally.Latency, now-asked)
	}
	return nil
}

// take recognises the records of one call of Poll, which are of one partition.
func (c *Consumers) take(one *consumer, records []pulsemq.Record, now int64) error {
	first, last := &records[0], &records[len(records)-1]
	if int(first.Partition) >= len(c.places) {
		return fmt.Errorf("topic %q has gained partitions while it was read: %d of them were there", c.spec.Topic, len(c.places))
	}
	p := &c.places[first.Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	at := ledger.Place{Partition: first.Partition, BaseOffset: first.Offset}
	if gap := first.Offset - p.next; gap > 0 {
		c.spec.Account.Hole(at, gap)
	} else if gap < 0 {
		c.spec.Account.Again(at, min(p.next, last.Offset+1)-first.Offset)
	}
	fresh := 0
	for i := range records {
		if r := &records[i]; r.Offset >= p.next {
			if i > 0 && r.Offset != records[i-1].Offset+1 {
				c.spec.Account.Hole(ledger.Place{Partition: r.Partition, BaseOffset: r.Offset}, r.Offset-records[i-1].Offset-1)
			}
			c.record(one, r, now)
			fresh++
		}
	}
	p.next = max(p.next, last.Offset+1)
	c.read.Add(int64(fresh))
	return nil
}

// record recognises one record.
func (c *Consumers) record(one *consumer, r *pulsemq.Record, now int64) {
	one.tally.Bytes += int64(len(r.Value))
	mark, ok := payload.ReadMark(r.Value)
	if !ok {
		one.foreign++
		return
	}
	if mark.Index != 0 || !c.spec.Account.Find(mark, ledger.Place{Partition: r.Partition, BaseOffset: r.Offset}) {
		return
	}
	if c.spec.Filler != nil && !bytes.Equal(r.Value[payload.MarkBytes:], c.spec.Filler) {
		c.spec.Account.Damage(ledger.Place{Partition: r.Partition, BaseOffset: r.Offset}, "the record's value is not as it was sent")
	}
	if c.spec.EndToEnd {
		load.Record(one.latency, now-mark.Sent)
	}
}

// Tally adds up what was read. Its times are those of Poll.
func (c *Consumers) Tally() *load.Tally {
	sum := load.Merge(c.Tallies())
	if c.spec.EndToEnd {
		sum.EndToEnd = load.NewLatency()
		for _, one := range c.consumers {
			sum.EndToEnd.Merge(one.latency)
		}
	}
	return sum
}

// Tallies are those of the consumers.
func (c *Consumers) Tallies() []*load.Tally {
	var tallies []*load.Tally
	for _, one := range c.consumers {
		tallies = append(tallies, one.tally)
	}
	return tallies
}

// Foreign is the number of records that no run of this program sent.
func (c *Consumers) Foreign() (n int64) {
	for _, one := range c.consumers {
		n += one.foreign
	}
	return n
}

// Close closes the consumers, members side by side as they would leave a machine that is shut down, and their clients.
func (c *Consumers) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var closing sync.WaitGroup
	for _, one := range c.consumers {
		closing.Go(func() {
			if one.close != nil {
				_ = one.close(ctx) // what was read is known without them
			}
			one.client.Close()
		})
	}
	closing.Wait()
}
