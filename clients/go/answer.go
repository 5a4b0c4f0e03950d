package pulsemq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// damagedRetriesMax is how often a batch is sent again because its bytes changed on the way.
const damagedRetriesMax = 3

// answered takes the answer to a batch in flight. It runs on the connection's reader.
func (q *queue) answered(b *batch, payload []byte, err error) {
	var response proto.ProduceResponse
	if err == nil {
		err = response.Decode(payload)
	}
	q.mu.Lock()
	b.cause = err
	switch {
	case err == nil:
		q.stored(b, &response)
	case b.over:
		q.remove(b)
		q.afterLoss(err)
	default:
		q.refused(b, err)
	}
	q.release(b)
	q.mu.Unlock()
	q.producer.look(q)
}

// stored is the good end of a batch.
func (q *queue) stored(b *batch, r *proto.ProduceResponse) {
	q.remove(b)
	q.failures, q.lastErr = 0, nil
	if b.over {
		return // given up before the answer came; the deliverer has its result
	}
	b.result = Result{Offset: r.BaseOffset, Durability: r.Durability, Duplicate: r.Duplicate}
	if r.AppendTimeMs >= 0 {
		b.result.Timestamp, b.appendTime = time.UnixMilli(r.AppendTimeMs), true
	}
	q.finish(b, nil)
}

// remove takes a batch out of inFlight.
func (q *queue) remove(b *batch) {
	for i, other := range q.inFlight {
		if other == b {
			n := copy(q.inFlight[i:], q.inFlight[i+1:])
			q.inFlight[i+n] = nil
			q.inFlight = q.inFlight[:i+n]
			return
		}
	}
}

// first reports whether no batch in flight is before b.
func (q *queue) first(b *batch) bool { return len(q.inFlight) > 0 && q.inFlight[0] == b }

// afterLoss is for a refusal of a batch that had been given up: nobody is told any more, but the ones behind it have to
// go on.
func (q *queue) afterLoss(err error) {
	if !errors.Is(err, ErrDuplicateSequence) {
		q.recovering = true
		q.lastErr = err
		q.learn(err)
	}
}

// refused decides what becomes of a batch and the ones behind it.
func (q *queue) refused(b *batch, err error) {
	code, known := proto.CodeOf(err)
	if !known {
		q.again(b, err, true) // the connection ended
		return
	}
	switch code {
	case ErrOutOfOrderSequence, ErrUnknownProducer:
		q.outOfStep(b, code, err)
	case ErrDuplicateSequence:
		q.stored(b, &proto.ProduceResponse{BaseOffset: OffsetUnknown, AppendTimeMs: -1, Durability: DurabilityNone, Duplicate: true})
	case ErrBatchTooLarge:
		q.tooLarge(b, err)
	case ErrUnknownTopic:
		// Deleted, or deleted and created again under another id: the metadata tells.
		q.again(b, err, false)
		if b.sentTo == q.id { // else a namesake is known already
			q.suspended = true
			q.producer.checkTopic(q.topic, q.id)
		}
	case ErrCorruptBatch:
		if b.attempts <= damagedRetriesMax {
			q.again(b, err, false)
			return
		}
		q.giveUp(b, err)
	case ErrInvalidProducerEpoch:
		q.giveUp(b, err)
		q.renew()
	default:
		if code.Retriable() {
			q.again(b, err, !nothingDone(code))
			q.learn(err)
			return
		}
		q.giveUp(b, err)
	}
}

// nothingDone reports whether a refusal is the broker's word that it stored nothing.
func nothingDone(code proto.Code) bool {
	switch code {
	case ErrOverloaded, ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrStorageFull:
		return true
	}
	return false
}

// again keeps a batch in its place to be sent once more.
func (q *queue) again(b *batch, err error, maybeStored bool) {
	b.retry = true
	b.maybeStored = b.maybeStored || maybeStored
	if !q.recovering || q.first(b) {
		q.lastErr = err
	}
	if !q.recovering {
		q.recovering = true
		q.retryLater(time.Now(), err)
	}
}

// giveUp ends a batch that the broker will never take. The sequences it had are never used again, so the ones behind it
// are refused for the gap and then numbered anew: see outOfStep.
func (q *queue) giveUp(b *batch, err error) {
	q.remove(b)
	q.finish(b, fmt.Errorf("pulsemq: topic %q partition %d: %w", q.topic.name, q.partition, err))
}

// outOfStep is for a sequence that does not follow what the broker knows.
//
// Behind a batch that failed this is what keeps the order, and the batch is simply sent again. With nothing before it in
// flight, what was before it is not there: it was given up here, or lost there with a topic whose durability allows it.
//
// OUT_OF_ORDER_SEQUENCE is the broker's word that neither this batch nor any behind it is stored, since each would need
// its predecessor. So all of them may be numbered anew, from 0 under a producer id that has not been used here yet, and
// nothing can be stored twice.
//
// UNKNOWN_PRODUCER is no such word: the broker has forgotten the producer, and with it whether an earlier attempt was
// stored. A batch whose attempts were all refused is numbered anew; one whose attempt ended without an answer fails with
// this error, and the application decides.
func (q *queue) outOfStep(b *batch, code proto.Code, err error) {
	if !q.first(b) {
		q.again(b, err, false)
		return
	}
	q.renew()
	if code == ErrUnknownProducer {
		q.uncertain = true
	} else {
		b.maybeStored = false
	}
	b.retry = true
	q.recovering = true
	q.lastErr = err
}

// renew takes a new producer id for what has not been stored.
func (q *queue) renew() {
	q.renumber = true
	q.recovering = true
	q.producer.dropIdentity(q.identity)
	q.identity = nil
}

// tooLarge halves a batch of many records: the topic allows less than the producer was told to gather.
func (q *queue) tooLarge(b *batch, err error) {
	var refusal *proto.Error
	if b.count() == 1 || !errors.As(err, &refusal) {
		q.giveUp(b, err)
		return
	}
	if refusal.Limit > 0 {
		q.topic.limit(int(refusal.Limit))
	}
	first, second, splitErr := b.split(q.producer.config.compression)
	if splitErr != nil {
		q.giveUp(b, err)
		return
	}
	for i, other := range q.inFlight {
		if other == b {
			q.inFlight[i] = first
			q.inFlight = append(q.inFlight[:i+1], append([]*batch{second}, q.inFlight[i+1:]...)...)
			break
		}
	}
	first.retry, second.retry = true, true
	q.recovering = true
	// Its callbacks and bytes belong to the halves now. It is over and given, and nobody is told.
	b.over, b.given, b.bytes = true, true, 0
}

// learn takes from a refusal where the leader is, or asks for it.
func (q *queue) learn(err error) {
	var refusal *proto.Error
	if errors.As(err, &refusal) && !staleMetadata(err) && refusal.Code != ErrPartitionUnavailable && refusal.Code != ErrShuttingDown {
		return
	}
	c := q.producer.client.cluster
	if refusal != nil && c.LearnLeader(q.topic.name, q.topic.meta.Load().ID, q.partition, refusal.Leader) {
		// The way is known: there is nothing to wait for.
		q.notBefore = time.Time{}
		return
	}
	c.RefreshLater(q.topic.name)
}

// recover puts what failed back in front, once nothing is in flight any more; false while something is.
func (q *queue) recover() bool {
	for _, b := range q.inFlight {
		if !b.retry {
			return false
		}
	}
	var front []*batch
	for _, b := range append(q.inFlight, q.ready...) {
		b.retry = false
		if q.uncertain && b.maybeStored && b.numbered {
			q.finish(b, fmt.Errorf("pulsemq: topic %q partition %d: the broker no longer knows whether it was stored: %w", q.topic.name, q.partition, q.lastErr))
			continue
		}
		if q.renumber {
			b.numbered = false
		}
		front = append(front, b)
	}
	clear(q.inFlight)
	q.inFlight = q.inFlight[:0]
	q.ready = front
	if q.renumber {
		q.sequence = 0
	}
	q.recovering, q.renumber, q.uncertain = false, false, false
	return true
}
