package sdk

import (
	"bytes"
	"context"
	"errors"
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
	Consumers int
	From      []int64 // by partition; it says how many partitions there are
	Follow    bool    // go on at the end of the log until told to stop
	Rate      float64 // records per second over all consumers; 0 flat out
	Records   int64   // stop after about so many; 0 reads to the end
	Account   load.Account
	Filler    []byte // what follows the mark in each record of the run; nil when it is not known
	EndToEnd  bool
	Clock     load.Clock
}

// Consumers is a set of consumers, each with a client of its own, that share the partitions.
type Consumers struct {
	spec      ConsumersSpec
	consumers []*consumer
	read      atomic.Int64
}

// consumer belongs to one goroutine.
type consumer struct {
	client   *pulsemq.Client
	consumer *pulsemq.Consumer
	tally    *load.Tally
	next     map[uint32]int64 // by partition
	latency  *hdrhistogram.Histogram
	foreign  int64
}

// OpenConsumers connects them and gives them their partitions. There are no more consumers than partitions.
func OpenConsumers(ctx context.Context, spec ConsumersSpec) (*Consumers, error) {
	c := &Consumers{spec: spec}
	for i := range min(spec.Consumers, len(spec.From)) {
		client, err := pulsemq.Connect(ctx, spec.Brokers, pulsemq.ClientName("pulsebench"), pulsemq.ClientVersion(spec.Version))
		if err != nil {
			c.Close()
			return nil, err
		}
		var options []pulsemq.ConsumerOption
		if !spec.Follow {
			options = append(options, pulsemq.ConsumerStopAtEnd())
		}
		one := &consumer{client: client, tally: load.NewTally(), next: make(map[uint32]int64), latency: load.NewLatency()}
		c.consumers = append(c.consumers, one)
		if one.consumer, err = client.NewConsumer(options...); err != nil {
			c.Close()
			return nil, err
		}
		for p := i; p < len(spec.From); p += spec.Consumers {
			if err := one.consumer.AssignPartition(ctx, spec.Topic, uint32(p), pulsemq.StartOffset(spec.From[p])); err != nil {
				c.Close()
				return nil, err
			}
			one.next[uint32(p)] = spec.From[p]
		}
	}
	return c, nil
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
			if c.spec.Records > 0 && c.read.Load() >= c.spec.Records {
				cancel(load.ErrEnough)
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, load.ErrEnough) {
		return err
	}
	return nil
}

func (c *Consumers) poll(ctx context.Context, one *consumer) error {
	allowance := load.NewAllowance(c.spec.Clock(), c.spec.Rate/float64(len(c.consumers)))
	for c.spec.Records == 0 || c.read.Load() < c.spec.Records {
		now := c.spec.Clock()
		asked := allowance.Due(now, one.tally, 0)
		if wait := time.Duration(asked - now); wait > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(wait):
			}
		}
		records, err := one.consumer.Poll(ctx)
		if err != nil {
			var partition *pulsemq.PartitionError
			if errors.As(err, &partition) && !partition.Stopped {
				c.spec.Account.Damage(ledger.Place{Partition: partition.Partition, BaseOffset: partition.Base}, partition.Err.Error())
				one.next[partition.Partition] = partition.Next
				continue
			}
			return err
		}
		now = c.spec.Clock()
		for i := range records {
			c.record(one, &records[i], now)
		}
		c.read.Add(int64(len(records)))
		one.tally.Records.Add(int64(len(records)))
		one.tally.Requests++
		one.tally.Last = now
		load.Record(one.tally.Latency, now-asked)
	}
	return nil
}

// record recognises one record.
func (c *Consumers) record(one *consumer, r *pulsemq.Record, now int64) {
	if gap := r.Offset - one.next[r.Partition]; gap > 0 {
		c.spec.Account.Hole(ledger.Place{Partition: r.Partition, BaseOffset: r.Offset}, gap)
	}
	one.next[r.Partition] = r.Offset + 1
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

// Close closes the consumers and their clients.
func (c *Consumers) Close() {
	for _, one := range c.consumers {
		if one.consumer != nil {
			one.consumer.Close()
		}
		one.client.Close()
	}
}
