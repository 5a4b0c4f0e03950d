package pulsemq

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// queue is what a producer holds for one partition:
//
//	open ─(full, due)─> ready ─(sent)─> inFlight ─(answered)─> deliverer
//	                      ^                │
//	                      └──(recovered)───┘
//
// Invariants: the records in inFlight, ready and open, in this order, are in the order in which they were taken.
// Numbered batches come before those without numbers, and their sequences rise without a gap, except behind a batch that
// was given up. All of inFlight went over the connection conn.
//
// When a batch fails in a way that can be repeated, the queue recovers: it sends nothing until each batch in flight has
// been answered or its connection has ended, and then sends those that failed again, in order, with the sequences they
// had. Batches behind the one that failed are refused with OUT_OF_ORDER_SEQUENCE meanwhile, which is what keeps the order.
type queue struct {
	producer  *Producer
	topic     *producerTopic
	partition uint32

	mu         sync.Mutex
	id         [16]byte // of the topic that the numbers belong to
	open       *batch
	ready      []*batch
	inFlight   []*batch
	conn       *conn.Conn
	recovering bool
	renumber   bool // after recovery, numbers are given anew
	uncertain  bool // with renumber: what may have been stored cannot be told any more and is given up
	suspended  bool // until the topic has been looked up again
	failures   int
	notBefore  time.Time
	lastErr    error // what keeps it from sending; nil when nothing does

	identity *identity
	sequence int32 // of the next record to be numbered

	taskPlace
}

// recordBytesExtraMax is more than a record takes beside its key, value and headers.
const recordBytesExtraMax = 40

// append adds a message. It reports whether the scheduler has to look, and false when the producer no longer takes any.
func (q *queue) append(r *proto.Record, now time.Time, size int, done func(Result, error)) (look, taken bool, err error) {
	config := &q.producer.config
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.producer.stopped.Load() {
		return false, false, nil
	}
	b := q.open
	if b != nil && (b.builder.Bytes()+size > q.topic.batchBytes() || b.count() >= config.batchRecords) {
		q.ready = append(q.ready, b)
		q.open, b = nil, nil
	}
	if b == nil {
		b = newBatch(config.compression, now, now.Add(config.deliveryTimeout))
		look = true
	}
	if err := b.builder.Append(r); err != nil {
		if b != q.open {
			b.recycle()
		}
		return false, true, err
	}
	q.open = b
	b.done = append(b.done, done)
	b.times = append(b.times, r.Timestamp)
	b.bytes += int64(size)
	return look, true, nil
}

// step gives up what is too old and sends what can be sent.
func (q *queue) step(now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire(now)
	for q.sendOne(now) {
	}
	return q.next(now)
}

// expire gives up what has waited for too long.
func (q *queue) expire(now time.Time) {
	q.endInFlight(func(b *batch) error {
		if now.Before(b.deadline) {
			return nil
		}
		return q.timeout(b)
	})
	for len(q.ready) > 0 && !now.Before(q.ready[0].deadline) {
		b := q.ready[0]
		q.drop(b)
		q.finish(b, q.timeout(b))
	}
	if b := q.open; b != nil && !now.Before(b.deadline) {
		q.open = nil
		q.finish(b, q.timeout(b))
	}
}

// endInFlight finishes the batches in flight for which fate returns an error. One whose answer may still come keeps its
// place, so that the order of the others is known and its bytes stay; one that only waits to be sent again is gone, since
// nothing else holds it and it may be used again at once.
func (q *queue) endInFlight(fate func(*batch) error) {
	kept := q.inFlight[:0]
	for _, b := range q.inFlight {
		var err error
		if !b.over {
			err = fate(b)
		}
		retry := b.retry
		if err != nil {
			q.finish(b, err)
		}
		if err == nil || !retry {
			kept = append(kept, b)
		}
	}
	clear(q.inFlight[len(kept):])
	q.inFlight = kept
}

func (q *queue) timeout(b *batch) error {
	return q.unacknowledged(b, fmt.Errorf("%w of %v", ErrDeliveryTimeout, q.producer.config.deliveryTimeout))
}

// closed is the result of a message that Close gave up on.
func (q *queue) closed(b *batch) error {
	return q.unacknowledged(b, fmt.Errorf("%w before it was acknowledged", ErrClosed))
}

// unacknowledged says why a message has no acknowledgement: what ended the waiting, how far the message came, and what kept it.
func (q *queue) unacknowledged(b *batch, end error) error {
	cause := q.lastErr // what keeps it now
	if cause == nil {
		cause = b.cause
	}
	state := "it was never sent"
	if b.attempts > 0 {
		state = fmt.Sprintf("it was sent %d times and may be stored", b.attempts)
	}
	if cause == nil && len(q.inFlight) > 0 {
		cause = errors.New("the broker has not answered")
	}
	if cause == nil {
		return fmt.Errorf("%w: %s", end, state)
	}
	return fmt.Errorf("%w: %s: %w", end, state, cause)
}

// next is when step has something to do of its own accord.
func (q *queue) next(now time.Time) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, b := range q.inFlight {
		if !b.over {
			earlier(b.deadline)
			break
		}
	}
	if len(q.ready) > 0 {
		earlier(q.ready[0].deadline)
	}
	if b := q.open; b != nil {
		earlier(b.deadline)
		if due := b.opened.Add(q.producer.config.linger); len(q.ready) == 0 && now.Before(due) {
			earlier(due)
		}
		if old := q.tooOld(b); now.Before(old) {
			earlier(old)
		}
	}
	if now.Before(q.notBefore) && (len(q.inFlight) > 0 || len(q.ready) > 0 || q.open != nil) {
		earlier(q.notBefore)
	}
	return at
}

// tooOld is when an open batch takes no more records although it cannot be sent: they would inherit its deadline.
func (q *queue) tooOld(b *batch) time.Time {
	return b.opened.Add(max(q.producer.config.linger, q.producer.config.deliveryTimeout/16))
}

// sendOne sends the next batch; false when nothing can be sent now.
func (q *queue) sendOne(now time.Time) bool {
	p := q.producer
	if b := q.open; b != nil && !now.Before(q.tooOld(b)) {
		q.ready = append(q.ready, b)
		q.open = nil
	}
	if q.suspended || now.Before(q.notBefore) || q.recovering && !q.recover() {
		return false
	}
	most := p.inFlight()
	if q.failures > 0 {
		most = 1 // one goes ahead to see: were it refused again, the ones behind it would be for nothing
	}
	if len(q.inFlight) >= most {
		return false
	}
	b := q.candidate(now)
	if b == nil {
		return false
	}
	if b.wire == nil {
		return q.build(b)
	}
	t := p.client.cluster.Cached(q.topic.name)
	if t == nil || int(q.partition) >= len(t.Partitions) {
		t = q.topic.meta.Load()
	}
	if int(q.partition) >= len(t.Partitions) {
		q.drop(b)
		q.finish(b, partitionError(q.topic.name, q.partition, len(t.Partitions)))
		return true
	}
	if t.ID != q.id {
		// A namesake has taken the topic's place, and knows none of our sequences. What is in flight to the old one comes
		// back first.
		q.id = t.ID
		q.renew()
		return true
	}
	leader := t.Partitions[q.partition]
	if leader.Leader == 0 {
		q.retryLater(now, ErrPartitionUnavailable.Errorf("topic %q partition %d has no leader now", q.topic.name, q.partition))
		p.client.cluster.RefreshLater(q.topic.name)
		return false
	}
	live := p.links.get(leader.Leader, q)
	if live == nil || len(q.inFlight) > 0 && q.conn != live {
		return false
	}
	if p.config.idempotent && !b.numbered {
		if q.unsettled() {
			return false
		}
		if q.identity == nil {
			if q.identity = p.currentIdentity(q); q.identity == nil {
				return false
			}
			q.sequence = 0
		}
		b.number(q.identity.id, q.identity.epoch, q.sequence)
		q.sequence = proto.SequenceAdd(q.sequence, int32(b.count()))
	}
	q.conn = live
	return q.send(b, live, t.ID, leader.LeaderEpoch, now)
}

// unsettled reports whether a batch in flight may be stored already. The broker remembers a producer's last batches only:
// new ones must not push it out of that memory before its retry has been answered, or its offset would be unknown.
func (q *queue) unsettled() bool {
	for _, b := range q.inFlight {
		if b.maybeStored && !b.over {
			return true
		}
	}
	return false
}

// candidate is the batch to be sent next, in ready; nil when none is due.
func (q *queue) candidate(now time.Time) *batch {
	if len(q.ready) > 0 {
		return q.ready[0]
	}
	b := q.open
	// An idle partition sends at once: see ProducerLinger.
	if b == nil || len(q.inFlight) > 0 && !b.flush && now.Before(b.opened.Add(q.producer.config.linger)) {
		return nil
	}
	q.open = nil
	q.ready = append(q.ready, b)
	return b
}

// build makes the wire form without holding the lock: compressing takes its time, and senders must not wait for it.
func (q *queue) build(b *batch) bool {
	b.holds++
	q.mu.Unlock()
	err := b.build()
	q.mu.Lock()
	q.release(b)
	if err != nil && !b.over {
		q.drop(b)
		q.finish(b, err)
	}
	return true
}

func (q *queue) send(b *batch, live *conn.Conn, id [16]byte, epoch int32, now time.Time) bool {
	left := b.deadline.Sub(now)
	request := &conn.Request{
		Message: &proto.ProduceRequest{TopicID: id, Partition: q.partition, LeaderEpoch: epoch, Acks: proto.AcksDurable,
			TimeoutMs: uint32(max(min(left, q.producer.client.config.requestTimeout).Milliseconds(), 1))},
		Bulk: b.wire,
	}
	request.Done = func(payload []byte, err error) bool {
		q.answered(b, payload, err)
		return false
	}
	b.attempts++
	b.holds++
	b.sentTo = id
	if err := live.Start(request); err != nil {
		b.attempts--
		q.release(b)
		if errors.Is(err, ErrFrameTooLarge) || errors.Is(err, ErrUnknownCommand) || errors.Is(err, ErrUnsupportedVersion) {
			q.drop(b)
			q.finish(b, err)
			return true
		}
		q.retryLater(now, err)
		return false
	}
	q.drop(b)
	q.inFlight = append(q.inFlight, b)
	return true
}

// drop takes a batch out of ready, where it is first.
func (q *queue) drop(b *batch) {
	if len(q.ready) > 0 && q.ready[0] == b {
		n := copy(q.ready, q.ready[1:])
		q.ready[n] = nil
		q.ready = q.ready[:n]
	}
}

// release ends a hold.
func (q *queue) release(b *batch) {
	b.holds--
	if b.holds > 0 || !b.over {
		return
	}
	q.producer.buffer.give(b.bytes, 0)
	if b.given {
		b.recycle()
	}
}

// delivered is told by the deliverer that a batch's results have been given.
func (q *queue) delivered(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.given = true
	if b.holds == 0 {
		b.recycle()
	}
}

// finish gives a batch its outcome, once. Its bytes stay with the buffer for as long as the connection reads them.
func (q *queue) finish(b *batch, err error) {
	if b.over {
		return
	}
	b.over = true
	b.err = err
	b.result.Topic, b.result.Partition = q.topic.name, q.partition
	if b.holds == 0 {
		q.producer.buffer.give(b.bytes, 0)
	}
	q.producer.deliverer.push(delivery{queue: q, batch: b})
}

// retryLater keeps the queue from sending for a while that grows with each failure.
func (q *queue) retryLater(now time.Time, err error) {
	q.failures++
	q.lastErr = err
	wait := q.producer.backoff.After(q.failures)
	var refusal *proto.Error
	if errors.As(err, &refusal) {
		wait = max(wait, time.Duration(refusal.WaitMs)*time.Millisecond)
	}
	q.notBefore = now.Add(wait)
}

// failAll gives up everything.
func (q *queue) failAll(err error) { q.failEach(func(*batch) error { return err }) }

// failEach gives up every batch for what fate says of it.
func (q *queue) failEach(fate func(*batch) error) {
	q.endInFlight(fate)
	for i, b := range q.ready {
		q.finish(b, fate(b))
		q.ready[i] = nil
	}
	q.ready = q.ready[:0]
	if q.open != nil {
		q.finish(q.open, fate(q.open))
		q.open = nil
	}
}
