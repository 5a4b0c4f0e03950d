package pulsemq

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
)

// producerTopic is a topic that a producer sends to.
type producerTopic struct {
	producer *Producer
	name     string
	meta     atomic.Pointer[cluster.Topic]
	queues   atomic.Pointer[[]*queue] // by partition; it only grows

	batchBytesMax atomic.Int64 // what its broker accepts in one batch, as far as known
	sticky        atomic.Uint32
	stickyBytes   atomic.Int64

	mu       sync.Mutex // of the one that adds queues
	checking bool
}

func newProducerTopic(p *Producer, meta *cluster.Topic) *producerTopic {
	t := &producerTopic{producer: p, name: meta.Name}
	t.queues.Store(new([]*queue))
	most := int64(p.config.batchBytes)
	if limits := p.client.cluster.Limits(); limits != nil {
		most = min(most, int64(limits.BatchBytesMax))
	}
	t.batchBytesMax.Store(most)
	t.learn(meta)
	t.unstick(0)
	return t
}

// batchBytes is the size at which a batch is full.
func (t *producerTopic) batchBytes() int { return int(t.batchBytesMax.Load()) }

// limit is told the largest batch that the topic takes.
func (t *producerTopic) limit(bytes int) {
	if int64(bytes) < t.batchBytesMax.Load() {
		t.batchBytesMax.Store(int64(bytes))
	}
}

// learn takes in newer metadata: more partitions, or a namesake.
func (t *producerTopic) learn(meta *cluster.Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meta.Store(meta)
	queues := *t.queues.Load()
	if len(meta.Partitions) > len(queues) {
		grown := append([]*queue(nil), queues...)
		for n := len(queues); n < len(meta.Partitions); n++ {
			grown = append(grown, &queue{producer: t.producer, topic: t, partition: uint32(n), id: meta.ID})
		}
		t.queues.Store(&grown)
	}
	for _, q := range queues {
		t.producer.look(q)
	}
}

// partitions is how many there are now; fewer than queues when a namesake is smaller.
func (t *producerTopic) partitions() uint32 { return uint32(len(t.meta.Load().Partitions)) }

// stick is the partition that messages without one go to now.
func (t *producerTopic) stick(size int) uint32 {
	if t.stickyBytes.Add(int64(size)) > t.batchBytesMax.Load() {
		t.unstick(int64(size))
	}
	if n := t.sticky.Load(); n < t.partitions() {
		return n
	}
	t.unstick(int64(size))
	return min(t.sticky.Load(), t.partitions()-1)
}

// unstick takes another partition at random, one with a leader if there is one.
func (t *producerTopic) unstick(bytes int64) {
	partitions := t.meta.Load().Partitions
	if len(partitions) == 0 {
		return
	}
	t.stickyBytes.Store(bytes)
	n := rand.IntN(len(partitions))
	if len(partitions) > 1 && uint32(n) == t.sticky.Load() {
		n = (n + 1) % len(partitions)
	}
	for range partitions {
		if partitions[n].Leader != 0 {
			break
		}
		n = (n + 1) % len(partitions)
	}
	t.sticky.Store(uint32(n))
}

// checkTopic finds out what has become of a topic that the broker does not know: deleted, or replaced by a namesake. It
// is called with a queue's lock held; was is the id that the broker does not know.
func (p *Producer) checkTopic(t *producerTopic, was [16]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.checking {
		return
	}
	t.checking = true
	p.spawn(func() {
		// Those that wait have their deadlines; the question is asked until it is answered.
		meta, err := p.client.cluster.Refresh(p.ctx, t.name)
		t.mu.Lock()
		t.checking = false
		t.mu.Unlock()
		if err == nil && meta.ID == was {
			err = ErrUnknownTopic.Errorf("topic %q: its broker does not know it although the metadata has it", t.name)
		}
		if err != nil {
			if p.ctx.Err() != nil {
				return
			}
			if errors.Is(err, ErrUnknownTopic) {
				p.forget(t)
			}
		}
		for _, q := range *t.queues.Load() {
			q.mu.Lock()
			if err != nil && (q.suspended || errors.Is(err, ErrUnknownTopic)) {
				q.failAll(err)
			}
			q.suspended = false
			q.mu.Unlock()
			p.look(q)
		}
	})
}

// lookup is the topic of a name, asked for when it is not known. The wait ends with ctx or the delivery timeout.
func (p *Producer) lookup(ctx context.Context, name string) (*producerTopic, error) {
	if t := (*p.topics.Load())[name]; t != nil {
		return t, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.deliveryTimeout, ErrDeliveryTimeout)
	defer cancel()
	meta, err := p.client.cluster.Topic(ctx, name)
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrDeliveryTimeout) {
			err = errors.Join(ErrDeliveryTimeout, err)
		}
		return nil, wrapTopic(name, err)
	}
	if len(meta.Partitions) == 0 {
		return nil, wrapTopic(name, ErrPartitionUnavailable.Errorf("the topic has no partitions yet"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.topics.Load()
	if t := old[name]; t != nil {
		return t, nil
	}
	grown := make(map[string]*producerTopic, len(old)+1)
	for k, v := range old {
		grown[k] = v
	}
	t := newProducerTopic(p, meta)
	grown[name] = t
	p.topics.Store(&grown)
	p.all = append(p.all, t)
	return t, nil
}

// forget makes the next message for a name ask for its topic again.
func (p *Producer) forget(t *producerTopic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.topics.Load()
	if old[t.name] != t {
		return
	}
	shrunk := make(map[string]*producerTopic, len(old))
	for k, v := range old {
		if v != t {
			shrunk[k] = v
		}
	}
	p.topics.Store(&shrunk)
}
