package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// closeGrace is how long Close waits for callbacks that are still running when its context has ended.
const closeGrace = time.Second

// Producer sends messages. It is safe for use by many goroutines, and one producer used by all of them batches better
// than many. The messages that one goroutine sends to one partition are stored in their order.
type Producer struct {
	client    *Client
	config    producerConfig
	backoff   conn.Backoff
	buffer    *buffer
	scheduler *scheduler
	links     *links
	deliverer *deliverer
	unwatch   func()

	ctx        context.Context // ends when nothing is sent any more
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	topics  atomic.Pointer[map[string]*producerTopic]
	stopped atomic.Bool   // read under a queue's lock: nothing is added any more
	closing chan struct{} // closed when no more messages are taken

	mu              sync.Mutex
	all             []*producerTopic // also those that are forgotten
	closed          bool
	identity        *identity
	identityWaiters []*queue
}

// NewProducer makes a producer. Close it to be sure that everything has been sent.
func (c *Client) NewProducer(options ...ProducerOption) (*Producer, error) {
	config := producerConfigDefault()
	for _, option := range options {
		option(&config)
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	if config.partitioner == nil {
		config.partitioner = PartitionByKey
	}
	p := &Producer{
		client:    c,
		config:    config,
		backoff:   conn.Backoff{Min: config.retryMin, Max: config.retryMax},
		buffer:    newBuffer(&config),
		scheduler: newScheduler(),
		deliverer: newDeliverer(),
		closing:   make(chan struct{}),
	}
	p.links = newLinks(c.cluster, cluster.RoleProduce, p.connected)
	p.topics.Store(&map[string]*producerTopic{})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if !c.enter(p) {
		p.scheduler.end()
		return nil, ErrClosed
	}
	p.unwatch = c.cluster.Watch(func(meta *cluster.Topic) {
		if t := (*p.topics.Load())[meta.Name]; t != nil {
			t.learn(meta)
		}
	})
	go p.deliverer.run(p)
	return p, nil
}

// sendWait is a Send that waits.
type sendWait struct {
	done   chan struct{}
	result Result
	err    error
	tell   func(Result, error)
}

var sendWaits = sync.Pool{New: func() any {
	w := &sendWait{done: make(chan struct{}, 1)}
	w.tell = func(r Result, err error) {
		w.result, w.err = r, err
		w.done <- struct{}{}
	}
	return w
}}

// Send sends a message and waits for its result. When ctx ends first, the error is that of ctx, and the message may
// still be stored.
func (p *Producer) Send(ctx context.Context, m *Message) (Result, error) {
	w := sendWaits.Get().(*sendWait)
	if err := p.SendAsync(ctx, m, w.tell); err != nil {
		sendWaits.Put(w)
		return Result{}, err
	}
	select {
	case <-w.done:
		result, err := w.result, w.err
		w.result, w.err = Result{}, nil
		sendWaits.Put(w)
		return result, err
	case <-ctx.Done():
		// w is not used again: its result is still to come.
		return Result{}, fmt.Errorf("pulsemq: the message has no result yet and may be stored: %w", ctx.Err())
	}
}

// SendAsync takes a message and returns; done is called once with the result. When SendAsync returns an error it has not
// taken the message and done is never called. ctx bounds the wait for room in the buffer and for the topic's metadata,
// not the delivery. done may be nil.
//
// The callbacks of a producer run one after the other on a goroutine of its own, those of one partition in the order of
// their messages unless some fail. A callback must not block, nor call Flush or Close. It may call SendAsync; that blocks
// only when the buffer is full, and then perhaps for ever if it is full of results that wait for this very callback: give
// it a context that ends, or use ProducerBufferBlock(false).
func (p *Producer) SendAsync(ctx context.Context, m *Message, done func(Result, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-p.closing:
		return ErrClosed
	default:
	}
	now := time.Now()
	size, err := m.validate()
	if err != nil {
		return err
	}
	t, err := p.lookup(ctx, m.Topic)
	if err != nil {
		return err
	}
	number, err := p.choose(t, m, size)
	if err != nil {
		return err
	}
	var headers [8]proto.Header
	r := proto.Record{Timestamp: now.UnixMilli(), Key: m.Key, Value: m.Value, Headers: protoHeaders(headers[:0], m.Headers)}
	if !m.Timestamp.IsZero() {
		r.Timestamp = m.Timestamp.UnixMilli()
	}
	if err := p.checkSize(t, &r, size); err != nil {
		return err
	}
	waited, err := p.buffer.take(ctx, int64(size), p.closing)
	if err != nil {
		return err
	}
	if waited {
		now = time.Now() // the delivery timeout runs from here
	}
	q := (*t.queues.Load())[number]
	look, taken, err := q.append(&r, now, size, done)
	if !taken || err != nil {
		p.buffer.give(int64(size), 1)
		if err == nil {
			err = ErrClosed
		}
		return err
	}
	if look {
		p.look(q)
	}
	return nil
}

// look makes the scheduler look at a queue.
func (p *Producer) look(q *queue) { p.scheduler.look(q) }

// choose is the partition of a message.
func (p *Producer) choose(t *producerTopic, m *Message, size int) (uint32, error) {
	partitions := t.partitions()
	number, set := m.Partition.Number()
	if !set {
		if number = p.config.partitioner(m, partitions); number == StickyPartition {
			return t.stick(size), nil
		}
	}
	if number >= partitions {
		// It may have been added since: those who wait for it to appear ask again.
		p.client.cluster.RefreshLater(t.name)
		return 0, partitionError(t.name, number, int(partitions))
	}
	return number, nil
}

// checkSize refuses a message that no broker of the cluster takes. With compression only the broker can tell.
func (p *Producer) checkSize(t *producerTopic, r *proto.Record, size int) error {
	if size+proto.BatchHeaderBytes <= t.batchBytes() || p.config.compression != CompressionNone {
		return nil
	}
	limits := p.client.cluster.Limits()
	if limits == nil {
		return nil
	}
	var b proto.BatchBuilder
	if bytes := b.BytesWith(r); bytes > int(limits.BatchBytesMax) {
		return &proto.Error{Code: proto.CodeBatchTooLarge, Limit: uint64(limits.BatchBytesMax),
			Text: fmt.Sprintf("a message for topic %q takes %d bytes as a batch: the broker allows %d", t.name, bytes, limits.BatchBytesMax)}
	}
	return nil
}

// protoHeaders shares the bytes of the names: they are only read, and copied before SendAsync returns.
func protoHeaders(to []proto.Header, from []Header) []proto.Header {
	for i := range from {
		to = append(to, proto.Header{Key: unsafe.Slice(unsafe.StringData(from[i].Key), len(from[i].Key)), Value: from[i].Value})
	}
	return to
}

// inFlight is how many batches of a partition may be unanswered.
func (p *Producer) inFlight() int {
	n := p.config.inFlight
	if limits := p.client.cluster.Limits(); limits != nil && p.config.idempotent {
		n = max(min(n, int(limits.ProducerBatchesInFlightMax)), 1)
	}
	return n
}

// connected is told how an attempt to connect for a queue has ended.
func (p *Producer) connected(t task, err error) {
	q := t.(*queue)
	if err != nil {
		q.mu.Lock()
		q.lastErr = err
		q.mu.Unlock()
		if errors.Is(err, ErrClosed) {
			return
		}
		p.client.cluster.RefreshLater(q.topic.name) // perhaps another leads by now
	}
	p.look(q)
}

// Buffered is what the producer holds: bytes and messages without a result.
func (p *Producer) Buffered() (bytes, messages int64) { return p.buffer.held() }

// Flush waits until every message taken before the call has its result, and its callback has run. Messages that linger
// are sent at once.
func (p *Producer) Flush(ctx context.Context) error {
	f := newFlush()
	p.mu.Lock()
	all := append([]*producerTopic(nil), p.all...)
	p.mu.Unlock()
	for _, t := range all {
		for _, q := range *t.queues.Load() {
			q.flush(f)
			p.look(q)
		}
	}
	// What has its result and waits for its callback is before this mark.
	f.add()
	p.deliverer.push(delivery{mark: f})
	f.finish()
	select {
	case <-f.done:
		return nil
	case <-p.deliverer.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("pulsemq: flush: %d messages have no result yet: %w", p.outstanding(), ctx.Err())
	}
}

// flush makes f wait for every batch without a result.
func (q *queue) flush(f *flush) {
	q.mu.Lock()
	defer q.mu.Unlock()
	note := func(b *batch) {
		if !b.over {
			f.add()
			b.flush = true
			b.flushes = append(b.flushes, f)
		}
	}
	for _, b := range q.inFlight {
		note(b)
	}
	for _, b := range q.ready {
		note(b)
	}
	if q.open != nil {
		note(q.open)
	}
}

// spawn runs f on a goroutine that Close waits for; not at all when the producer has ended.
func (p *Producer) spawn(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawnLocked(f)
}

func (p *Producer) spawnLocked(f func()) {
	if !p.stopped.Load() {
		p.goroutines.Go(f)
	}
}

func (p *Producer) outstanding() int64 {
	_, messages := p.buffer.held()
	return messages
}

// Close takes no more messages, waits until those taken have their results, and gives up on the rest when ctx ends:
// each of them gets ErrClosed as its result, and Close says how many they were. It must not be called from a callback.
func (p *Producer) Close(ctx context.Context) error {
	if !p.beginClose() {
		return nil
	}
	err := p.Flush(ctx)
	return p.endClose(err)
}

// abandon is Close without patience, for a client that is closed.
func (p *Producer) abandon() {
	if p.beginClose() {
		p.endClose(ErrClosed)
	}
}

func (p *Producer) beginClose() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed = true
	close(p.closing)
	return true
}

// endClose gives everything that is left its result and ends all goroutines.
func (p *Producer) endClose(err error) error {
	p.mu.Lock()
	p.stopped.Store(true)
	p.mu.Unlock()
	left := p.outstanding()
	p.unwatch()
	p.cancel()
	p.scheduler.end()
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	for _, t := range all {
		for _, q := range *t.queues.Load() {
			q.mu.Lock()
			q.failEach(q.closed)
			q.mu.Unlock()
		}
	}
	p.deliverer.close()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-p.deliverer.done:
	case <-grace.C:
		err = errors.Join(err, fmt.Errorf("pulsemq: close: a callback has been running for over %v; the others run after it", closeGrace))
	}
	p.goroutines.Wait()
	p.client.leave(p)
	if err != nil && left > 0 {
		return fmt.Errorf("pulsemq: close: %d messages were given up: %w", left, err)
	}
	return nil
}
