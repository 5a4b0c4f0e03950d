package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// QueueConsumer is a member of a queue group: the members share the partitions of the topics, each message is leased to
// one of them, and is acknowledged, tried again or put aside on its own. A message that was not settled when its consumer
// died comes again: each is processed at least once, or with QueueAtMostOnce at most once.
//
// Handle runs a function for each message, Messages is a loop, Poll leaves everything to the caller. All methods may be
// called by many goroutines.
type QueueConsumer struct {
	client  *Client
	group   string
	config  queueConfig
	backoff conn.Backoff

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	joining    context.Context // ends with the context of Close
	abandon    context.CancelFunc
	over       context.Context // ends at the end of Close
	finish     context.CancelFunc
	goroutines sync.WaitGroup
	handling   sync.WaitGroup
	joinID     string // under which the member has asked to be taken in, of the goroutine that joins; empty: not asked

	mu       sync.Mutex
	closed   bool
	fatal    error // why the member cannot go on
	told     []*PartitionError
	memberID string
	joined   bool
	epoch    int64
	parts    map[partKey]*queuePart // that are assigned
	leasings map[uint32]*leasing    // by broker
	all      map[*leasing]struct{}  // also those that only end what was begun
	ready    []*QueueMessage        // leased, and not handed out
	some     chan struct{}          // closed when there may be something for Poll
	looks    chan struct{}          // has an element when partitions may want to be leased from
	timeout  time.Duration          // the shortest lease seen; 0 none
	beats    chan struct{}          // has an element when the timeout has become shorter
	reports  []queueReport
	reporter chan struct{} // has an element when there are reports
}

// queueReport is something for QueueOnError.
type queueReport struct {
	message *QueueMessage
	err     error
}

// queuePart is a partition that is assigned to the consumer.
type queuePart struct {
	key       partKey
	id        [16]byte // of the topic
	owner     int64
	start     int64    // where the group begins if it has not; -1 until it was found out
	leasing   *leasing // nil while nothing is leased from it
	busy      bool     // something is found out about it
	stopped   bool
	failures  int
	notBefore time.Time
}

func (p *queuePart) place() proto.TopicPartition {
	return proto.TopicPartition{TopicID: p.id, Partition: p.key.number}
}

// NewQueueConsumer joins a queue group. It returns at once: what keeps it from joining is told by Poll when it is final,
// and tried again when it is not.
func (c *Client) NewQueueConsumer(group string, options ...QueueOption) (*QueueConsumer, error) {
	config := queueConfigDefault()
	for _, option := range options {
		option(&config)
	}
	if err := config.validate(group); err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	q := &QueueConsumer{
		client: c, group: group, config: config, backoff: groupRetry,
		parts: map[partKey]*queuePart{}, leasings: map[uint32]*leasing{}, all: map[*leasing]struct{}{},
		some: make(chan struct{}), looks: make(chan struct{}, 1), beats: make(chan struct{}, 1), reporter: make(chan struct{}, 1),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.joining, q.abandon = context.WithCancel(context.Background())
	q.over, q.finish = context.WithCancel(context.Background())
	q.goroutines.Go(q.belong)
	q.goroutines.Go(q.lead)
	q.goroutines.Go(q.extend)
	if config.onError != nil {
		q.goroutines.Go(q.tell)
	}
	return q, nil
}

// Poll waits for a message. It is this consumer's until it is settled: with Ack, Nack, Reject or Release. Poll returns a
// PartitionError when something is to be told about a partition; ErrClosed; what keeps the member from its group for
// good; or the error of ctx.
func (q *QueueConsumer) Poll(ctx context.Context) (*QueueMessage, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		switch {
		case q.closed:
			q.mu.Unlock()
			return nil, ErrClosed
		case q.fatal != nil:
			defer q.mu.Unlock()
			return nil, q.fatal
		case len(q.told) > 0:
			defer q.mu.Unlock()
			told := q.told[0]
			q.told = q.told[1:]
			q.signal() // there may be more, for others
			return nil, told
		}
		if m := q.next(); m != nil {
			q.mu.Unlock()
			return m, nil
		}
		some := q.some
		q.mu.Unlock()
		select {
		case <-some:
		case <-ctx.Done():
		}
	}
}

// next hands out the message that has waited longest; nil when none waits.
func (q *QueueConsumer) next() *QueueMessage {
	for len(q.ready) > 0 {
		m := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		switch {
		case q.config.atMostOnce:
			m.lease.repay(1)
		case m.settled || m.lost != nil:
			continue // given back meanwhile
		}
		m.begun = time.Now()
		return m
	}
	return nil
}

// Messages calls Poll for as long as the loop goes on. A message that was not settled in the loop is acknowledged when the
// loop asks for the next one or ends. The loop ends by itself when the consumer is closed; when ctx ends its error comes
// last. A PartitionError is handed to the loop, which goes on if it wants to.
func (q *QueueConsumer) Messages(ctx context.Context) iter.Seq2[*QueueMessage, error] {
	return func(yield func(*QueueMessage, error) bool) {
		for {
			m, err := q.Poll(ctx)
			var about *PartitionError
			switch {
			case errors.Is(err, ErrClosed):
				return
			case errors.As(err, &about):
				if !yield(nil, err) {
					return
				}
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			more := yield(m, nil)
			m.settleBy(proto.SettlementAck, 0, "")
			if !more {
				return
			}
		}
	}
}

// settleBy settles a message unless its application has. One whose Nack was not sent is given back, not acknowledged.
func (m *QueueMessage) settleBy(outcome proto.Settlement, delay time.Duration, reason string) {
	m.consumer.mu.Lock()
	settled, unsent := m.settled, m.unsent
	m.consumer.mu.Unlock()
	if unsent != nil && outcome == proto.SettlementAck {
		outcome, reason = proto.SettlementNack, unsent.Error()
	}
	if !settled {
		m.settle(outcome, delay, reason)
	}
}

// signal wakes every Poll. It is called with the lock held.
func (q *QueueConsumer) signal() {
	close(q.some)
	q.some = make(chan struct{})
}

// look wakes the goroutine that sees to partitions.
func (q *QueueConsumer) look() {
	select {
	case q.looks <- struct{}{}:
	default:
	}
}

// report has QueueOnError told. It is called with the lock held.
func (q *QueueConsumer) report(m *QueueMessage, err error) {
	if q.config.onError == nil {
		return
	}
	q.reports = append(q.reports, queueReport{m, err})
	select {
	case q.reporter <- struct{}{}:
	default:
	}
}

// tell calls QueueOnError.
func (q *QueueConsumer) tell() {
	for over := false; !over; {
		select {
		case <-q.reporter:
		case <-q.over.Done():
			over = true // with what there is still to tell
		}
		q.mu.Lock()
		reports := q.reports
		q.reports = nil
		q.mu.Unlock()
		for _, r := range reports {
			q.config.onError(r.message, r.err)
		}
	}
}

// lead leases from the partitions that are assigned, whichever broker leads them.
func (q *QueueConsumer) lead() {
	for {
		wait := q.leadAll(time.Now())
		select {
		case <-q.ctx.Done():
			return
		case <-q.looks:
		case <-time.After(wait):
		}
	}
}

// leadAll looks at every partition, and says when to look again.
func (q *QueueConsumer) leadAll(now time.Time) (wait time.Duration) {
	wait = time.Hour
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(q.parts), partKey.compare) {
		p := q.parts[key]
		if p.leasing != nil || p.busy || p.stopped || q.closed {
			continue
		}
		if !now.Before(p.notBefore) {
			q.leadOne(p, now)
		}
		if p.leasing == nil && !p.busy {
			wait = min(wait, max(p.notBefore.Sub(now), 0))
		}
	}
	return wait
}

// leadOne leases from a partition if its leader is known and connected.
func (q *QueueConsumer) leadOne(p *queuePart, now time.Time) {
	t := q.client.cluster.Cached(p.key.topic)
	if t == nil || t.ID != p.id || int(p.key.number) >= len(t.Partitions) || t.Partitions[p.key.number].Leader == 0 {
		q.client.cluster.RefreshLater(p.key.topic)
		q.retryLater(p, now, nil)
		return
	}
	node := t.Partitions[p.key.number].Leader
	link := q.client.cluster.Link(cluster.RoleConsume, node)
	if live := link.Current(); live != nil {
		q.leasingOf(node, live).lease(p)
		return
	}
	p.busy = true
	link.Want(func(err error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if p.busy = false; err != nil {
			q.retryLater(p, time.Now(), err)
			q.client.cluster.RefreshLater(p.key.topic)
		}
		q.look()
	})
}

// retryLater keeps a partition from being asked for a while that grows with each failure.
func (q *QueueConsumer) retryLater(p *queuePart, now time.Time, err error) {
	p.failures++
	wait := q.backoff.After(p.failures)
	var refusal *proto.Error
	if errors.As(err, &refusal) {
		wait = max(wait, time.Duration(refusal.WaitMs)*time.Millisecond)
	}
	p.notBefore = now.Add(wait)
	q.look()
}

// refused decides what becomes of a partition that a broker does not lease from.
func (q *QueueConsumer) refused(p *queuePart, err error) {
	if q.parts[p.key] != p || q.closed {
		return
	}
	now := time.Now()
	var refusal *proto.Error
	errors.As(err, &refusal)
	switch {
	case refusal == nil:
		q.retryLater(p, now, err) // the connection ended
	case refusal.Code == ErrOffsetOutOfRange && refusal.Offsets != nil:
		q.begin(p, refusal)
	case refusal.Code == ErrUnknownTopic, refusal.Code == ErrInvalidPartition, refusal.Code == ErrStaleEpoch, refusal.Code == ErrUnknownGroup:
		q.retryLater(p, now, err) // the next assignment or heartbeat tells more
		q.client.cluster.RefreshLater(p.key.topic)
	case refusal.Code.Retriable():
		q.retryLater(p, now, err)
		if q.client.cluster.LearnLeader(p.key.topic, p.id, p.key.number, refusal.Leader) {
			p.notBefore = time.Time{}
		} else {
			q.client.cluster.RefreshLater(p.key.topic)
		}
	default:
		q.stop(p, err)
	}
}

// stop tells why nothing comes of a partition any more.
func (q *QueueConsumer) stop(p *queuePart, err error) {
	p.stopped = true
	about := &PartitionError{Topic: p.key.topic, Partition: p.key.number, Err: err, Stopped: true}
	var refusal *proto.Error
	if errors.As(err, &refusal) && refusal.Offsets != nil {
		about.Base, about.Next = refusal.Offsets.Earliest, refusal.Offsets.Earliest
	}
	q.told = append(q.told, about)
	q.signal()
}

// begin finds out where the group begins in a partition.
func (q *QueueConsumer) begin(p *queuePart, refusal *proto.Error) {
	start := q.config.start
	switch {
	case q.config.startNone:
		q.stop(p, errors.Join(ErrNoOffset, refusal))
	case start.kind == startEarliest:
		p.start = refusal.Offsets.Earliest
	case start.kind == startLatest:
		p.start = refusal.Offsets.Latest
	case start.kind == startOffset && p.start < 0:
		p.start = start.offset
	case start.kind == startOffset:
		q.stop(p, refusal)
	default:
		q.beginAt(p, start)
	}
	q.look()
}

// beginAt asks where a time is; behind the last record it is the end.
func (q *QueueConsumer) beginAt(p *queuePart, start Start) {
	p.busy = true
	q.goroutines.Go(func() {
		found, err := listOffsets(q.ctx, q.client.cluster, cluster.RoleConsume, p.key.topic, OffsetSpec{kind: proto.OffsetKindTimestamp, ms: start.ms}, []uint32{p.key.number})
		if err == nil {
			err = found[0].Err
		}
		if err == nil && found[0].Offset < 0 {
			found, err = listOffsets(q.ctx, q.client.cluster, cluster.RoleConsume, p.key.topic, OffsetSpec{kind: proto.OffsetKindLatest}, []uint32{p.key.number})
			if err == nil {
				err = found[0].Err
			}
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if p.busy = false; err != nil {
			q.retryLater(p, time.Now(), err)
			return
		}
		p.start = found[0].Offset
		q.look()
	})
}

// MemberID is the member's id in the group; it changes when the member has to join anew.
func (q *QueueConsumer) MemberID() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.memberID
}

// Assignment is what the consumer may be given messages of, by topic and number. Offsets are -1: what others of the group
// have done is not known here.
func (q *QueueConsumer) Assignment() []GroupPartition {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []GroupPartition
	for key := range q.parts {
		all = append(all, GroupPartition{key.topic, key.number, -1})
	}
	sortGroupPartitions(all)
	return all
}

// Close gives back what was not begun, waits until the messages that Handle works on are settled, and leaves the group.
// Messages that Poll has returned and nobody has settled go to others at once; they count as delivered. It waits until
// ctx ends; a static member keeps its place for its session time-out.
func (q *QueueConsumer) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	for l := range q.all {
		l.stop()
	}
	q.signal()
	q.mu.Unlock()
	defer q.abandon()
	defer context.AfterFunc(ctx, q.abandon)()
	q.cancel()
	handled := make(chan struct{})
	go func() {
		q.handling.Wait()
		close(handled)
	}()
	select {
	case <-handled:
	case <-ctx.Done():
	}
	err := q.settled(ctx)
	q.mu.Lock()
	for l := range q.all {
		l.close()
	}
	q.mu.Unlock()
	q.finish()
	q.goroutines.Wait()
	q.mu.Lock()
	member, epoch, joined := q.memberID, q.epoch, q.joined
	q.mu.Unlock()
	if !joined {
		return err
	}
	_, left := askCoordinator[proto.LeaveGroupResponse](ctx, q.client, q.group, &proto.LeaveGroupRequest{
		Group: q.group, MemberID: member, InstanceID: q.config.instance, MemberEpoch: epoch, Returning: q.config.instance != "",
	})
	if memberOver(left) {
		left = nil
	}
	return errors.Join(err, left)
}

// settled waits until every outcome has reached the broker.
func (q *QueueConsumer) settled(ctx context.Context) error {
	q.mu.Lock()
	var last []*Settling
	for l := range q.all {
		for _, t := range l.settlers {
			last = append(append(last, t.sent...), t.waiting...)
		}
	}
	q.mu.Unlock()
	for _, s := range last {
		_ = s.Wait(ctx) // what became of it is told to who has settled it
	}
	return ctx.Err()
}
