package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// world is one run.
type world struct {
	seed   uint64
	random *rand.Rand
	plan   plan
	clock  *clock
	agenda agenda
	trace  trace
	log    *slog.Logger

	nodes     []*node
	peers     []*peer
	topics    []*topic
	producers []*producer
	consumers []*consumer
	admin     *admin
	ledger    *ledger
	faults    *faults
	groups    *groups // nil: the seed has none
	queues    *queues // the same

	builder  proto.BatchBuilder
	attempts int64
	wires    int64
	ids      map[int64]bool // producer ids given out
	counts   counts
	errors   [128]int // by code
	healed   bool
	refused  int // the life of the node whose start last refused a partition
	failed   error
}

// counts say how much a run has done.
type counts struct {
	requests, answers, acks, shown, trims, ends, truncations, turns int
	joins, beats, takes, commits, fenced, seeks                     int // of groups
	leased, settled, letters                                        int // records, of queue groups
}

func newWorld(seed uint64, o options) *world {
	w := &world{seed: seed, random: rand.New(rand.NewPCG(seed, 0x73696d)), clock: newClock(), ids: map[int64]bool{}}
	w.trace.loud = o.loud
	w.log = slog.New(&logWatch{world: w})
	w.plan = newPlan(w.random)
	w.ledger = &ledger{world: w}
	w.faults = &faults{world: w}
	w.groups = w.newGroups(seed, o.grouped)
	w.queues = w.newQueues(seed, o.queued)
	w.nodes = []*node{{world: w, id: core.NodeID(1), files: mem.New()}}
	return w
}

func (w *world) at(at int64, do func())          { w.agenda.add(at, do) }
func (w *world) after(wait int64, do func())     { w.agenda.add(w.clock.monotonic+wait, do) }
func (w *world) between(least, most int64) int64 { return least + w.random.Int64N(max(1, most-least)) }

func (w *world) note(what string, args ...int64) { w.trace.note(w.clock.monotonic, what, args...) }

// fail ends the run with what is wrong. The first failure is the one.
func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
		w.note("FAILED")
	}
}

// source is a stream of random bytes.
func (w *world) source() io.Reader {
	return &source{rand.New(rand.NewPCG(w.random.Uint64(), 0x69647321))}
}

type source struct{ random *rand.Rand }

func (s *source) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], s.random.Uint64())
		copy(p[i:], eight[:])
	}
	return len(p), nil
}

// eventsMax bounds a run: one that goes round in circles is a failure.
const eventsMax = 20_000_000

// until lets things happen until a time, or until something is true.
func (w *world) until(at int64, enough func() bool) bool {
	for w.failed == nil {
		if enough != nil && enough() {
			return true
		}
		if len(w.agenda.heap) == 0 || w.agenda.heap[0].at > at {
			w.clock.monotonic = at
			return false
		}
		if w.counts.turns++; w.counts.turns > eventsMax {
			w.fail("the run goes on and on")
			return false
		}
		e := w.agenda.next()
		w.clock.monotonic = max(w.clock.monotonic, e.at)
		e.do()
	}
	return false
}

// run is the whole life of a world.
func (w *world) run() (failed error) {
	w.nodes[0].start()
	w.admin = w.newAdmin()
	for range w.plan.topics {
		w.admin.create(w.newTopic())
	}
	for range w.plan.producers {
		t := w.topics[w.random.IntN(len(w.topics))]
		w.newProducer(t.logs[w.random.IntN(len(t.logs))])
	}
	for range w.plan.consumers {
		t := w.topics[w.random.IntN(len(w.topics))]
		w.newConsumer(t.logs[w.random.IntN(len(t.logs))])
	}
	w.faults.begin()
	w.groups.begin()
	w.queues.begin()
	w.admin.changeLater()
	w.until(w.clock.monotonic+w.plan.time, nil)
	if w.failed == nil {
		w.finale()
	}
	for _, n := range w.nodes {
		if n.step != nil {
			n.step.Abandon()
		}
	}
	return w.failed
}

// sawError takes every error that a client is told.
func (w *world) sawError(p *peer, e *proto.Error) {
	w.note("error", int64(e.Code))
	if int(e.Code) < len(w.errors) {
		w.errors[e.Code]++
	}
	switch e.Code {
	case proto.CodeInternal, proto.CodeMalformedRequest, proto.CodeWindowExceeded, proto.CodeFrameTooLarge, proto.CodeHandshakeRequired:
		if e.Code == proto.CodeHandshakeRequired && p.wire != nil {
			return // its HELLO was too slow
		}
		w.fail("%s is told %v", p.name, e)
	}
}

// corrupt takes CORRUPT_RECORD, which only a run with flipped bits may see.
func (w *world) corrupt(l *plog, e *proto.Error) {
	if !w.plan.flips && !w.plan.diskFaults {
		l.fail("a record is said to be damaged on a disk that damages nothing: %v", e)
	}
}

// tookProducerID holds producer ids to being new.
func (w *world) tookProducerID(id int64) {
	if w.ids[id] {
		w.fail("producer id %d was given out twice", id)
	}
	w.ids[id] = true
}

// stoppedClean looks at what a node that has stopped still holds. A parcel may be on
// its way: an answer that came after the connections were closed, or one given back
// when its shard took no more. A read that was under way keeps what it may have found,
// and dead letters that a worker was making what was read for them.
func (w *world) stoppedClean(n *node) {
	for i, s := range n.step.Snapshots() {
		under := n.parcelsUnderWay(i)
		making := w.queues != nil && (s.MemoryParcels-under)%core.AnswerChunkBytesMax == 0
		if s.MemoryPending != 0 || s.MemoryParcels != under && s.Store.ReadsUnderWay == 0 && !making {
			w.fail("shard %d of %v holds %d bytes of batches and %d of parcels after its stop, %d of them are in a ring", i, n, s.MemoryPending, s.MemoryParcels, under)
		}
	}
}
