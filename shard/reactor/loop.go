package reactor

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/shard"
)

const (
	// requestsPerTurn and bytesPerTurn bound what a turn takes from one reactor, so
	// that completions and answers are not kept waiting by a flood.
	requestsPerTurn = 512
	bytesPerTurn    = 4 << 20

	// requestsPerBatch is after how many requests their room goes back to the reactor.
	requestsPerBatch = 64
	completionsMax   = 256

	// parkMax is the longest sleep: the store looks after retention and idle files
	// by the time that Tick tells it. For a while after the last work it is shorter,
	// because flush.ms of batch topics runs by the same time.
	parkMax      = int64(100 * time.Millisecond)
	parkBusyMax  = int64(2 * time.Millisecond)
	parkBusyTime = 2 * time.Second

	// parkQuietMax is the longest sleep of a shard that has had no work for parkQuietTime,
	// and whose store waits for nothing. Each sleep costs more than the turn behind it:
	// the Go runtime looks for a while whether it should run something else instead.
	parkQuietMax  = int64(time.Second)
	parkQuietTime = 3 * time.Second

	// trimIdle is after how long without work a shard returns free memory to the
	// kernel, trimBytesPerPark at a time.
	trimIdle         = time.Minute
	trimBytesPerPark = 32 << 20

	// snapshotEvery is how often counters are published while somebody reads them.
	snapshotEvery = int64(time.Second)
)

// Loop is the thread of one shard.
type Loop struct {
	id      core.ShardID
	machine *shard.Machine
	driver  core.DiskDriver
	waker   waker
	workers *Workers
	memory  []*arena.Local // the shard's own
	clock   core.Clock
	spin    spinner

	spinLimit atomic.Int64 // the bound of spins; benchmarks change it
	workedAt  int64        // monotonic, of the last turn with work

	links   []*mail.Link              // by reactor
	letters []*ring.SPSC[mail.Letter] // from each other shard; nil at its own place
	out     *outlet

	completions [completionsMax]*core.DiskOp

	stopping atomic.Bool
	deadline atomic.Int64 // monotonic, when a stop is given up
	stopped  bool         // Stop of the machine was called

	wanted      atomic.Bool // somebody asked for a snapshot
	page        atomic.Pointer[shard.Snapshot]
	snapshotted int64
}

// outlet is the machine's way out. Answers are staged and shown to each reactor
// once per turn, with one kick.
type outlet struct {
	links    []*mail.Link
	answered []bool // by reactor: staged and not shown
	letters  []*ring.SPSC[mail.Letter]
	wakers   []waker // of the shards
	posted   []bool  // by shard
	views    *mail.Views
}

func newOutlet(links []*mail.Link, letters []*ring.SPSC[mail.Letter], wakers []waker, views *mail.Views) *outlet {
	return &outlet{links: links, answered: make([]bool, len(links)), letters: letters, wakers: wakers,
		posted: make([]bool, len(letters)), views: views}
}

// Answer stages an answer for a reactor.
func (o *outlet) Answer(reactor int, a *mail.Answer) bool {
	if !o.links[reactor].Answers.Stage(*a) {
		o.flushAnswers() // what was staged before must be seen, or room never comes
		return false
	}
	o.answered[reactor] = true
	return true
}

// Letter stages a letter for another shard.
func (o *outlet) Letter(to core.ShardID, l *mail.Letter) bool {
	if !o.letters[to].Stage(*l) {
		return false
	}
	o.posted[to] = true
	return true
}

// Publish shows a new view to all reactors.
func (o *outlet) Publish(v core.View) { o.views.Publish(v) }

func (o *outlet) flushAnswers() {
	for i, staged := range o.answered {
		if staged {
			o.answered[i] = false
			o.links[i].Answers.Publish()
			o.links[i].Reactor.Kick()
		}
	}
}

func (o *outlet) flush() {
	o.flushAnswers()
	for i, staged := range o.posted {
		if staged {
			o.posted[i] = false
			o.letters[i].Publish()
			o.wakers[i].Kick()
		}
	}
}

// run takes turns until the shard has stopped. An error is fatal for the process.
func (l *Loop) run() error {
	for {
		idle, ended, err := l.step()
		if err != nil || ended {
			return err
		}
		if idle {
			if err := l.rest(); err != nil {
				return err
			}
		}
	}
}

// step takes one turn. It says whether there is nothing to do until something
// comes, and whether the shard has stopped.
func (l *Loop) step() (idle, ended bool, err error) {
	worked, err := l.turn()
	switch {
	case err != nil:
		return false, false, err
	case l.stopped && l.machine.Stopped():
		return false, true, nil
	case l.stopped && l.clock.Monotonic() > l.deadline.Load():
		return false, false, fmt.Errorf("shard %d did not stop within its limit: what it has not synced is recovered at the next start", l.id)
	}
	return !worked && !l.machine.Busy(), false, nil
}

// turn does everything that there is to do, within its bounds, and says whether
// there was something.
func (l *Loop) turn() (worked bool, err error) {
	m := l.machine
	if l.stopping.Load() && !l.stopped {
		l.stopped = true
		m.Stop()
	}
	m.Tick()
	for _, link := range l.links {
		if link.Starved.Load() && link.Starved.Swap(false) {
			m.Relieve()
		}
		worked = l.receive(link) || worked
	}
	for _, in := range l.letters {
		if in == nil {
			continue
		}
		for letter, ok := in.Pop(); ok; letter, ok = in.Pop() {
			m.Letter(&letter)
			worked = true
		}
	}
	for n := len(l.completions); n == len(l.completions); {
		n = l.driver.Reap(l.completions[:])
		for i, op := range l.completions[:n] {
			l.completions[i] = nil
			m.Complete(op)
		}
		worked = worked || n > 0
	}
	if worked {
		l.workedAt = l.clock.Monotonic()
	}
	// Ended jobs are work, but no reason to sleep less afterwards: the scrubber's never cease.
	worked = l.workers.reap(m.JobDone) > 0 || worked
	m.Flush()
	if err := m.Err(); err != nil {
		return worked, fmt.Errorf("shard %d: %w", l.id, err)
	}
	if err := l.driver.Flush(); err != nil {
		return worked, fmt.Errorf("shard %d: hand operations to the disk: %w", l.id, err)
	}
	l.out.flush()
	l.publishSnapshot()
	return worked, nil
}

// receive takes requests of one reactor, where they lie: each is a few cache lines
// that another core has written, and to copy them first would be most of the work.
func (l *Loop) receive(link *mail.Link) bool {
	count, bytes := 0, 0
	for count < requestsPerTurn && bytes < bytesPerTurn {
		r := link.Requests.Peek()
		if r == nil {
			break
		}
		if r.Kind == mail.RequestProduce {
			bytes += int(r.Bytes)
		}
		l.machine.Receive(r)
		link.Requests.Drop()
		if count++; count%requestsPerBatch == 0 {
			link.Requests.Free()
		}
	}
	link.Requests.Free()
	return count > 0
}

// waiting reports whether a turn would find work in a ring.
func (l *Loop) waiting() bool {
	for _, link := range l.links {
		if link.Requests.Len() > 0 || link.Starved.Load() {
			return true
		}
	}
	for _, in := range l.letters {
		if in != nil && in.Len() > 0 {
			return true
		}
	}
	return l.workers.ready() || l.stopping.Load() && !l.stopped
}

// rest spins for a while and then parks, until there may be work.
func (l *Loop) rest() error {
	l.spin.limit = l.spinLimit.Load()
	if l.spin.current > 0 {
		start := l.clock.Monotonic()
		for {
			if l.waiting() {
				l.spin.paid()
				return nil
			}
			if l.driver.Pending() > 0 {
				if n := l.driver.Reap(l.completions[:]); n > 0 {
					for i, op := range l.completions[:n] {
						l.completions[i] = nil
						l.machine.Complete(op)
					}
					l.spin.paid()
					return nil
				}
			}
			if l.clock.Monotonic()-start > l.spin.current {
				break
			}
		}
		l.spin.vain()
	}
	timeout := l.sleep()
	if timeout == 0 {
		return nil
	}
	l.waker.Announce()
	defer l.waker.Retract()
	if l.waiting() {
		return nil
	}
	start := l.clock.Monotonic()
	if err := l.driver.Park(timeout); err != nil {
		return fmt.Errorf("shard %d: park: %w", l.id, err)
	}
	l.spin.parked(l.clock.Monotonic() - start)
	return nil
}

// sleep is how long an idle loop may sleep.
func (l *Loop) sleep() int64 {
	limit, now := parkMax, l.clock.Monotonic()
	switch rested := now - l.workedAt; {
	case rested < int64(parkBusyTime):
		limit = parkBusyMax
	case rested >= int64(parkQuietTime) && l.machine.Quiet():
		limit = parkQuietMax
	}
	l.trim(now)
	return l.machine.Wait(limit)
}

// trim returns memory that a burst has left behind, once there is nothing else to do.
func (l *Loop) trim(now int64) {
	if now-l.workedAt >= int64(trimIdle) {
		for _, memory := range l.memory {
			memory.Trim(trimBytesPerPark)
		}
	}
}

// stop has the loop end what is under way, at the latest at the deadline. Any
// thread may call it.
func (l *Loop) stop(deadline int64) {
	l.deadline.Store(deadline)
	l.stopping.Store(true)
	l.waker.Kick()
}

// abandon ends the loop at once, after a start that failed elsewhere.
func (l *Loop) abandon() { l.stop(0) }

// close ends the driver, on the loop's thread. What is in flight is waited for:
// the kernel may still write into its memory.
func (l *Loop) close() error {
	for deadline := l.clock.Monotonic() + int64(closeWait); l.driver.Pending() > 0 && l.clock.Monotonic() < deadline; {
		if l.driver.Reap(l.completions[:]) == 0 {
			if err := l.driver.Park(int64(time.Millisecond)); err != nil {
				return err
			}
		}
	}
	if n := l.driver.Pending(); n > 0 {
		return fmt.Errorf("%d operations are still in flight", n)
	}
	return l.driver.Close()
}

// closeWait is how long a loop that has ended waits for operations in flight.
const closeWait = time.Second

// publishSnapshot copies the counters for other threads, when one asked.
func (l *Loop) publishSnapshot() {
	if !l.wanted.Load() {
		return
	}
	if now := l.clock.Monotonic(); now-l.snapshotted >= snapshotEvery || l.page.Load() == nil {
		l.snapshotted = now
		l.wanted.Store(false)
		l.page.Store(l.machine.Snapshot())
	}
}

// Snapshot returns the newest published counters, nil before the first, and asks
// for the next: a page that is read again and again is at most its own interval
// behind. Any thread may call it.
func (l *Loop) Snapshot() *shard.Snapshot {
	if !l.wanted.Swap(true) {
		l.waker.Kick()
	}
	return l.page.Load()
}
