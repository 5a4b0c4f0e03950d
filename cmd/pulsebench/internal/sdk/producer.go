package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// closeTimeout bounds the wait for the results of what was sent.
const closeTimeout = 60 * time.Second

// ProducerSpec is what each producer does.
type ProducerSpec struct {
	Brokers      string
	Version      string // of this program
	Topic        string
	Run          payload.Run
	Number       int
	RecordBytes  int
	Compression  pulsemq.Compression
	BatchRecords int // 0 takes the client's default
	InFlight     int // batches per partition; 0 takes the client's default
	Stream       *ledger.Stream
	Pace         load.Pace
	Budget       *load.Budget // in records
	Clock        load.Clock
}

// producer sends records from one goroutine; the client calls back with their results from others.
type producer struct {
	spec     ProducerSpec
	client   *pulsemq.Client
	producer *pulsemq.Producer
	tally    *load.Tally

	mu   sync.Mutex // around what the callbacks touch: the tally but for its counters, and idle
	idle []*pending
	err  error
}

// pending is a record without a result. It is used again and again, so that the callback costs no allocation.
type pending struct {
	owner   *producer
	counter uint64
	due     int64
	done    func(pulsemq.Result, error)
}

// connectProducer connects a client of its own, so that producers do not share connections.
func connectProducer(ctx context.Context, spec ProducerSpec) (*producer, error) {
	client, err := pulsemq.Connect(ctx, spec.Brokers, pulsemq.ClientName("pulsebench"), pulsemq.ClientVersion(spec.Version))
	if err != nil {
		return nil, err
	}
	options := []pulsemq.ProducerOption{pulsemq.ProducerCompression(spec.Compression)}
	if spec.BatchRecords > 0 {
		options = append(options, pulsemq.ProducerBatchRecords(spec.BatchRecords))
	}
	if spec.InFlight > 0 {
		options = append(options, pulsemq.ProducerInFlight(spec.InFlight))
	}
	p := &producer{spec: spec, client: client, tally: load.NewTally()}
	if p.producer, err = client.NewProducer(options...); err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

// run sends until the schedule or the budget ends, and waits for every result.
func (p *producer) run(ctx context.Context) error {
	schedule := p.spec.Pace.Schedule(p.spec.Number)
	sendErr := p.send(ctx, &schedule)
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	closeErr := p.producer.Close(closeCtx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if sendErr == nil && !schedule.Over(p.spec.Clock()) {
		return errors.Join(p.err, closeErr) // the records ended before the time
	}
	now := p.spec.Clock()
	schedule.Late(now, func(due int64) {
		p.tally.Unsent++
		load.Record(p.tally.Latency, now-due)
	})
	return errors.Join(p.err, sendErr, closeErr)
}

func (p *producer) send(ctx context.Context, schedule *load.Schedule) error {
	message := pulsemq.Message{Topic: p.spec.Topic, Value: payload.NewValue(p.spec.RecordBytes, 0)}
	for {
		now := p.spec.Clock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if schedule.Over(now) {
			return nil
		}
		due, ready := schedule.Next(now)
		if !ready {
			if at, more := schedule.Wake(now); more {
				time.Sleep(time.Duration(at - now))
			} else {
				time.Sleep(time.Millisecond) // the end is near
			}
			continue
		}
		if !p.spec.Budget.Take() {
			return nil
		}
		schedule.Sent()
		waiting, err := p.take()
		if err != nil {
			return nil // run reports it
		}
		waiting.counter, waiting.due = p.spec.Stream.Send(), due
		mark := payload.Mark{Records: 1, Run: p.spec.Run, Producer: uint32(p.spec.Number), Counter: waiting.counter, Sent: due}
		mark.Put(message.Value)
		if err := p.producer.SendAsync(ctx, &message, waiting.done); err != nil {
			return err
		}
	}
}

// take gives out a pending record, or the error that ended the run.
func (p *producer) take() (*pending, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	if n := len(p.idle); n > 0 {
		waiting := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return waiting, nil
	}
	waiting := &pending{owner: p}
	waiting.done = waiting.result
	return waiting, nil
}

// result takes the result of a record.
func (w *pending) result(r pulsemq.Result, err error) {
	p := w.owner
	now := p.spec.Clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	counter, due := w.counter, w.due
	p.idle = append(p.idle, w)
	if err != nil {
		code, known := proto.CodeOf(err)
		p.tally.Refuse(code)
		if !known || !code.Retriable() {
			p.err = fmt.Errorf("a record was not stored: %w", err)
		}
		p.spec.Budget.Return()
		return
	}
	if r.Offset == pulsemq.OffsetUnknown {
		p.spec.Stream.Expect(counter)
	} else {
		p.spec.Stream.Ack(counter, ledger.Place{Partition: r.Partition, BaseOffset: r.Offset})
	}
	load.Record(p.tally.Latency, now-due)
	p.tally.Records.Add(1)
	p.tally.Requests++
	p.tally.Bytes += int64(p.spec.RecordBytes)
	p.tally.Durability = min(p.tally.Durability, r.Durability)
	p.tally.Last = max(p.tally.Last, now)
}
