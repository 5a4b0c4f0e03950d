package pulsemq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/proto"
)

// refetchesMax is how often bytes that fail their checksum are asked for again before they are reported.
const refetchesMax = 3

// part is one partition that a consumer reads. Everything is guarded by the consumer's lock.
//
// Invariants: position <= the offset of the first record in items <= next
//
//	generation rises with everything that makes what is on its way worthless: answers and pushes of an older one
//	are dropped, so that nothing stale is returned after Seek
//	at most one of fetching and subscription is set
type part struct {
	taskPlace

	consumer *Consumer
	topic    string
	number   uint32
	id       [16]byte // of the topic

	generation    uint32
	begun         bool  // a record has been read, or its place was the application's choice
	position      int64 // of the next record to be returned
	positionEpoch int32 // leader epoch of the record before it; -1 when none
	next          int64 // of the next record to be asked for
	nextEpoch     int32 // leader epoch of the record before it; -1 when none
	highWatermark int64 // -1 until known
	end           int64 // where ConsumerStopAtEnd stops; -1 when it does not
	ended         bool  // an answer has shown that nothing is left before end

	paused    bool
	stopped   bool
	removed   bool
	checking  bool // something is asked of a broker: see meanwhile
	failures  int
	refetches int
	notBefore time.Time

	items  []*item
	bytes  int64 // of items, as they came
	listed bool  // in the consumer's ready
	hungry bool  // in the consumer's hungry
	fed    bool  // has just been taken out of it: it is its turn

	fetching     bool
	subscription *subscription
}

// item is something to be returned: records or an error.
type item struct {
	err     *PartitionError
	payload []byte // that the batches came in
	raw     []byte // batches that are still packed
	decoded []Record
	slab    *slab // that decoded lies in; nil before it is decoded
	through int64 // position once decoded is returned
	epoch   int32 // leader epoch of the last record in decoded
	bytes   int64 // of the consumer's buffer
	from    *subscription
}

// start begins at an offset.
func (p *part) start(id [16]byte, offset int64, earliest bool) {
	p.discard()
	p.id = id
	p.position, p.next = offset, offset
	p.positionEpoch, p.nextEpoch = -1, -1
	p.begun = !earliest
	p.stopped, p.ended, p.failures, p.refetches = false, false, 0, 0
	p.notBefore = time.Time{}
	p.consumer.scheduler.look(p)
}

// discard makes everything read ahead or on its way worthless.
func (p *part) discard() {
	p.generation++
	for _, i := range p.items {
		p.free(i)
	}
	p.items = nil
	p.unsubscribe()
	p.fetching = false // its answer is dropped, and gives its bytes back then
}

// free gives the bytes of an item back.
func (p *part) free(i *item) {
	if i.bytes == 0 {
		return
	}
	k := p.consumer
	p.bytes -= i.bytes
	k.bytes -= i.bytes
	if i.from != nil {
		i.from.owe(i.bytes)
	}
	i.bytes = 0
	k.feed()
	k.scheduler.look(p)
}

// feed gives the first of those that wait for room its turn, when there is room. One has it at a time and passes it on
// (passTurn): were many called for the room of one, the others would go to the end of the line, and with thousands of
// partitions some would be asked ten times before others are asked once. It is called with the lock held.
func (k *Consumer) feed() {
	if k.feeding || len(k.hungry) == 0 || !k.roomFor(k.hungry[0].reserve()) {
		return
	}
	p := k.hungry[0]
	k.hungry[0] = nil
	k.hungry = k.hungry[1:]
	p.hungry, p.fed, k.feeding = false, true, true
	k.scheduler.look(p)
}

// list puts the partition in line when it has something to return.
func (p *part) list() {
	if len(p.items) > 0 && !p.listed && !p.paused && !p.removed {
		p.listed = true
		p.consumer.ready = append(p.consumer.ready, p)
		p.consumer.signal()
	}
}

// step asks for records when there is room for them.
func (p *part) step(now time.Time) time.Time {
	k := p.consumer
	k.mu.Lock()
	defer k.mu.Unlock()
	defer p.passTurn()
	if p.removed || p.stopped || p.paused || p.checking || k.closed || p.end >= 0 && (p.ended || p.next >= p.end) {
		return time.Time{}
	}
	if now.Before(p.notBefore) {
		return p.notBefore
	}
	if p.fetching || p.subscription != nil {
		return time.Time{}
	}
	t := k.client.cluster.Cached(p.topic)
	if t == nil || t.ID != p.id || int(p.number) >= len(t.Partitions) {
		p.checkTopic()
		return time.Time{}
	}
	leader := t.Partitions[p.number]
	if leader.Leader == 0 {
		k.client.cluster.RefreshLater(p.topic)
		p.retryLater(now, nil)
		return p.notBefore
	}
	live := k.links.get(leader.Leader, p)
	if live == nil {
		return time.Time{}
	}
	if k.config.mode == ConsumerPush {
		k.subscribe(p, live, leader)
	} else {
		p.fetch(live, leader)
	}
	if now.Before(p.notBefore) {
		return p.notBefore
	}
	return time.Time{}
}

// passTurn gives the turn to the next, whether this one has used it or not.
func (p *part) passTurn() {
	if p.fed {
		p.fed, p.consumer.feeding = false, false
		p.consumer.feed()
	}
}

// retryLater keeps the partition from asking for a while that grows with each failure.
func (p *part) retryLater(now time.Time, err error) {
	p.failures++
	wait := p.consumer.backoff.After(p.failures)
	var refusal *proto.Error
	if errors.As(err, &refusal) {
		wait = max(wait, time.Duration(refusal.WaitMs)*time.Millisecond)
	}
	p.notBefore = now.Add(wait)
}

// received takes in batches that are the answer to a request or were pushed, in payload.
func (p *part) received(batches []byte, highWatermark int64, payload []byte, from *subscription) {
	p.failures = 0
	p.highWatermark = highWatermark
	next, epoch := p.next, p.nextEpoch
	for rest := batches; len(rest) > 0; {
		b, after, err := proto.NextBatch(rest)
		if err != nil {
			if from != nil {
				from.owe(int64(len(batches)))
			}
			p.damaged(p.next, p.next, err)
			return
		}
		if b.NextOffset() > next {
			next, epoch = b.NextOffset(), b.LeaderEpoch()
		}
		rest = after
	}
	if next == p.next {
		if from != nil {
			from.owe(int64(len(batches)))
		}
		return
	}
	p.next, p.nextEpoch = next, epoch
	p.begun = true
	i := &item{payload: payload, raw: batches, bytes: int64(len(batches)), from: from}
	p.items = append(p.items, i)
	p.bytes += i.bytes
	p.consumer.bytes += i.bytes
	p.list()
}

// damaged is for bytes that do not hold together on arrival: they are asked for again, and reported when that does not
// help. base and next are the offsets they stand for; equal when not even that is known.
func (p *part) damaged(base, next int64, err error) {
	if p.refetches < refetchesMax {
		p.refetches++
		p.restart(p.position, p.positionEpoch)
		p.retryLater(time.Now(), nil)
		return
	}
	p.refetches = 0
	if p.consumer.config.skipCorrupt && next > base {
		position, epoch := p.position, p.positionEpoch
		p.restart(next, epoch)
		p.position = position
		p.report(&PartitionError{Err: err, Base: base, Next: next})
		return
	}
	p.restart(p.position, p.positionEpoch)
	p.report(&PartitionError{Err: err, Base: base, Next: next, Stopped: true})
}

// restart goes on at an offset and drops what was read ahead.
func (p *part) restart(offset int64, epoch int32) {
	p.discard()
	p.position, p.next = offset, offset
	p.positionEpoch, p.nextEpoch = epoch, epoch
	p.consumer.scheduler.look(p)
}

// report puts an error in line, behind the records that came before it.
func (p *part) report(e *PartitionError) {
	e.Topic, e.Partition = p.topic, p.number
	if e.Stopped {
		p.stopped = true
	}
	p.items = append(p.items, &item{err: e, through: e.Next})
	p.list()
}

// refused decides what becomes of a partition whose request failed.
func (p *part) refused(err error) {
	k := p.consumer
	now := time.Now()
	code, known := proto.CodeOf(err)
	if !known {
		p.retryLater(now, err) // the connection ended
		k.scheduler.look(p)
		return
	}
	var refusal *proto.Error
	errors.As(err, &refusal)
	if refusal == nil {
		refusal = &proto.Error{Code: code}
	}
	switch {
	case code == ErrOffsetOutOfRange && refusal.Offsets != nil:
		p.outOfRange(err, refusal.Offsets)
	case code == ErrLogTruncated && refusal.Truncation != nil:
		p.truncated(err, refusal.Truncation)
	case code == ErrCorruptRecord && refusal.Damage != nil && refusal.Damage.NextOffset > p.next:
		d := refusal.Damage
		e := &PartitionError{Err: err, Base: max(d.BaseOffset, p.next), Next: d.NextOffset, Stopped: !k.config.skipCorrupt}
		if !e.Stopped {
			p.next = d.NextOffset
			k.scheduler.look(p)
		}
		p.report(e)
	case code == ErrUnknownTopic || code == ErrInvalidPartition:
		p.checkTopic()
	case code.Retriable():
		p.retryLater(now, err)
		if staleMetadata(err) || code == ErrPartitionUnavailable || code == ErrShuttingDown {
			if k.client.cluster.LearnLeader(p.topic, p.id, p.number, refusal.Leader) {
				p.notBefore = time.Time{}
			} else {
				k.client.cluster.RefreshLater(p.topic)
			}
		}
		k.scheduler.look(p)
	default:
		p.report(&PartitionError{Err: err, Base: p.next, Next: p.next, Stopped: true})
	}
}

// outOfRange follows the policy, and tells.
func (p *part) outOfRange(err error, have *proto.OffsetRange) {
	base := p.next
	to := have.Latest
	if p.end >= 0 {
		p.end = min(p.end, have.Latest)
	}
	switch {
	case !p.begun:
		// It asked for the earliest record, which has been dropped meanwhile: that is no news.
		p.restart(have.Earliest, -1)
		p.begun = true
		return
	case p.consumer.config.reset == ConsumerResetEarliest:
		to = have.Earliest
	case p.consumer.config.reset == ConsumerResetError:
		p.report(&PartitionError{Err: err, Base: base, Next: base, Stopped: true})
		return
	case p.consumer.config.reset == consumerResetAt:
		p.resetAt(err)
		return
	}
	p.goOn(err, to)
}

// goOn leaves out what does not exist, and tells. What was read ahead is still good, and comes first.
func (p *part) goOn(err error, to int64) {
	base := p.next
	p.next, p.nextEpoch = to, -1
	p.report(&PartitionError{Err: err, Base: base, Next: to})
	p.consumer.scheduler.look(p)
}

// resetAt finds out where the time of the policy is, and goes on there.
func (p *part) resetAt(cause error) {
	k := p.consumer
	p.meanwhile(func() func() {
		found, err := k.offsets(k.ctx, p.topic, []uint32{p.number}, StartTime(k.config.resetAt))
		return func() {
			if err != nil {
				p.report(&PartitionError{Err: errors.Join(cause, err), Base: p.next, Next: p.next, Stopped: true})
				return
			}
			p.goOn(cause, found[0])
		}
	})
}

// meanwhile asks something of a broker while the partition waits, and then does what ask returns with the lock held,
// unless the partition has been sought or is not read any more.
func (p *part) meanwhile(ask func() func()) {
	k := p.consumer
	if p.checking || k.closed {
		return
	}
	p.checking = true
	generation := p.generation
	k.goroutines.Go(func() {
		then := ask()
		k.mu.Lock()
		defer k.mu.Unlock()
		p.checking = false
		if k.closed || p.removed || p.generation != generation {
			k.scheduler.look(p)
			return
		}
		then()
	})
}

// truncated goes on where the logs part. Records behind that which have been read ahead no longer exist; if none of them
// has been returned, there is nothing to tell.
func (p *part) truncated(err error, t *proto.Truncation) {
	if p.position <= t.EndOffset && p.positionEpoch <= t.Epoch {
		p.restart(p.position, p.positionEpoch)
		p.retryLater(time.Now(), nil) // should it not help, it must not go round and round
		return
	}
	p.restart(min(t.EndOffset, p.position), t.Epoch)
	p.report(&PartitionError{Err: err, Base: p.next, Next: p.next})
}

// checkTopic finds out whether the topic still exists. An offset means nothing in a namesake: the application decides.
func (p *part) checkTopic() {
	k := p.consumer
	p.meanwhile(func() func() {
		t, err := k.client.cluster.Refresh(k.ctx, p.topic)
		return func() {
			if err == nil {
				err = p.misses(t)
			}
			if err != nil {
				p.report(&PartitionError{Err: err, Base: p.next, Next: p.next, Stopped: true})
				return
			}
			p.retryLater(time.Now(), nil)
			k.scheduler.look(p)
		}
	})
}

// misses says why a topic is not what the partition belongs to; nil when it is.
func (p *part) misses(t *cluster.Topic) error {
	if t.ID != p.id {
		return ErrUnknownTopic.Errorf("topic %q was deleted and one of the same name created: Seek reads that one", p.topic)
	}
	if int(p.number) >= len(t.Partitions) {
		return partitionError(p.topic, p.number, len(t.Partitions))
	}
	return nil
}

func (p *part) String() string { return fmt.Sprintf("%s/%d", p.topic, p.number) }
