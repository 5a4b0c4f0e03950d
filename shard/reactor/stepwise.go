package reactor

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/shard"
)

// StepOptions make a node that is driven step by step. A bound of 0 is that of a
// broker; smaller ones make full what a broker seldom fills.
type StepOptions struct {
	Options
	// Random gives the identity of a new data folder and the ids of topics, so that
	// the same source gives the same run.
	Random io.Reader
	// Kicked is told that a shard which sleeps has something to do. It must not call back.
	Kicked                                 func(core.ShardID)
	RequestSlots, AnswerSlots, LetterSlots int
	JobsMax                                int
	IngestBytes, LocalBytes                int64
	HoldBytes, CacheBytes                  int64
}

// Stepwise is a node without threads: the caller gives each shard its turns and
// runs the workers' jobs, all on one goroutine. It walks the same way as Start,
// with the loops' own turns, so that a simulation tests what a broker does.
type Stepwise struct{ *Node }

// StartStepwise recovers the data folder as Start does and begins to serve; the
// node is Ready after a few turns. When it fails, the node is abandoned.
func StartStepwise(o StepOptions) (*Stepwise, error) {
	n := newNode(o.Options)
	n.slots = slots{cmp.Or(o.RequestSlots, n.slots.requests), cmp.Or(o.AnswerSlots, n.slots.answers), cmp.Or(o.LetterSlots, n.slots.letters)}
	n.budget = budget{
		ingest: cmp.Or(o.IngestBytes, n.budget.ingest), local: cmp.Or(o.LocalBytes, n.budget.local), reads: n.budget.reads,
		cache: cmp.Or(o.CacheBytes, n.budget.cache), hold: cmp.Or(o.HoldBytes, n.budget.hold),
	}
	n.topicIDs = func() (id core.TopicID) {
		_, err := io.ReadFull(o.Random, id[:])
		core.Assert(err == nil, "the source of a stepwise node never ends")
		return id
	}
	if err := n.openFolder(o.Random); err != nil {
		return nil, err
	}
	shards := o.Config.Broker.Shards
	s := &Stepwise{n}
	for i := range shards {
		n.wakers = append(n.wakers, &stepWaker{shard: core.ShardID(i), kicked: o.Kicked})
	}
	n.pool = newPool(0, cmp.Or(o.JobsMax, jobsMax))
	err := n.wire()
	if err == nil {
		for _, a := range n.arenas {
			spoil(a)
		}
		err = s.bringUp()
	}
	if err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

// bringUp is what the threads of a node do together, one after the other.
func (s *Stepwise) bringUp() error {
	n := s.Node
	n.loops = make([]*Loop, len(n.wakers))
	for i := range n.loops {
		loop, err := n.open(core.ShardID(i))
		if err != nil {
			return err
		}
		for _, memory := range loop.memory {
			spoil(memory)
		}
		n.loops[i] = loop
	}
	metadata, err := n.recovered()
	if err != nil {
		return err
	}
	for _, l := range n.loops {
		if err := n.openPartitions(l, metadata, func() bool { return false }); err != nil {
			return err
		}
	}
	n.reportUnavailable()
	for _, l := range n.loops {
		if err := l.machine.Boot(); err != nil {
			return err
		}
	}
	return nil
}

// spoil has memory overwritten that is given back, so that a use after that is seen.
func spoil(m memory) {
	if m, ok := m.(interface{ Spoil() }); ok {
		m.Spoil()
	}
}

// Ready says whether every shard serves.
func (s *Stepwise) Ready() bool {
	for _, l := range s.loops {
		if !l.machine.Ready() {
			return false
		}
	}
	return true
}

// Turn has a shard take one turn. After it the shard wants the next at once (0),
// or sleeps for so many nanoseconds unless it is kicked, or an operation of its
// disk ends before. An error is fatal for the process.
func (s *Stepwise) Turn(id core.ShardID) (sleep int64, ended bool, err error) {
	l := s.loops[id]
	l.waker.Retract()
	idle, ended, err := l.step()
	if err != nil {
		s.fail(err)
	}
	if err != nil || ended || !idle {
		return 0, ended, err
	}
	if sleep = l.sleep(); sleep > 0 {
		l.waker.Announce()
		if l.waiting() {
			l.waker.Retract()
			sleep = 0
		}
	}
	return sleep, false, nil
}

// Jobs is how many jobs wait for RunJob.
func (s *Stepwise) Jobs() int { return len(s.pool.queue) }

// RunJob does the oldest job that was submitted.
func (s *Stepwise) RunJob() bool {
	select {
	case j := <-s.pool.queue:
		j.run()
		return true
	default:
		return false
	}
}

// BeginStop has every shard end what is under way within a limit. Each has
// stopped when its Turn says so; End follows.
func (s *Stepwise) BeginStop(limit time.Duration) {
	for _, l := range s.loops {
		l.stop(s.options.Clock.Monotonic() + int64(limit))
	}
}

// Pending says how many operations of a shard are with its disk, for a caller that
// waits for them before End.
func (s *Stepwise) Pending(id core.ShardID) int { return s.loops[id].driver.Pending() }

// Snapshots are the counters of the shards, fresh ones.
func (s *Stepwise) Snapshots() []*shard.Snapshot {
	list := make([]*shard.Snapshot, len(s.loops))
	for i, l := range s.loops {
		list[i] = l.machine.Snapshot()
	}
	return list
}

// Ingest is the memory of the arenas between reactors and shards.
func (s *Stepwise) Ingest() (sum arena.Gauges) {
	for _, a := range s.arenas {
		g := a.Gauges()
		sum.ReservedBytes += g.ReservedBytes
		sum.InUseBytes += g.InUseBytes
		sum.TouchedBytes += g.TouchedBytes
	}
	return sum
}

// End closes the drivers of a node that has stopped.
func (s *Stepwise) End() error {
	var failed error
	for _, l := range s.loops {
		failed = errors.Join(failed, l.close())
	}
	s.Abandon()
	return failed
}

// Abandon gives the node's memory back whatever is in it, as the end of a process
// does. Nothing of the node may be used any more.
func (s *Stepwise) Abandon() {
	for _, w := range s.wakers {
		_ = w.Close()
	}
	for _, list := range [][]memory{s.arenas, s.locals} {
		for _, a := range list {
			if a, ok := a.(interface{ Abandon() error }); ok {
				_ = a.Abandon()
			}
		}
	}
}

// stepWaker stands for a ring.Waker where nobody sleeps: it tells the caller that a
// shard is to have its turn.
type stepWaker struct {
	shard  core.ShardID
	kicked func(core.ShardID)
	armed  bool
}

func (w *stepWaker) Announce() { w.armed = true }
func (w *stepWaker) Retract()  { w.armed = false }
func (w *stepWaker) FD() int   { return -1 }

// Close never fails.
func (w *stepWaker) Close() error { return nil }

// Kick passes on the first kick of a sleep.
func (w *stepWaker) Kick() {
	if w.armed {
		w.armed = false
		w.kicked(w.shard)
	}
}
