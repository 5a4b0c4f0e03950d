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
	"github.com/pulsemq/pulsemq/proto"
)

// acksMax bounds the acknowledgements of a member that are on their way.
const acksMax = 1 << 14

// QueueSpec is what the members of a queue group do together.
type QueueSpec struct {
	Brokers  string
	Version  string
	Topic    string
	Queue    string // the group's name
	Members  int
	Prefetch int     // messages that are leased to a member at a time; 0 leaves the client its default
	From     []int64 // by partition, where the group begins; it says how many partitions there are
	To       []int64 // by partition, where it ends; nil: go on until told to stop
	Account  load.Account
	Filler   []byte // what follows the mark in each record of the run; nil when it is not known
	EndToEnd bool
	Clock    load.Clock
}

// Queue is a queue group whose members, each with a client of its own, acknowledge each message by itself.
type Queue struct {
	spec       QueueSpec
	members    []*queueMember
	deliveries *ledger.Deliveries
	records    int64 // to be acknowledged; 0: no end
	acked      atomic.Int64
}

// queueMember is a member. What is not marked belongs to the goroutine that polls.
type queueMember struct {
	client  *pulsemq.Client
	queue   *pulsemq.QueueConsumer
	latency *hdrhistogram.Histogram // end to end
	foreign int64
	acks    chan ack

	tally *load.Tally // of the goroutine that waits for acknowledgements
}

// ack is an acknowledgement on its way.
type ack struct {
	settling *pulsemq.Settling
	bytes    int
	at       int64 // on the run's clock
}

// OpenQueue sets the group to where it begins, and has its members join.
func OpenQueue(ctx context.Context, spec QueueSpec) (_ *Queue, err error) {
	q := &Queue{spec: spec, deliveries: ledger.NewDeliveries(spec.From)}
	defer func() {
		if err != nil {
			q.Close()
		}
	}()
	for p := range spec.To {
		q.records += max(spec.To[p]-spec.From[p], 0)
	}
	for i := range spec.Members {
		client, err := pulsemq.Connect(ctx, spec.Brokers, pulsemq.ClientName("pulsebench"), pulsemq.ClientVersion(spec.Version))
		if err != nil {
			return nil, err
		}
		q.members = append(q.members, &queueMember{client: client, tally: load.NewTally(), latency: load.NewLatency(), acks: make(chan ack, acksMax)})
		if i == 0 {
			if err := beginQueue(ctx, client, spec); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range q.members {
		options := []pulsemq.QueueOption{pulsemq.QueueTopics(spec.Topic), pulsemq.QueueClientName("pulsebench")}
		if spec.Prefetch > 0 {
			options = append(options, pulsemq.QueuePrefetch(spec.Prefetch))
		}
		if m.queue, err = m.client.NewQueueConsumer(spec.Queue, options...); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// joinCheck is how often a member that joins is looked at.
const joinCheck = 5 * time.Millisecond

// beginQueue sets the group to where the run begins. A member makes it first, and leaves: what is set before a group has
// had a member is a stream group.
func beginQueue(ctx context.Context, client *pulsemq.Client, spec QueueSpec) error {
	first, err := client.NewQueueConsumer(spec.Queue, pulsemq.QueueTopics(spec.Topic), pulsemq.QueueStartNone())
	if err != nil {
		return err
	}
	for len(first.Assignment()) == 0 && err == nil {
		look, stop := context.WithTimeout(ctx, joinCheck)
		_, err = first.Poll(look)
		stop()
		if about := (*pulsemq.PartitionError)(nil); errors.As(err, &about) || errors.Is(err, context.DeadlineExceeded) {
			err = ctx.Err()
		}
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer stop()
	if err := errors.Join(err, first.Close(closing)); err != nil {
		return err
	}
	return seek(ctx, client, spec.Queue, spec.Topic, spec.From)
}

// Run has the members work until everything is acknowledged, or, without an end, until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What was acknowledged before the end is waited for behind it.
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeWait, stop) })()
	var running sync.WaitGroup
	for _, m := range q.members {
		running.Go(func() {
			defer close(m.acks)
			if err := q.poll(ctx, m); ctx.Err() == nil {
				cancel(err)
			}
		})
		running.Go(func() {
			for a := range m.acks {
				q.await(waiting, m, a, cancel)
			}
		})
	}
	if q.records > 0 {
		running.Go(func() { watchStall(ctx, cancel, &q.acked, fmt.Sprintf("queue group %q", q.spec.Queue), q.records) })
	}
	running.Wait()
	if q.spec.To != nil {
		q.deliveries.Holes(q.spec.To, q.spec.Account.Hole)
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, load.ErrEnough) {
		return err
	}
	return nil
}

// poll takes one message after the other, and acknowledges it. It returns why it could not go on.
func (q *Queue) poll(ctx context.Context, m *queueMember) error {
	for {
		message, err := m.queue.Poll(ctx)
		if err != nil {
			return err
		}
		now := q.spec.Clock()
		at := ledger.Place{Partition: message.Partition, BaseOffset: message.Offset}
		switch {
		case !q.deliveries.Knows(at):
			return fmt.Errorf("partition %d of topic %q: offset %d was delivered, which is not of this run", at.Partition, q.spec.Topic, at.BaseOffset)
		case q.deliveries.Deliver(at):
			q.record(m, message, at, now)
		default:
			q.spec.Account.Again(at, 1)
		}
		m.acks <- ack{message.Ack(), len(message.Value), now}
	}
}

// record recognises a message.
func (q *Queue) record(m *queueMember, message *pulsemq.QueueMessage, at ledger.Place, now int64) {
	mark, ok := payload.ReadMark(message.Value)
	if !ok {
		m.foreign++
		return
	}
	if mark.Index != 0 || !q.spec.Account.Find(mark, at) {
		return
	}
	if q.spec.Filler != nil && !bytes.Equal(message.Value[payload.MarkBytes:], q.spec.Filler) {
		q.spec.Account.Damage(at, "the record's value is not as it was sent")
	}
	if q.spec.EndToEnd {
		load.Record(m.latency, now-mark.Sent)
	}
}

// await waits until an acknowledgement is on the broker's disk.
func (q *Queue) await(ctx context.Context, m *queueMember, a ack, cancel context.CancelCauseFunc) {
	if err := a.settling.Wait(ctx); err != nil {
		if code, ok := proto.CodeOf(err); ok {
			m.tally.Refuse(code)
		}
		return
	}
	now := q.spec.Clock()
	m.tally.Records.Add(1)
	m.tally.Requests++
	m.tally.Bytes += int64(a.bytes)
	m.tally.Last = now
	load.Record(m.tally.Latency, now-a.at)
	if n := q.acked.Add(1); q.records > 0 && n == q.records {
		cancel(load.ErrEnough)
	}
}

// Tally adds up what was acknowledged. Its times are those from taking a message to its acknowledgement on disk.
func (q *Queue) Tally() *load.Tally {
	sum := load.Merge(q.Tallies())
	if q.spec.EndToEnd {
		sum.EndToEnd = load.NewLatency()
		for _, m := range q.members {
			sum.EndToEnd.Merge(m.latency)
		}
	}
	return sum
}

// Tallies are those of the members.
func (q *Queue) Tallies() []*load.Tally {
	var tallies []*load.Tally
	for _, m := range q.members {
		tallies = append(tallies, m.tally)
	}
	return tallies
}

// Foreign is the number of messages that no run of this program sent.
func (q *Queue) Foreign() (n int64) {
	for _, m := range q.members {
		n += m.foreign
	}
	return n
}

// Close has the members leave, side by side, and closes their clients.
func (q *Queue) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var closing sync.WaitGroup
	for _, m := range q.members {
		closing.Go(func() {
			if m.queue != nil {
				_ = m.queue.Close(ctx) // what was acknowledged is known without them
			}
			m.client.Close()
		})
	}
	closing.Wait()
}
