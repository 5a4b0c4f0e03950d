package pulsemq

import (
	"context"
	"fmt"
	"sync"
)

// buffer bounds what a producer holds. It counts; the bytes lie in the batches.
//
// Invariant: 0 <= bytes <= bytesMax, 0 <= messages <= messagesMax. room is closed and replaced whenever something is
// given back while someone waits. (Two atomic counters instead of the lock would have to take one, fail at the other and
// give back, which wakes the next one up to do the same: waiters then spin.)
type buffer struct {
	bytesMax    int64
	messagesMax int64
	block       bool

	mu       sync.Mutex
	bytes    int64
	messages int64
	waiting  int
	room     chan struct{}
}

func newBuffer(c *producerConfig) *buffer {
	return &buffer{bytesMax: int64(c.bufferBytes), messagesMax: int64(c.bufferMessages), block: c.bufferBlock, room: make(chan struct{})}
}

// take makes room for one message, waiting for it until ctx ends or closed is closed. It says whether it had to wait.
func (b *buffer) take(ctx context.Context, bytes int64, closed <-chan struct{}) (waited bool, err error) {
	b.mu.Lock()
	if b.tryLocked(bytes) {
		b.mu.Unlock()
		return false, nil
	}
	if bytes > b.bytesMax || !b.block {
		defer b.mu.Unlock()
		if bytes > b.bytesMax {
			return false, fmt.Errorf("%w: the message takes %d bytes of it and it has %d: raise ProducerBufferBytes", ErrBufferFull, bytes, b.bytesMax)
		}
		return false, fmt.Errorf("%w: %d of %d bytes and %d of %d messages have no result yet", ErrBufferFull,
			b.bytes, b.bytesMax, b.messages, b.messagesMax)
	}
	b.waiting++
	for {
		room := b.room
		b.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = fmt.Errorf("pulsemq: no room in the producer's buffer: %w", ctx.Err())
		case <-closed:
			err = ErrClosed
		}
		b.mu.Lock()
		if err != nil || b.tryLocked(bytes) {
			b.waiting--
			b.mu.Unlock()
			return true, err
		}
	}
}

func (b *buffer) tryLocked(bytes int64) bool {
	if b.bytes+bytes > b.bytesMax || b.messages >= b.messagesMax {
		return false
	}
	b.bytes += bytes
	b.messages++
	return true
}

// give gives room back.
func (b *buffer) give(bytes, messages int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= bytes
	b.messages -= messages
	if b.waiting > 0 {
		close(b.room)
		b.room = make(chan struct{})
	}
}

// held is what is taken now.
func (b *buffer) held() (bytes, messages int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes, b.messages
}
