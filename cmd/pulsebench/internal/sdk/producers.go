package sdk

import (
	"context"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

// ProducersSpec is what producers do together.
type ProducersSpec struct {
	Brokers      string
	Version      string
	Topic        string
	Run          payload.Run
	Producers    int
	RecordBytes  int
	Compression  pulsemq.Compression
	BatchRecords int
	InFlight     int
	Rate         float64
	Duration     time.Duration // 0: until Records are stored
	Records      int64         // 0: for Duration
	Ledger       *ledger.Ledger
	Clock        load.Clock
}

// Producers is a set of producers, each with a client of its own.
type Producers struct {
	spec      ProducersSpec
	producers []*producer
	start     int64
}

// OpenProducers connects them.
func OpenProducers(ctx context.Context, spec ProducersSpec) (*Producers, error) {
	p := &Producers{spec: spec}
	var budget *load.Budget
	if spec.Records > 0 {
		budget = load.NewBudget(spec.Records)
	}
	for i := range spec.Producers {
		one, err := connectProducer(ctx, ProducerSpec{
			Brokers: spec.Brokers, Version: spec.Version, Topic: spec.Topic, Run: spec.Run, Number: i,
			RecordBytes: spec.RecordBytes, Compression: spec.Compression, BatchRecords: spec.BatchRecords, InFlight: spec.InFlight,
			Stream: spec.Ledger.Stream(i), Budget: budget, Clock: spec.Clock,
		})
		if err != nil {
			p.Close()
			return nil, err
		}
		p.producers = append(p.producers, one)
	}
	return p, nil
}

// Run sends until the time or the records end, or one producer fails.
func (p *Producers) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.start = p.spec.Clock()
	pace := load.NewPace(p.start, p.spec.Duration, p.spec.Rate, 1, p.spec.Producers)
	var running sync.WaitGroup
	for _, one := range p.producers {
		one.spec.Pace = pace
		running.Go(func() {
			if err := one.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// Start is when the first record was due.
func (p *Producers) Start() int64 { return p.start }

// Tallies are those of the producers.
func (p *Producers) Tallies() []*load.Tally {
	var tallies []*load.Tally
	for _, one := range p.producers {
		tallies = append(tallies, one.tally)
	}
	return tallies
}

// Close closes the clients.
func (p *Producers) Close() {
	for _, one := range p.producers {
		one.client.Close()
	}
}
