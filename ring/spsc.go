package ring

import (
	"math/bits"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
)

// lineBytes separates what two threads write. It is two cache lines because
// the prefetcher of common processors fetches lines in pairs.
const lineBytes = 128

// SPSC is a bounded queue for exactly one producer thread and one consumer
// thread. The zero value is not usable; call NewSPSC.
//
// Each side keeps a copy of the other's position and refreshes it only when the
// copy says "full" or "empty", so that in steady flow the shared lines move
// between the cores once per batch and not once per value.
type SPSC[T any] struct {
	slots []T
	mask  uint64
	_     [lineBytes]byte

	// The consumer's line. head <= tail always; head is the next slot to pop.
	head     atomic.Uint64
	headNext uint64 // the consumer's own copy of head
	tailSeen uint64 // a past value of tail
	_        [lineBytes]byte

	// The producer's line. tail is the next slot to publish;
	// tail <= tailNext <= head + len(slots).
	tail     atomic.Uint64
	tailNext uint64 // the producer's own position, staged values included
	headSeen uint64 // a past value of head
	_        [lineBytes]byte
}

// NewSPSC returns an empty ring that holds at least capacity values: capacity is
// rounded up to a power of two.
func NewSPSC[T any](capacity int) *SPSC[T] {
	core.Assert(capacity > 0 && capacity <= 1<<31, "a ring holds between 1 and 2^31 values")
	size := uint64(1) << bits.Len64(uint64(capacity-1))
	return &SPSC[T]{slots: make([]T, size), mask: size - 1}
}

// Cap is the number of values the ring can hold.
func (r *SPSC[T]) Cap() int { return len(r.slots) }

// Len is how many values are published and not popped. Either side gets a value
// that its own calls cannot make wrong in the direction that matters to it: the
// producer sees at least what is there, the consumer at most. Others see a hint.
func (r *SPSC[T]) Len() int {
	// Head is read first: tail only grows, so the difference is never negative.
	head := r.head.Load()
	tail := r.tail.Load()
	return int(tail - head)
}

// Push adds a value and shows it to the consumer, or returns false when the ring
// is full. Producer only.
func (r *SPSC[T]) Push(value T) bool {
	if !r.Stage(value) {
		return false
	}
	r.tail.Store(r.tailNext)
	return true
}

// Stage adds a value without showing it; Publish shows all that were staged with
// one store. Producer only.
func (r *SPSC[T]) Stage(value T) bool {
	slot := r.Room()
	if slot == nil {
		return false
	}
	*slot = value
	r.tailNext++
	return true
}

// Room shows the slot of the next value, which is zero, so that it can be filled where
// it lies; nil when the ring is full. Fill stages it. Producer only.
func (r *SPSC[T]) Room() *T {
	if r.tailNext-r.headSeen == uint64(len(r.slots)) {
		r.headSeen = r.head.Load()
		if r.tailNext-r.headSeen == uint64(len(r.slots)) {
			return nil
		}
	}
	return &r.slots[r.tailNext&r.mask]
}

// Fill stages the value that Room showed and the producer has filled in. Producer only.
func (r *SPSC[T]) Fill() {
	core.Assert(r.tailNext-r.headSeen < uint64(len(r.slots)), "what is filled was shown")
	r.tailNext++
}

// Publish shows the staged values to the consumer. Producer only.
func (r *SPSC[T]) Publish() {
	if r.tail.Load() != r.tailNext {
		r.tail.Store(r.tailNext)
	}
}

// Pop takes the oldest value, or returns false when there is none. Consumer only.
func (r *SPSC[T]) Pop() (T, bool) {
	var zero T
	if r.headNext == r.tailSeen {
		r.tailSeen = r.tail.Load()
		if r.headNext == r.tailSeen {
			return zero, false
		}
	}
	slot := &r.slots[r.headNext&r.mask]
	value := *slot
	*slot = zero // the ring must not keep alive what it has handed over
	r.headNext++
	r.head.Store(r.headNext)
	return value, true
}

// Peek shows the oldest value where it lies, nil when there is none. It is the
// consumer's until Drop. Consumer only.
func (r *SPSC[T]) Peek() *T {
	if r.headNext == r.tailSeen {
		r.tailSeen = r.tail.Load()
		if r.headNext == r.tailSeen {
			return nil
		}
	}
	return &r.slots[r.headNext&r.mask]
}

// Drop clears the value that Peek shows and goes on to the next. The producer gets
// the room with Free; until then Len counts what was dropped. Consumer only.
func (r *SPSC[T]) Drop() {
	core.Assert(r.headNext != r.tailSeen, "what is dropped was shown")
	var zero T
	r.slots[r.headNext&r.mask] = zero
	r.headNext++
}

// Free gives the room of all that was dropped to the producer, with one store.
// Consumer only.
func (r *SPSC[T]) Free() {
	if r.head.Load() != r.headNext {
		r.head.Store(r.headNext)
	}
}

// PopBatch moves up to len(out) of the oldest values to out and returns how many.
// It frees their slots with one store. Consumer only.
func (r *SPSC[T]) PopBatch(out []T) int {
	if r.tailSeen-r.headNext < uint64(len(out)) {
		r.tailSeen = r.tail.Load()
	}
	count := min(r.tailSeen-r.headNext, uint64(len(out)))
	if count == 0 {
		return 0
	}
	var zero T
	for i := range count {
		slot := &r.slots[(r.headNext+i)&r.mask]
		out[i] = *slot
		*slot = zero
	}
	r.headNext += count
	r.head.Store(r.headNext)
	return int(count)
}
