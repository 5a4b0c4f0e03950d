package pulsemq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// Consumer reads the partitions that it is given. It is safe for use by many goroutines, but records are in order only
// for one that polls alone. Where it stands is kept by nobody but itself: a program that wants to go on after a restart
// stores the positions with its results.
type Consumer struct {
	client    *Client
	config    consumerConfig
	backoff   conn.Backoff
	scheduler *scheduler
	links     *links
	unwatch   func()

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	polling chan struct{} // has one element while nobody polls

	mu            sync.Mutex
	closed        bool
	parts         map[partKey]*part
	follow        map[string][16]byte // topics whose new partitions are read too, with the id they had
	ready         []*part             // that have something to return, in the order of their turns
	some          chan struct{}       // closed when ready or the end may have changed
	bytes         int64               // read ahead, and asked for
	fetches       int                 // FETCH requests unanswered
	hungry        []*part             // that wait for bytes or fetches to become less
	feeding       bool                // one of them has its turn
	reuse         *reuse              // nil: records are the application's for good
	subscriptions map[uint32]*subscription
}

// partKey names a partition.
type partKey struct {
	topic  string
	number uint32
}

func (k partKey) compare(other partKey) int {
	return cmp.Or(cmp.Compare(k.topic, other.topic), cmp.Compare(k.number, other.number))
}

// NewConsumer makes a consumer that reads nothing yet: see AssignTopic and AssignPartition.
func (c *Client) NewConsumer(options ...ConsumerOption) (*Consumer, error) {
	config := consumerConfigDefault()
	for _, option := range options {
		option(&config)
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	k := &Consumer{
		client:        c,
		config:        config,
		backoff:       conn.Backoff{Min: config.retryMin, Max: config.retryMax},
		polling:       make(chan struct{}, 1),
		parts:         map[partKey]*part{},
		follow:        map[string][16]byte{},
		some:          make(chan struct{}),
		subscriptions: map[uint32]*subscription{},
	}
	if config.reuse {
		k.reuse = &reuse{bytesMax: config.bufferBytes}
	}
	k.polling <- struct{}{}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	if !c.enter(k) {
		return nil, ErrClosed
	}
	k.scheduler = newScheduler()
	k.links = newLinks(c.cluster, cluster.RoleConsume, k.connected)
	k.unwatch = c.cluster.Watch(k.learned)
	k.goroutines.Go(k.refresh)
	return k, nil
}

// AssignTopic reads every partition of a topic from a place on. Partitions that the topic gains later are read from
// their beginning. A partition that is assigned already is sought. It waits until the place is known, or ctx ends.
func (k *Consumer) AssignTopic(ctx context.Context, topic string, from Start) error {
	return k.assign(ctx, topic, nil, from, true)
}

// AssignPartition reads one partition from a place on. It waits until the place is known, or ctx ends.
func (k *Consumer) AssignPartition(ctx context.Context, topic string, partition uint32, from Start) error {
	return k.assign(ctx, topic, []uint32{partition}, from, true)
}

// Seek goes on at another place. Nothing that was read from the old place is returned after it. It also starts a
// partition again that has stopped with an error. It waits until the place is known, or ctx ends.
func (k *Consumer) Seek(ctx context.Context, topic string, partition uint32, to Start) error {
	return k.assign(ctx, topic, []uint32{partition}, to, false)
}

// assign finds the offsets of a place and starts the partitions there.
func (k *Consumer) assign(ctx context.Context, topic string, numbers []uint32, from Start, add bool) error {
	if err := from.validate(); err != nil {
		return err
	}
	if topic == "" {
		return ErrInvalidName.Errorf("no topic was named")
	}
	whole := len(numbers) == 0
	if !add && !k.assigned(topic, numbers[0]) {
		return k.notAssigned(topic, numbers[0])
	}
	t, err := k.client.cluster.Refresh(ctx, topic)
	if err != nil {
		return wrapTopic(topic, err)
	}
	if whole {
		for n := range t.Partitions {
			numbers = append(numbers, uint32(n))
		}
	}
	for _, n := range numbers {
		if int(n) >= len(t.Partitions) {
			return partitionError(topic, n, len(t.Partitions))
		}
	}
	begin, err := k.offsets(ctx, topic, numbers, from)
	if err != nil {
		return err
	}
	end := make([]int64, len(numbers))
	if k.config.stopAtEnd {
		if end, err = k.offsets(ctx, topic, numbers, StartLatest()); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	if whole {
		k.follow[topic] = t.ID
	}
	for i, n := range numbers {
		p := k.parts[partKey{topic, n}]
		if p == nil {
			if !add {
				return k.notAssigned(topic, n)
			}
			p = k.newPart(topic, n)
		}
		p.start(t.ID, begin[i], from.kind == startEarliest)
		if k.config.stopAtEnd {
			p.end = end[i]
			if begin[i] > p.end {
				p.end = begin[i] + 1 // behind the end there is nothing to read, which the broker is to say
			} else if begin[i] == p.end {
				k.signal()
			}
		}
	}
	return nil
}

func (k *Consumer) assigned(topic string, number uint32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parts[partKey{topic, number}] != nil
}

func (k *Consumer) notAssigned(topic string, number uint32) error {
	return ErrInvalidRequest.Errorf("partition %d of topic %q is not assigned to this consumer", number, topic)
}

// newPart is called with the lock held.
func (k *Consumer) newPart(topic string, number uint32) *part {
	p := &part{consumer: k, topic: topic, number: number, position: -1, highWatermark: -1, end: -1}
	k.parts[partKey{topic, number}] = p
	return p
}

// offsets is where a place is in each of the partitions. What can be repeated is, until ctx ends.
func (k *Consumer) offsets(ctx context.Context, topic string, numbers []uint32, at Start) ([]int64, error) {
	found := make([]int64, len(numbers))
	spec := OffsetEarliest()
	switch at.kind {
	case startOffset:
		for i := range found {
			found[i] = at.offset
		}
		return found, nil
	case startLatest:
		spec = OffsetLatest()
	case startTime:
		spec = OffsetSpec{kind: proto.OffsetKindTimestamp, ms: at.ms}
	}
	left := make([]int, len(numbers)) // places in found
	for i := range left {
		left[i] = i
	}
	for failures := 1; ; failures++ {
		ask := make([]uint32, len(left))
		for i, place := range left {
			ask[i] = numbers[place]
		}
		results, err := listOffsets(ctx, k.client.cluster, cluster.RoleConsume, topic, spec, ask)
		var again, missing []int
		for i, r := range results {
			place := left[i]
			switch {
			case r.Err != nil:
				again = append(again, place)
				err = errors.Join(err, fmt.Errorf("partition %d: %w", r.Partition, r.Err))
			case r.Offset < 0:
				missing = append(missing, place)
			default:
				found[place] = r.Offset
			}
		}
		if err == nil {
			if len(missing) == 0 {
				return found, nil
			}
			// Nothing is as late as that time: the end is the place, also for what comes later with an earlier time.
			again, spec = missing, OffsetLatest()
			left = again
			continue
		}
		if ctx.Err() != nil || !Retriable(err) && !staleMetadata(err) {
			return nil, wrapTopic(topic, err)
		}
		if len(again) > 0 && len(missing) == 0 {
			left = again
		}
		select {
		case <-time.After(k.backoff.After(failures)):
		case <-ctx.Done():
			return nil, wrapTopic(topic, errors.Join(ctx.Err(), err))
		}
	}
}

// Unassign stops reading a partition. Nothing of it is returned any more.
func (k *Consumer) Unassign(topic string, partition uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := partKey{topic, partition}
	if p := k.parts[key]; p != nil {
		p.discard()
		p.removed = true
		delete(k.parts, key)
		k.signal()
	}
}

// UnassignTopic stops reading all partitions of a topic, and those it gains later.
func (k *Consumer) UnassignTopic(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.follow, topic)
	for key, p := range k.parts {
		if key.topic == topic {
			p.discard()
			p.removed = true
			delete(k.parts, key)
		}
	}
	k.signal()
}

// Pause keeps a partition from being returned until Resume. What has been read ahead is kept.
func (k *Consumer) Pause(topic string, partition uint32) error {
	return k.pause(topic, partition, true)
}

// Resume undoes Pause.
func (k *Consumer) Resume(topic string, partition uint32) error {
	return k.pause(topic, partition, false)
}

func (k *Consumer) pause(topic string, number uint32, paused bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.parts[partKey{topic, number}]
	if p == nil {
		return k.notAssigned(topic, number)
	}
	p.paused = paused
	if paused {
		p.unsubscribe()
	} else {
		p.list()
		k.scheduler.look(p)
	}
	return nil
}

// PartitionPosition is where a consumer stands in a partition.
type PartitionPosition struct {
	Topic         string
	Partition     uint32
	Position      int64 // offset of the next record that Poll returns
	HighWatermark int64 // as of the last answer; -1 until there was one
	Paused        bool
	Stopped       bool // after a PartitionError that said so
}

// Lag is the number of offsets between the position and the high watermark; -1 when it is not known yet.
func (p PartitionPosition) Lag() int64 {
	if p.HighWatermark < 0 {
		return -1
	}
	return max(p.HighWatermark-p.Position, 0)
}

// Positions are those of all assigned partitions, by topic and number.
func (k *Consumer) Positions() []PartitionPosition {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]PartitionPosition, 0, len(k.parts))
	for _, p := range k.parts {
		all = append(all, PartitionPosition{Topic: p.topic, Partition: p.number, Position: p.position,
			HighWatermark: p.highWatermark, Paused: p.paused, Stopped: p.stopped})
	}
	slices.SortFunc(all, func(a, b PartitionPosition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// Buffered is what has been read ahead of the application, in bytes as they came over the wire.
func (k *Consumer) Buffered() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var n int64
	for _, p := range k.parts {
		n += p.bytes
	}
	return n
}

// learned is told of newer metadata: partitions may have been added.
func (k *Consumer) learned(t *cluster.Topic) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.follow[t.Name] != t.ID {
		return
	}
	for n := range t.Partitions {
		if k.parts[partKey{t.Name, uint32(n)}] == nil && !k.config.stopAtEnd {
			k.newPart(t.Name, uint32(n)).start(t.ID, 0, true)
		}
	}
}

// refresh keeps the metadata of what is read from growing old; pushed partitions would never ask.
func (k *Consumer) refresh() {
	ticker := time.NewTicker(k.client.config.metadataAge)
	defer ticker.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-ticker.C:
			k.mu.Lock()
			topics := map[string]bool{}
			for key := range k.parts {
				topics[key.topic] = true
			}
			k.mu.Unlock()
			for topic := range topics {
				k.client.cluster.Cached(topic)
			}
		}
	}
}

// connected is told how an attempt to connect for a partition has ended.
func (k *Consumer) connected(t task, err error) {
	p := t.(*part)
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return
		}
		k.client.cluster.RefreshLater(p.topic)
	}
	k.scheduler.look(p)
}

// signal tells a Poll that waits to look again. It is called with the lock held.
func (k *Consumer) signal() {
	close(k.some)
	k.some = make(chan struct{})
}

// Close stops reading. A Poll that waits returns ErrClosed.
func (k *Consumer) Close() error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	for _, s := range k.subscriptions {
		s.close()
	}
	for key, p := range k.parts {
		p.discard()
		p.removed = true
		delete(k.parts, key)
	}
	k.closed = true
	k.signal()
	k.mu.Unlock()
	k.unwatch()
	k.cancel()
	k.scheduler.end()
	k.goroutines.Wait()
	k.client.leave(k)
	return nil
}

// abandon is for a client that is closed.
func (k *Consumer) abandon() { k.Close() }

// startAt begins a partition where a group has committed. The leader epoch of the record before lets the broker say
// when that record is not the one that was read.
func (k *Consumer) startAt(t *cluster.Topic, number uint32, at handedOut) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	p := k.parts[partKey{t.Name, number}]
	if p == nil {
		p = k.newPart(t.Name, number)
	}
	p.start(t.ID, at.offset, false)
	p.positionEpoch, p.nextEpoch = at.epoch, at.epoch
}
