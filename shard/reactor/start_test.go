package reactor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// memDisks is a data folder in memory.
type memDisks struct{ fs *mem.FS }

func (d memDisks) FS() core.FS { return d.fs }
func (d memDisks) Driver(w core.Waker) (core.DiskDriver, error) {
	return d.fs.Driver(mem.DriverOptions{Waker: w}), nil
}

type systemClock struct{ start time.Time }

func (c systemClock) Now() int64       { return time.Now().UnixNano() }
func (c systemClock) Monotonic() int64 { return int64(time.Since(c.start)) + 1 }

// testReactor stands for a network thread: it has one ring to each shard.
type testReactor struct {
	t       testing.TB
	node    *Node
	index   int
	kicked  chan struct{}
	answers []mail.Answer
	id      uint64
	clock   core.Clock
}

func (r *testReactor) Kick() {
	select {
	case r.kicked <- struct{}{}:
	default:
	}
}

func testConfig(shards, reactors int, change ...func(*core.Config)) *core.Config {
	c := core.DefaultConfig(core.Machine{CPUs: 4, MemoryBytes: 512 * core.MiB, Hostname: "test"})
	c.Broker.Shards, c.Broker.Reactors = shards, reactors
	c.Storage.JournalSize, c.Storage.JournalFileSize = 8*core.MiB, core.MiB
	c.Storage.TailCache = 16 * core.MiB
	c.Storage.MinFree = 1
	for _, f := range change {
		f(&c)
	}
	return &c
}

func startNode(t testing.TB, disks Disks, config *core.Config, log *bytes.Buffer) (*Node, []*testReactor) {
	t.Helper()
	node, err := tryStart(disks, config, log)
	if err != nil {
		t.Fatal(err)
	}
	var reactors []*testReactor
	for i, links := range node.Links {
		r := &testReactor{t: t, node: node, index: i, kicked: make(chan struct{}, 1), clock: node.options.Clock}
		for _, link := range links {
			link.Reactor = r
		}
		reactors = append(reactors, r)
	}
	return node, reactors
}

func tryStart(disks Disks, config *core.Config, log *bytes.Buffer) (*Node, error) {
	if log == nil {
		log = new(bytes.Buffer)
	}
	return Start(Options{Config: config, Disks: disks, Clock: systemClock{time.Now()}, Log: slog.New(slog.NewTextHandler(&lockedWriter{w: log}, nil))})
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (r *testReactor) send(partition core.PartitionID, q mail.Request) uint64 {
	r.t.Helper()
	r.id++
	q.ID, q.Reactor, q.Partition, q.Received = r.id, uint8(r.index), partition, r.clock.Monotonic()
	link := r.node.Links[r.index][core.ShardOf(partition, len(r.node.Links[r.index]))]
	for !link.Requests.Push(q) {
		runtime.Gosched()
	}
	link.Shard.Kick()
	return r.id
}

// answer waits for the answer to a request.
func (r *testReactor) answer(id uint64) mail.Answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		for i, a := range r.answers {
			if a.ID == id {
				r.answers = append(r.answers[:i], r.answers[i+1:]...)
				return a
			}
		}
		popped := len(r.answers)
		for _, link := range r.node.Links[r.index] {
			for a, ok := link.Answers.Pop(); ok; a, ok = link.Answers.Pop() {
				r.answers = append(r.answers, a)
			}
		}
		if len(r.answers) > popped {
			continue
		}
		select {
		case <-r.kicked:
		case <-r.node.Failed():
			r.t.Fatal(r.node.Err())
		case <-ctx.Done():
			r.t.Fatalf("no answer to request %d", id)
		}
	}
}

func (r *testReactor) create(name string, partitions uint32) *core.Topic {
	r.t.Helper()
	a := r.answer(r.send(core.MetadataPartition, mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: name, Partitions: partitions}}))
	if a.Err != nil {
		r.t.Fatal(a.Err)
	}
	return r.node.Views.Load().TopicByName(name)
}

func (r *testReactor) produce(id core.PartitionID, value string) uint64 {
	r.t.Helper()
	return r.produceIn(id, value, nil)
}

// produceIn sends a batch in a slab that is large enough, or gets one.
func (r *testReactor) produceIn(id core.PartitionID, value string, slab *core.Slab) uint64 {
	r.t.Helper()
	var b proto.BatchBuilder
	if err := b.Append(&proto.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(value)}); err != nil {
		r.t.Fatal(err)
	}
	batch, err := b.Build()
	if err != nil {
		r.t.Fatal(err)
	}
	arena := r.node.Links[r.index][core.ShardOf(id, len(r.node.Links[r.index]))].Arena
	for slab == nil {
		runtime.Gosched()
		slab = arena.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
	}
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	return r.send(id, mail.Request{Kind: mail.RequestProduce, Acks: 1, LeaderEpoch: -1, Slab: slab,
		Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), RecordsCRC: batch.RecordsCRC()})
}

func (r *testReactor) values(id core.PartitionID) (values []string) {
	r.t.Helper()
	q := r.send(id, mail.Request{Kind: mail.RequestFetch, LeaderEpoch: -1, LastEpoch: -1})
	for {
		a := r.answer(q)
		if a.Err != nil {
			r.t.Fatal(a.Err)
		}
		if a.Parcel != nil {
			for _, slice := range a.Parcel.Slices {
				for len(slice) > 0 {
					batch, rest, err := proto.NextBatch(slice)
					if err != nil {
						r.t.Fatal(err)
					}
					var it proto.RecordIterator
					for _ = it.Reset(batch, 1<<20); it.Next(); {
						values = append(values, string(it.Record().Value))
					}
					slice = rest
				}
			}
			r.send(id, mail.Request{Kind: mail.RequestReturn, Parcel: a.Parcel})
		}
		if !a.More {
			return values
		}
	}
}

func eachDisk(t *testing.T, run func(t *testing.T, open func() (Disks, func()))) {
	t.Run("mem", func(t *testing.T) {
		fs := mem.New()
		run(t, func() (Disks, func()) { return memDisks{fs}, func() {} })
	})
	for _, kind := range []core.DiskChoice{core.DiskPosix, core.DiskUring} {
		t.Run(kind.String(), func(t *testing.T) {
			dir := t.TempDir()
			run(t, func() (Disks, func()) {
				folder, err := disk.Open(dir, kind)
				if err != nil {
					t.Skip(err)
				}
				return NewFolderDisks(folder, nil), func() {
					if err := folder.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// What is recovered of the metadata is read by the threads of all shards at once, none
// of which may still have to make something of it: a read leaves it as it was, byte by
// byte. The race detector sees as well what one of them would write elsewhere.
func TestThreadsShareTheRecoveredMetadata(t *testing.T) {
	fs := mem.New()
	node, reactors := startNode(t, memDisks{fs}, testConfig(1, 1), nil)
	topic := reactors[0].create("t", 6)
	if err := node.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	// Folders without a segment are looked up, which is a first read.
	if err := fs.RemoveAll(segment.TopicsDir + "/" + topic.ID.String()); err != nil {
		t.Fatal(err)
	}
	// A start comes to it with commands that nobody has looked at the result of.
	node.loops[0].machine.Metadata().Apply(&cluster.ProducerReserve{})
	metadata, err := node.recovered()
	if err != nil {
		t.Fatal(err)
	}
	content := func() string {
		return string(unsafe.Slice((*byte)(unsafe.Pointer(metadata)), unsafe.Sizeof(*metadata)))
	}
	before, partitions := content(), 0
	reads := func() (found int) { // what openPartitions asks for
		metadata.View().TopicsAfter("", func(topic *core.Topic) bool {
			for _, p := range topic.Partitions {
				if _, _, state := metadata.Partition(p.ID); state == cluster.PartitionLive {
					found++
				}
			}
			return true
		})
		return found
	}
	if partitions = reads(); partitions != 6 {
		t.Fatalf("%d partitions are found, 6 were created", partitions)
	}
	if content() != before {
		t.Fatal("the first to read the metadata has changed it")
	}
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			if n := reads(); n != partitions {
				t.Errorf("a thread finds %d partitions", n)
			}
		})
	}
	threads.Wait()
}

func TestNodeServesAndRestarts(t *testing.T) {
	eachDisk(t, func(t *testing.T, open func() (Disks, func())) {
		want := map[core.PartitionID][]string{}
		var topic *core.Topic
		for round := range 3 {
			disks, closeDisks := open()
			// The number of shards changes at the last start.
			node, reactors := startNode(t, disks, testConfig(2+round/2, 2), nil)
			if round == 0 {
				topic = reactors[0].create("t", 6)
			}
			if got := node.Views.Load().TopicByName("t"); got == nil || got.ID != topic.ID || len(got.Partitions) != 6 {
				t.Fatalf("round %d: topic %+v", round, got)
			}
			for _, p := range topic.Partitions {
				if got := reactors[1].values(p.ID); strings.Join(got, ",") != strings.Join(want[p.ID], ",") {
					t.Fatalf("round %d: partition %d has %q, want %q", round, p.ID, got, want[p.ID])
				}
			}
			var wait sync.WaitGroup
			for i, r := range reactors {
				// Each reactor has its own partitions, so that the order is known.
				for j, p := range topic.Partitions {
					if j%2 == i {
						for k := range 50 {
							want[p.ID] = append(want[p.ID], fmt.Sprint(round, "-", i, "-", k))
						}
					}
				}
				wait.Add(1)
				go func() {
					defer wait.Done()
					for j, p := range topic.Partitions {
						if j%2 != i {
							continue
						}
						var ids []uint64
						for k := range 50 {
							ids = append(ids, r.produce(p.ID, fmt.Sprint(round, "-", i, "-", k)))
						}
						for _, id := range ids {
							if a := r.answer(id); a.Err != nil || a.Durability != core.DurabilitySync {
								t.Errorf("answer %+v", a)
							}
						}
					}
				}()
			}
			wait.Wait()
			if err := node.Stop(10 * time.Second); err != nil {
				t.Fatalf("round %d: stop: %v", round, err)
			}
			closeDisks()
		}
	})
}

func TestAnotherNodeIDIsRefused(t *testing.T) {
	disks := memDisks{mem.New()}
	node, _ := startNode(t, disks, testConfig(1, 1), nil)
	if err := node.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	_, err := tryStart(disks, testConfig(1, 1, func(c *core.Config) { c.Broker.NodeID = 7 }), nil)
	if err == nil || !strings.Contains(err.Error(), "set broker.node-id back to 1") {
		t.Fatalf("error %v", err)
	}
}

// oneDriver are disks that serve only the first shard that comes.
type oneDriver struct {
	memDisks
	taken *atomic.Bool
}

func (d oneDriver) Driver(w core.Waker) (core.DiskDriver, error) {
	if d.taken.Swap(true) {
		return nil, errors.New("no more drivers")
	}
	return d.memDisks.Driver(w)
}

// A shard that cannot start ends the others, however far they have come.
func TestStartFailsOnOneShard(t *testing.T) {
	node, err := tryStart(oneDriver{memDisks{mem.New()}, new(atomic.Bool)}, testConfig(4, 1), nil)
	if node != nil || err == nil || !strings.Contains(err.Error(), "no more drivers") {
		t.Fatalf("%v", err)
	}
}

// stallingDisks let nobody have a driver before they are released.
type stallingDisks struct {
	memDisks
	asked   chan struct{}
	release chan struct{}
}

func (d stallingDisks) Driver(w core.Waker) (core.DiskDriver, error) {
	d.asked <- struct{}{}
	<-d.release
	return d.memDisks.Driver(w)
}

// Who stops a broker that recovers for minutes does not wait for the end of that.
func TestStartIsGivenUp(t *testing.T) {
	disks := stallingDisks{memDisks{mem.New()}, make(chan struct{}), make(chan struct{})}
	stop := make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := Start(Options{Config: testConfig(2, 1), Disks: disks, Clock: systemClock{time.Now()},
			Log: slog.New(slog.DiscardHandler), Stop: stop})
		ended <- err
	}()
	<-disks.asked
	<-disks.asked
	close(stop)
	close(disks.release)
	select {
	case err := <-ended:
		if !errors.Is(err, ErrStopped) {
			t.Fatalf("the start ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the start does not end")
	}
	// Nothing is left behind that the next start would meet.
	node, _ := startNode(t, disks.memDisks, testConfig(2, 1), nil)
	if err := node.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
}

// A journal that cannot be written ends the process: the node says so.
func TestFailedJournalIsFatal(t *testing.T) {
	fs := mem.New()
	node, reactors := startNode(t, memDisks{fs}, testConfig(1, 1), nil)
	topic := reactors[0].create("t", 1)
	fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "layout-*", Count: -1})
	fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "layout-*", Count: -1})
	reactors[0].produce(topic.Partitions[0].ID, "x")
	select {
	case <-node.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the node goes on without a journal")
	}
	if err := node.Stop(time.Second); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("error %v", err)
	}
	for _, link := range node.Links[0] {
		if a, ok := link.Answers.Pop(); ok && a.Kind == mail.AnswerProduce {
			t.Errorf("acked: %+v", a)
		}
	}
}

// A disk that answers nothing any more must not keep the process from ending.
func TestStopIsBounded(t *testing.T) {
	fs := mem.New()
	node, reactors := startNode(t, memDisks{fs}, testConfig(1, 1), nil)
	topic := reactors[0].create("t", 1)
	stall := fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "layout-*", Count: -1, Action: mem.FaultDelay, Delay: 1 << 60})
	reactors[0].produce(topic.Partitions[0].ID, "x")
	began := time.Now()
	err := node.Stop(100 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not stop within its limit") {
		t.Fatalf("error %v, %d operations stalled", err, stall.Hits())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func TestSnapshotsArePublished(t *testing.T) {
	node, reactors := startNode(t, memDisks{mem.New()}, testConfig(1, 1), nil)
	topic := reactors[0].create("t", 2)
	reactors[0].answer(reactors[0].produce(topic.Partitions[0].ID, "x"))
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := node.Snapshot(0)
		if got != nil && got.MessagesIn == 1 && len(got.Partitions) == 2 && got.Total.TotalCount() == 1 && got.Sync.TotalCount() == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("snapshot %+v", got)
		}
		runtime.Gosched()
	}
	if err := node.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// What a burst has touched goes back to the kernel, but not between two bursts.
func TestIdleShardReturnsMemory(t *testing.T) {
	memory, err := arena.NewLocal(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	memory.Get(1 << 20).Release()
	touched := memory.Gauges().TouchedBytes
	if touched == 0 {
		t.Fatal("nothing was touched")
	}
	l := &Loop{memory: []*arena.Local{memory}, workedAt: 1}
	if l.trim(int64(trimIdle)); memory.Gauges().TouchedBytes != touched {
		t.Error("returned too early")
	}
	if l.trim(int64(trimIdle) + 1); memory.Gauges().TouchedBytes != 0 {
		t.Errorf("%d bytes are still touched", memory.Gauges().TouchedBytes)
	}
}

func TestPoolIsBounded(t *testing.T) {
	pool := NewPool(1)
	waker := &countingWaker{}
	w := pool.Workers(waker)
	gate := make(chan struct{})
	taken := 0
	for range jobsPerShardMax + 10 {
		if w.Submit(&gateJob{gate: gate}) {
			taken++
		}
	}
	if taken != jobsPerShardMax {
		t.Errorf("took %d jobs", taken)
	}
	close(gate)
	done := 0
	for deadline := time.Now().Add(10 * time.Second); done < taken && time.Now().Before(deadline); runtime.Gosched() {
		done += w.reap(func(j core.Job) { j.Done() })
	}
	if done != taken || w.taken != 0 || w.ready() {
		t.Errorf("%d of %d came back", done, taken)
	}
	pool.Close()
}

type gateJob struct{ gate chan struct{} }

func (j *gateJob) Run()  { <-j.gate }
func (j *gateJob) Done() {}

type countingWaker struct{}

func (w *countingWaker) Kick()     {}
func (w *countingWaker) Announce() {}
func (w *countingWaker) Retract()  {}
func (w *countingWaker) FD() int   { return -1 }

func TestSpinnerAdapts(t *testing.T) {
	s := newSpinner(spinLong)
	for range 20 {
		s.vain()
	}
	if s.current != 0 {
		t.Errorf("still spins %d ns on an idle shard", s.current)
	}
	s.parked(int64(time.Second))
	if s.current != 0 {
		t.Error("a long park is no reason to spin")
	}
	for range 20 {
		s.parked(int64(spinLong) / 2)
	}
	if s.current != int64(spinLong) {
		t.Errorf("spins %d ns although parks are short", s.current)
	}
}

// The tail cache keeps slabs of the arena that batches come in through. One slab
// pins its whole block of memory to one size, so that few of them can keep every
// batch of another size out: the shard has to give some up when it is told.
func TestStarvedReactorIsRelieved(t *testing.T) {
	node, reactors := startNode(t, memDisks{mem.New()}, testConfig(1, 1), nil)
	r := reactors[0]
	partition := r.create("t", 1).Partitions[0].ID
	link := node.Links[0][0]
	const large, small = 512 << 10, 128 << 10
	var slabs []*core.Slab
	for slab := link.Arena.Get(large); slab != nil; slab = link.Arena.Get(large) {
		slabs = append(slabs, slab)
	}
	var sent []uint64
	for i, slab := range slabs {
		if i%4 == 0 { // one of each block
			sent = append(sent, r.produceIn(partition, strings.Repeat("x", 300<<10), slab))
		} else {
			link.Arena.Discard(slab)
		}
	}
	for _, id := range sent {
		if a := r.answer(id); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if link.Arena.Get(small) != nil {
		t.Fatal("the blocks were to be pinned")
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if slab := link.Arena.Get(small); slab != nil {
			link.Arena.Discard(slab)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the arena has no memory for another size, and nobody frees any")
		}
		link.Starved.Store(true)
		link.Shard.Kick()
	}
	if err := node.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
}
