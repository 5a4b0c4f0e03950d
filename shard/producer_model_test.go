package shard

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// idempotent is what the model knows of one producer: every batch that was stored,
// in order, and which sequence is next in its epoch.
type idempotent struct {
	id      int64
	epoch   int16
	batches []idempotentBatch // of this epoch
	seen    int64             // when the last one was stored
	wraps   bool              // begins just below the end of the sequences
}

type idempotentBatch struct {
	spec batchSpec
	at   core.Offset
}

// wrapStart is a few batches below the sequence after which 0 comes.
const wrapStart = 1<<31 - 4

func (p *idempotent) next() int32 {
	if n := len(p.batches); n > 0 {
		last := p.batches[n-1].spec
		return proto.SequenceAdd(last.sequence, int32(last.records))
	}
	if p.wraps && p.epoch == 0 {
		return wrapStart
	}
	return 0
}

// producerModel holds a node with one partition against a map of its producers.
type producerModel struct {
	t         *rapid.T
	n         *node
	partition core.PartitionID
	producers map[int64]*idempotent
	stored    int // records
	counts    *producerModelCounts
}

type producerModelCounts struct {
	stored, duplicates, refused, failures, unknown, states, badStates, wrapped int
}

const producerModelExpiry = time.Hour // of the harness

// TestProducerModel: whatever happens between, a batch is stored once and in the
// order of its sequences, a retry is answered with the offset of the original, and
// what does not follow is refused: through crashes, failed writes, damaged states,
// the end of the sequences, and producers that are silent for longer than they are
// remembered.
func TestProducerModel(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	if n, err := strconv.Atoi(before); err == nil { // each run starts several brokers
		_ = checks.Value.Set(strconv.Itoa(max(1, n/5)))
	}
	var counts producerModelCounts
	rapid.Check(t, func(rt *rapid.T) {
		n := &node{t: t, clock: newTestClock(), defaults: testConfig, incoming: make([][]mail.Letter, 1)}
		n.store = segment.Options{StateBytes: 30 << 10, FlushBytes: 16 << 10}
		n.disks = openTestDisks(t, mem.New(), 1)
		n.start(1)
		m := &producerModel{t: rt, n: n, producers: map[int64]*idempotent{}, counts: &counts}
		m.partition = n.create("t", 1).Partitions[0].ID
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			m.step()
		}
		m.restart(rapid.Bool().Draw(rt, "stop"))
		m.check()
	})
	t.Logf("%+v", counts)
}

func (m *producerModel) step() {
	t := m.t
	id := rapid.Int64Range(1, 4).Draw(t, "producer")
	p := m.producers[id]
	if p == nil {
		p = &idempotent{id: id, wraps: rapid.Bool().Draw(t, "wraps")}
		m.producers[id] = p
	}
	switch action := rapid.IntRange(0, 15).Draw(t, "action"); {
	case action < 7:
		m.store(p, m.draw(p))
	case action == 7 && len(p.batches) > 0:
		m.again(p, rapid.IntRange(0, len(p.batches)-1).Draw(t, "which"))
	case action == 8: // a gap
		s := m.draw(p)
		s.sequence = proto.SequenceAdd(s.sequence, int32(rapid.IntRange(1, 9).Draw(t, "gap")))
		m.refused(p, s)
	case action == 9 && len(p.batches) > 0: // a new epoch begins with 0
		s := m.draw(p)
		s.epoch, s.sequence = p.epoch+1, 0
		m.store(p, s)
	case action == 10 && p.epoch > 0: // an old one has ended
		s := m.draw(p)
		s.epoch--
		m.refused(p, s)
	case action == 11:
		m.fail(p)
	case action == 12:
		m.unheard(p)
	case action == 13:
		m.n.clock.advance(rapid.SampledFrom([]time.Duration{time.Second, producerModelExpiry / 2, 2 * producerModelExpiry}).Draw(t, "silence"))
		m.n.settle()
	default:
		m.restart(rapid.Bool().Draw(t, "stop"))
	}
}

// draw is the batch that is next for a producer.
func (m *producerModel) draw(p *idempotent) batchSpec {
	return batchSpec{
		records: rapid.IntRange(1, 3).Draw(m.t, "records"), value: rapid.SampledFrom([]int{10, 3000, 70 << 10}).Draw(m.t, "value"),
		producer: p.id, epoch: p.epoch, sequence: p.next(),
	}
}

// prime has the partition remember a batch just below the end of the sequences, as
// it would after two thousand million records.
func (m *producerModel) prime(p *idempotent) {
	if p.wraps && p.epoch == 0 && len(p.batches) == 0 {
		table := &m.n.machines[0].partitions[m.partition].producers
		if table.byID[core.ProducerID(p.id)] == nil {
			table.append(produced(core.ProducerID(p.id), 0, wrapStart-1, 1), 0, m.n.clock.wall)
		}
		p.seen = m.n.clock.wall
	}
}

// silent says whether a producer may have been forgotten.
func (m *producerModel) silent(p *idempotent) bool {
	return m.n.clock.wall-p.seen > int64(producerModelExpiry)
}

// forgotten takes an answer that says so.
func (m *producerModel) forgotten(p *idempotent, a *mail.Answer) bool {
	if a.Err == nil || a.Err.Code != proto.CodeUnknownProducer || !m.silent(p) {
		return false
	}
	m.counts.unknown++
	delete(m.producers, p.id) // it begins anew, as one with a new id would
	return true
}

// ask sends a batch and waits for its answer: after a failed write that takes a while.
func (m *producerModel) ask(s batchSpec) mail.Answer {
	got := m.n.ask(m.n.produceRequest(m.partition, s))
	for range 20 {
		if len(got) == 1 {
			return got[0]
		}
		m.n.clock.advance(time.Second)
		m.n.settle()
		got = append(got, m.n.answers()...)
	}
	m.t.Fatalf("%d answers to %+v", len(got), s)
	return mail.Answer{}
}

func (m *producerModel) store(p *idempotent, s batchSpec) {
	m.prime(p)
	a := m.ask(s)
	if m.forgotten(p, &a) {
		return
	}
	if a.Err != nil || a.Duplicate {
		m.t.Fatalf("%+v: %+v, %v", s, a, a.Err)
	}
	m.took(p, s, a.Offset)
}

// took notes a batch that was stored.
func (m *producerModel) took(p *idempotent, s batchSpec, at core.Offset) {
	if at != core.Offset(m.stored) {
		m.t.Fatalf("%+v was stored at %d, the log ended at %d", s, at, m.stored)
	}
	if s.epoch != p.epoch {
		p.epoch, p.batches = s.epoch, nil
	}
	if last := proto.SequenceAdd(s.sequence, int32(s.records)); last < s.sequence {
		m.counts.wrapped++
	}
	p.batches = append(p.batches, idempotentBatch{s, at})
	p.seen = m.n.clock.wall
	m.stored += s.records
	m.counts.stored++
}

// again sends a batch that was acked: the last five are duplicates, older ones are refused.
func (m *producerModel) again(p *idempotent, which int) {
	b := p.batches[which]
	a := m.ask(b.spec)
	remembered := which >= len(p.batches)-core.ProducerBatchesRemembered
	switch {
	case m.forgotten(p, &a):
	case m.silent(p) && a.Err == nil && !a.Duplicate && b.spec.sequence == 0:
		// Forgotten, and sequence 0 begins anew: what the expiry costs.
		delete(m.producers, p.id)
		m.stored += b.spec.records
	case remembered && (a.Err != nil || !a.Duplicate || a.Offset != b.at):
		m.t.Fatalf("%+v was stored at %d; again: %+v, %v", b.spec, b.at, a, a.Err)
	case !remembered && (a.Err == nil || a.Err.Code != proto.CodeDuplicateSequence):
		m.t.Fatalf("%+v is forgotten; again: %+v", b.spec, a)
	default:
		m.counts.duplicates++
	}
}

func (m *producerModel) refused(p *idempotent, s batchSpec) {
	m.prime(p)
	a := m.ask(s)
	if m.forgotten(p, &a) {
		return
	}
	if m.silent(p) && a.Err == nil && s.sequence == 0 {
		delete(m.producers, p.id)
		m.stored += s.records
		return
	}
	if a.Err == nil {
		m.t.Fatalf("%+v was taken, sequence %d of epoch %d is next", s, p.next(), p.epoch)
	}
	m.counts.refused++
}

// fail has the disk fail the write of a batch: it is answered with an error that
// may be tried again, and the retry is stored once.
func (m *producerModel) fail(p *idempotent) {
	m.prime(p)
	s := m.draw(p)
	s.value = 70 << 10
	fault := m.n.disks[0].folder.fs.Inject(&mem.Fault{Kind: rapid.SampledFrom([]core.DiskOpKind{core.DiskSync, core.DiskWrite}).Draw(m.t, "kind"), Path: "topics/*", Count: 1})
	a := m.ask(s)
	m.n.disks[0].folder.fs.ClearFaults()
	if m.forgotten(p, &a) {
		return
	}
	if fault.Hits() == 0 || a.Err == nil {
		if a.Err != nil || a.Duplicate {
			m.t.Fatalf("%+v: %v", s, a.Err)
		}
		m.took(p, s, a.Offset)
		return
	}
	m.counts.failures++
	if !a.Err.Retriable() {
		m.t.Fatalf("a failed write is answered %v", a.Err)
	}
	m.retry(p, s)
}

// retry sends a batch until it is taken.
func (m *producerModel) retry(p *idempotent, s batchSpec) {
	for range 20 {
		m.prime(p)
		a := m.ask(s)
		switch {
		case m.forgotten(p, &a):
			return
		case a.Err == nil:
			m.took(p, s, a.Offset)
			return
		case !a.Err.Retriable() && !errors.Is(a.Err, proto.ErrStorageError):
			m.t.Fatalf("retry of %+v: %v", s, a.Err)
		}
		m.n.clock.advance(time.Second)
		m.n.settle()
	}
	m.t.Fatalf("%+v is never taken", s)
}

// unheard sends a batch whose answer nobody hears, and crashes: the retry is
// answered with where it was stored, or is stored now.
func (m *producerModel) unheard(p *idempotent) {
	m.prime(p)
	s := m.draw(p)
	m.n.held = true
	r := m.n.produceRequest(m.partition, s)
	m.n.send(&r)
	for range rapid.IntRange(0, 4).Draw(m.t, "turns") {
		m.n.turn()
	}
	m.n.answers()
	m.n.crash(rapid.Uint64().Draw(m.t, "seed"), mem.CrashOptions{})
	m.retry(p, s)
}

// restart ends the node, cleanly or not, with some of its states damaged.
func (m *producerModel) restart(stop bool) {
	n := m.n
	if stop {
		m.stop()
	}
	fs := n.disks[0].folder.fs.Crash(rapid.Uint64().Draw(m.t, "seed"), mem.CrashOptions{})
	states := stateFiles(m.t, fs)
	m.counts.states += len(states)
	if len(states) > 1 && rapid.Bool().Draw(m.t, "damage") {
		name := states[len(states)-1]
		f, err := fs.Open(name)
		if err != nil {
			m.t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff, 0x5a}, segment.FileHeaderBytes+20); err != nil {
			m.t.Fatal(err)
		}
		_ = f.Close()
		m.counts.badStates++
	}
	n.restart(fs)
	for _, p := range m.producers {
		if p.wraps && len(p.batches) == 0 {
			p.seen = 0 // the primed one is gone with the process
			p.wraps = p.epoch == 0
		}
	}
}

// stop ends the node cleanly; after a failed write that takes a while.
func (m *producerModel) stop() {
	n := m.n
	n.machines[0].Stop()
	for range 5000 {
		if n.turn(); n.machines[0].Stopped() {
			n.answers()
			return
		}
		n.clock.advance(time.Millisecond)
	}
	m.t.Fatal("the node does not stop")
}

// stateFiles are the states of all partitions of topics, in order of their names.
func stateFiles(t *rapid.T, fs *mem.FS) (names []string) {
	var walk func(dir string)
	walk = func(dir string) {
		list, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			switch name := path.Join(dir, e.Name); {
			case e.IsDir:
				walk(name)
			case strings.HasSuffix(name, segment.StateExtension) && !strings.Contains(name, strings.Repeat("0", 32)):
				names = append(names, name)
			}
		}
	}
	walk(segment.TopicsDir)
	slices.Sort(names)
	return names
}

// check reads the partition: each batch of the producers that are known is there
// once, where it was acked.
func (m *producerModel) check() {
	got := m.n.readAll(m.partition)
	if len(got) != m.stored {
		m.t.Fatalf("the partition holds %d records, %d were stored", len(got), m.stored)
	}
	for _, p := range m.producers {
		for _, b := range p.batches {
			for i := range b.spec.records {
				if r := got[int(b.at)+i]; len(r.Value) != b.spec.value || string(r.Key) != fmt.Sprint("key-", i) {
					m.t.Fatalf("offset %d holds another record than %+v", int(b.at)+i, b.spec)
				}
			}
		}
	}
}
