package pulsemq

import (
	"container/heap"
	"sync"
	"time"
)

// scheduler is the one goroutine that moves the queues of a producer or the partitions of a consumer on. Whoever changes
// one of them puts it on the list and wakes the scheduler; those that wait for a time stand in a heap. There is no
// goroutine and no timer per message, batch or partition.
type scheduler struct {
	mu    sync.Mutex
	dirty []task
	wake  chan struct{}
	stop  chan struct{}
	done  chan struct{}
}

// task is what a scheduler moves on.
type task interface {
	// step does whatever is to be done now and says when to look again; zero when something else has to happen first.
	// It is called by the scheduler alone.
	step(now time.Time) time.Time

	place() *taskPlace
}

// taskPlace is where a task stands with its scheduler.
type taskPlace struct {
	dirty bool      // in the list; guarded by the scheduler's lock
	heap  int       // place in the heap plus 1, 0 when not there; of the scheduler's goroutine alone
	at    time.Time // when to look again; of the scheduler's goroutine alone
}

func (p *taskPlace) place() *taskPlace { return p }

func newScheduler() *scheduler {
	s := &scheduler{wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// look makes the scheduler look at a task soon.
func (s *scheduler) look(t task) {
	s.mu.Lock()
	p := t.place()
	listed := p.dirty
	if !listed {
		p.dirty = true
		s.dirty = append(s.dirty, t)
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

// end stops the scheduler and waits for a step that runs. It is called once.
func (s *scheduler) end() {
	close(s.stop)
	<-s.done
}

func (s *scheduler) run() {
	defer close(s.done)
	var taken []task
	var later taskHeap
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		taken, s.dirty = s.dirty, taken[:0]
		for _, t := range taken {
			t.place().dirty = false
		}
		s.mu.Unlock()
		now := time.Now()
		for len(later) > 0 && !now.Before(later[0].place().at) {
			taken = append(taken, heap.Pop(&later).(task))
		}
		for i, t := range taken {
			later.set(t, t.step(now))
			taken[i] = nil
		}
		if len(taken) > 0 {
			select {
			case <-s.stop:
				return
			default:
				continue // more may have come meanwhile
			}
		}
		wait := time.Hour
		if len(later) > 0 {
			wait = time.Until(later[0].place().at)
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

// taskHeap has the task that has to be looked at first in front.
type taskHeap []task

// set puts t where its time belongs; a zero time takes it out.
func (h *taskHeap) set(t task, at time.Time) {
	p := t.place()
	if at.IsZero() {
		if p.heap > 0 {
			heap.Remove(h, p.heap-1)
		}
		return
	}
	p.at = at
	if p.heap > 0 {
		heap.Fix(h, p.heap-1)
	} else {
		heap.Push(h, t)
	}
}

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].place().at.Before(h[j].place().at) }
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place().heap, h[j].place().heap = i+1, j+1
}

// Push and Pop are for package heap.
func (h *taskHeap) Push(x any) {
	t := x.(task)
	*h = append(*h, t)
	t.place().heap = len(*h)
}

func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.place().heap = 0
	return t
}
