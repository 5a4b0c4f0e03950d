package pulsemq

import (
	"container/heap"
	"sync"
	"time"
)

// sender is the one goroutine of a producer that moves its queues on. Whoever changes a queue puts it on the list and
// wakes it; queues that wait for a time stand in a heap. There is no goroutine and no timer per message, batch or queue.
type sender struct {
	mu    sync.Mutex
	dirty []*queue
	wake  chan struct{}
	stop  chan struct{}
	done  chan struct{}
}

func newSender() *sender {
	return &sender{wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// look makes the sender look at a queue soon.
func (s *sender) look(q *queue) {
	s.mu.Lock()
	listed := q.dirty
	if !listed {
		q.dirty = true
		s.dirty = append(s.dirty, q)
	}
	s.mu.Unlock()
	if listed {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sender) run() {
	defer close(s.done)
	var taken []*queue
	var later queueHeap
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		taken, s.dirty = s.dirty, taken[:0]
		for _, q := range taken {
			q.dirty = false
		}
		s.mu.Unlock()
		now := time.Now()
		for len(later) > 0 && !now.Before(later[0].at) {
			taken = append(taken, heap.Pop(&later).(*queue))
		}
		for i, q := range taken {
			later.set(q, q.step(now))
			taken[i] = nil
		}
		if len(taken) > 0 {
			continue // more may have come meanwhile
		}
		wait := time.Hour
		if len(later) > 0 {
			wait = time.Until(later[0].at)
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.stop:
			return
		}
	}
}

// queueHeap has the queue that has to be looked at first in front.
type queueHeap []*queue

// set puts q where its time belongs; a zero time takes it out.
func (h *queueHeap) set(q *queue, at time.Time) {
	if at.IsZero() {
		if q.heap > 0 {
			heap.Remove(h, q.heap-1)
		}
		return
	}
	q.at = at
	if q.heap > 0 {
		heap.Fix(h, q.heap-1)
	} else {
		heap.Push(h, q)
	}
}

func (h queueHeap) Len() int           { return len(h) }
func (h queueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h queueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i+1, j+1
}

// Push and Pop are for package heap.
func (h *queueHeap) Push(x any) {
	q := x.(*queue)
	*h = append(*h, q)
	q.heap = len(*h)
}

func (h *queueHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.heap = 0
	return q
}
