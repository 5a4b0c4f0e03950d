package pulsemq

import "sync"

// deliverer calls the callbacks of a producer, one after the other on a goroutine of its own: a callback that takes its
// time delays other callbacks, not the connection. What waits here is bounded by the producer's buffer, whose count of
// messages goes down only when their callbacks are about to run.
type deliverer struct {
	mu      sync.Mutex
	waiting []delivery
	closing bool
	wake    chan struct{}
	done    chan struct{} // when it has ended
}

// delivery is a batch whose results are known, or a mark that a Flush has left.
type delivery struct {
	queue *queue
	batch *batch
	mark  *flush
}

func newDeliverer() *deliverer {
	return &deliverer{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (d *deliverer) push(v delivery) {
	d.mu.Lock()
	d.waiting = append(d.waiting, v)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// close ends the deliverer once everything that waits has been given.
func (d *deliverer) close() {
	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *deliverer) run(p *Producer) {
	defer close(d.done)
	var taken []delivery
	for {
		d.mu.Lock()
		taken, d.waiting = d.waiting, taken[:0]
		closing := d.closing
		d.mu.Unlock()
		if len(taken) == 0 {
			if closing {
				return
			}
			<-d.wake
			continue
		}
		for i, v := range taken {
			taken[i] = delivery{}
			if v.mark != nil {
				v.mark.finish()
				continue
			}
			p.buffer.give(0, int64(v.batch.count()))
			v.batch.give()
			for _, f := range v.batch.flushes {
				f.finish()
			}
			v.queue.delivered(v.batch)
		}
	}
}

// flush counts what a Flush waits for.
type flush struct {
	mu   sync.Mutex
	left int
	done chan struct{} // closed at 0
}

// newFlush begins with one that its maker finishes when everything has been added.
func newFlush() *flush { return &flush{left: 1, done: make(chan struct{})} }

func (f *flush) add() {
	f.mu.Lock()
	f.left++
	f.mu.Unlock()
}

func (f *flush) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		close(f.done)
	}
}
