package reactor

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/shard"
)

// Disks is the data folder: its blocking view and the drivers of the shards.
type Disks interface {
	FS() core.FS
	// Driver makes a driver for the calling thread, which is locked to its goroutine.
	Driver(core.Waker) (core.DiskDriver, error)
}

// Options make a node's shards.
type Options struct {
	Config *core.Config
	Disks  Disks
	Clock  core.Clock
	Log    *slog.Logger
	// CPUs says on which processor each shard runs; nil leaves it to the kernel.
	CPUs []int
	// Progress is told how far the start has come, from several threads. May be nil.
	Progress func(Progress)
}

// Progress says how far a start has come.
type Progress struct {
	Shard      core.ShardID
	Stage      string // "journal", "metadata", "partitions", "ready"
	Partitions int    // opened so far on this shard
	Total      int
}

const (
	requestRingSlots = 4096
	answerRingSlots  = 8192
	letterRingSlots  = 1024
)

// Node is the shards of this process.
type Node struct {
	// Links by reactor and shard are what a server of reactors is made with.
	Links [][]*mail.Link
	Views *mail.Views
	// ClusterID and Incarnation are those of the data folder.
	ClusterID   string
	Incarnation [16]byte
	// Unavailable are the partitions that could not be opened, one line each.
	Unavailable []error

	options Options
	folder  *segment.Folder
	budget  budget
	pool    *Pool
	wakers  []*ring.Waker
	letters [][]*ring.SPSC[mail.Letter] // [from][to]
	loops   []*Loop
	arenas  []memory

	threads  sync.WaitGroup
	mu       sync.Mutex
	locals   []memory // the shards' own arenas; each is closed by its thread
	failure  error
	failed   chan struct{} // closed with the first failure
	finished chan struct{} // closed when every thread has ended
}

// Start recovers the data folder and returns when the node serves: all
// partitions that can be opened are, and the first view is published.
func Start(o Options) (*Node, error) {
	n := &Node{options: o, Views: &mail.Views{}, failed: make(chan struct{}), finished: make(chan struct{})}
	storage := &o.Config.Storage
	folder, err := segment.OpenFolder(o.Disks.FS(), segment.FolderOptions{
		Shards: o.Config.Broker.Shards, JournalBytes: int64(storage.JournalSize), JournalFileBytes: int64(storage.JournalFileSize), Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	n.folder, n.ClusterID, n.Incarnation = folder, folder.ClusterID, folder.Incarnation
	n.budget = share(o.Config)
	if err := n.wire(); err != nil {
		n.release()
		return nil, err
	}
	n.pool = NewPool(max(1, runtime.NumCPU()/2))
	if err := n.launch(); err != nil {
		return nil, err
	}
	return n, nil
}

// wire makes the wakers, rings and arenas between all threads.
func (n *Node) wire() error {
	shards, reactors := n.options.Config.Broker.Shards, n.options.Config.Broker.Reactors
	for range shards {
		waker, err := ring.NewWaker()
		if err != nil {
			return err
		}
		n.wakers = append(n.wakers, waker)
	}
	for range reactors {
		links := make([]*mail.Link, shards)
		for i := range links {
			memory, err := arena.New(n.budget.ingest)
			if err != nil {
				return fmt.Errorf("reserve memory for batches: %w", err)
			}
			n.arenas = append(n.arenas, memory)
			links[i] = &mail.Link{
				Requests: ring.NewSPSC[mail.Request](requestRingSlots),
				Answers:  ring.NewSPSC[mail.Answer](answerRingSlots),
				Shard:    n.wakers[i], Arena: memory,
			}
		}
		n.Links = append(n.Links, links)
	}
	n.letters = make([][]*ring.SPSC[mail.Letter], shards)
	for from := range n.letters {
		n.letters[from] = make([]*ring.SPSC[mail.Letter], shards)
		for to := range shards {
			if from != to {
				n.letters[from][to] = ring.NewSPSC[mail.Letter](letterRingSlots)
			}
		}
	}
	return nil
}

// launch brings up the threads step by step: all replay their journals, one
// recovers the metadata, all open their partitions, all serve.
func (n *Node) launch() error {
	shards := n.options.Config.Broker.Shards
	n.loops = make([]*Loop, shards)
	steps := newSteps(shards)
	for i := range shards {
		n.threads.Add(1)
		go n.thread(core.ShardID(i), steps)
	}
	go func() {
		n.threads.Wait()
		close(n.finished)
	}()
	err := n.bringUp(steps)
	if err != nil {
		n.fail(err)
		steps.abandon()
		for _, l := range n.loops {
			if l != nil {
				l.abandon()
			}
		}
		<-n.finished
		n.pool.Close()
		n.release()
	}
	return err
}

func (n *Node) bringUp(steps *steps) error {
	if err := steps.wait(); err != nil { // journals replayed, metadata recovered
		return err
	}
	home := n.loops[core.ShardOf(core.MetadataPartition, len(n.loops))].machine
	metadata := home.Metadata().Clone()
	for _, fault := range metadata.Faults() {
		n.options.Log.Warn("a stored topic setting is not allowed any more and is left out", "fault", fault.Error())
	}
	if err := n.sortOut(metadata); err != nil {
		return err
	}
	steps.metadata, steps.view = metadata, metadata.View()
	steps.open(stepPartitions)
	if err := steps.wait(); err != nil { // partitions open, stores started
		return err
	}
	slices.SortFunc(n.Unavailable, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	for _, err := range n.Unavailable {
		n.options.Log.Error("a partition cannot serve", "err", err)
	}
	steps.open(stepServe)
	return steps.wait() // every shard has taken its first turns, the node is registered
}

// sortOut removes the folders of deleted partitions and puts those of unknown
// ones into quarantine.
func (n *Node) sortOut(metadata *cluster.Metadata) error {
	var deleted []string
	_, err := n.folder.QuarantineFolders(func(topic core.TopicID, number core.PartitionNumber, id core.PartitionID) bool {
		if id == core.MetadataPartition || topic == (core.TopicID{}) {
			return topic == core.TopicID{} && (id == 0 || id == core.MetadataPartition)
		}
		if id == 0 { // a folder without a segment: nothing was written into it
			t := metadata.View().TopicByID(topic)
			return t != nil && int(number) < len(t.Partitions)
		}
		t, place, state := metadata.Partition(id)
		if state == cluster.PartitionDeleted {
			deleted = append(deleted, segment.PartitionDir(topic, number))
			return true
		}
		return state == cluster.PartitionLive && t.ID == topic && place == number
	})
	if err != nil {
		return fmt.Errorf("look for folders of unknown partitions: %w", err)
	}
	for _, dir := range deleted {
		if err := n.options.Disks.FS().RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the folder of a deleted partition: %w", err)
		}
	}
	return nil
}

// thread is one shard from its recovery to its end.
func (n *Node) thread(id core.ShardID, steps *steps) {
	defer n.threads.Done()
	runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
	if cpus := n.options.CPUs; int(id) < len(cpus) {
		if err := pinThread(cpus[id]); err != nil {
			n.options.Log.Warn("a shard runs unpinned", "shard", int(id), "err", err)
		}
	}
	loop, memory, err := n.open(id)
	if err != nil {
		steps.done(err)
		return
	}
	defer closeMemory(memory)
	n.loops[id] = loop
	steps.done(nil)
	if steps.passed(stepPartitions) {
		err = n.openPartitions(loop, steps)
		steps.done(err)
	}
	if err == nil && steps.passed(stepServe) {
		err = n.serve(loop, steps)
	}
	if err != nil {
		n.fail(err)
	}
	if err := loop.close(); err != nil {
		n.options.Log.Warn("a shard's disk driver did not close", "shard", int(id), "err", err)
	}
}

// open recovers the shard's journal, and the metadata where it lives.
func (n *Node) open(id core.ShardID) (*Loop, *arena.Local, error) {
	config := n.options.Config
	n.progress(Progress{Shard: id, Stage: "journal"})
	driver, err := n.options.Disks.Driver(n.wakers[id])
	if err != nil {
		return nil, nil, fmt.Errorf("shard %d: open its disk driver: %w", id, err)
	}
	memory, err := arena.NewLocal(n.budget.local)
	if err != nil {
		_ = driver.Close()
		return nil, nil, fmt.Errorf("shard %d: reserve its memory: %w", id, err)
	}
	n.mu.Lock()
	n.locals = append(n.locals, memory)
	n.mu.Unlock()
	workers := n.pool.Workers(n.wakers[id])
	store, err := segment.OpenStore(n.folder, id, segment.Ports{
		Disk: driver, FS: n.options.Disks.FS(), Clock: n.options.Clock, Workers: workers, Slabs: memory, Log: n.options.Log,
	}, n.storeOptions())
	if err != nil {
		_ = driver.Close()
		return nil, nil, fmt.Errorf("shard %d: recover its journal: %w", id, err)
	}
	shards, reactors := config.Broker.Shards, config.Broker.Reactors
	links, in := make([]*mail.Link, reactors), make([]*ring.SPSC[mail.Letter], shards)
	for i := range links {
		links[i] = n.Links[i][id]
	}
	for from := range in {
		in[from] = n.letters[from][id]
	}
	out := newOutlet(links, n.letters[id], n.wakers, n.Views)
	m := shard.New(shard.Ports{
		Store: store, Clock: n.options.Clock, Workers: workers, Slabs: memory, Out: out, TopicIDs: randomTopicID,
	}, n.machineOptions(id))
	loop := &Loop{
		id: id, machine: m, driver: driver, waker: n.wakers[id], workers: workers, clock: n.options.Clock,
		links: links, letters: in, out: out,
	}
	spin := spinMax(runtime.NumCPU(), shards+reactors)
	loop.spin = newSpinner(spin)
	loop.spinLimit.Store(int64(spin))
	if core.ShardOf(core.MetadataPartition, shards) == id {
		n.progress(Progress{Shard: id, Stage: "metadata"})
		if err := m.OpenMetadata(); err != nil {
			_ = driver.Close()
			return nil, nil, err
		}
	}
	return loop, memory, nil
}

func randomTopicID() (id core.TopicID) {
	_, _ = rand.Read(id[:]) // crypto/rand does not fail: it ends the process instead
	return id
}

func (n *Node) storeOptions() segment.Options {
	storage := &n.options.Config.Storage
	return segment.Options{
		CacheBytes: n.budget.cache, FreeBytesLow: int64(storage.MinFree), FlushBytes: int64(storage.FlushBytes),
		RetainNanos: int64(storage.RetentionInterval), CompactNanos: int64(storage.CompactionInterval), ClockJumpNanos: int64(storage.ClockJumpMax),
	}
}

func (n *Node) machineOptions(id core.ShardID) shard.Options {
	c := n.options.Config
	return shard.Options{
		Shard: id, Shards: c.Broker.Shards, Reactors: c.Broker.Reactors, MemoryBytes: n.budget.hold,
		FetchBytesMax: int(c.Consumer.MaxFetchBytes), FetchRecordsMax: c.Consumer.MaxFetchMessages, FetchWaitMax: c.Consumer.MaxFetchWait,
		BatchRecordsMax: c.Producer.MaxBatchSize, ProducerExpiry: c.Producer.Expiry,
		Incarnation: n.folder.Incarnation,
		Rules: cluster.Rules{
			Node: c.Broker.NodeID, PartitionsDefault: uint32(c.Partitions.DefaultCount), ReplicasDefault: uint16(c.Replication.Factor),
		},
		Metadata: cluster.Options{ClusterID: n.folder.ClusterID, Defaults: c.TopicDefaults()},
	}
}

// progressEvery is how many partitions are opened between two reports.
const progressEvery = 100

// openPartitions opens the shard's partitions. One that cannot be opened is
// reported and answers PARTITION_UNAVAILABLE; the others serve.
func (n *Node) openPartitions(l *Loop, steps *steps) error {
	shards := len(n.loops)
	type place struct {
		topic  *core.Topic
		number core.PartitionNumber
	}
	var mine []place
	steps.view.TopicsAfter("", func(t *core.Topic) bool {
		for number, p := range t.Partitions {
			if core.ShardOf(p.ID, shards) == l.id {
				mine = append(mine, place{t, core.PartitionNumber(number)})
			}
		}
		return true
	})
	for i, p := range mine {
		if err := l.machine.Open(p.topic.Partitions[p.number].ID, p.topic, p.number); err != nil {
			n.mu.Lock()
			n.Unavailable = append(n.Unavailable, err)
			n.mu.Unlock()
		}
		if (i+1)%progressEvery == 0 || i+1 == len(mine) {
			n.progress(Progress{Shard: l.id, Stage: "partitions", Partitions: i + 1, Total: len(mine)})
		}
	}
	return l.machine.Serve(func(id core.PartitionID) bool {
		_, _, state := steps.metadata.Partition(id)
		return state != cluster.PartitionUnknown
	})
}

// serve takes turns until the shard stops. The first ones register the node.
func (n *Node) serve(l *Loop, steps *steps) error {
	err := l.machine.Boot()
	for err == nil && !l.machine.Ready() && !l.stopping.Load() {
		if _, err = l.turn(); err == nil {
			err = l.rest()
		}
	}
	steps.done(err)
	if err != nil {
		return err
	}
	n.progress(Progress{Shard: l.id, Stage: "ready"})
	return l.run()
}

func (n *Node) progress(p Progress) {
	if n.options.Progress != nil {
		n.options.Progress(p)
	}
}

// fail notes the first failure. It is fatal: the process must end.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure == nil {
		n.failure = err
		close(n.failed)
	}
}

// Failed is closed when a shard has failed; Err says why. The process must end
// with it: nothing in doubt has been acknowledged.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err is the first failure, or nil.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failure
}

// Stop writes and syncs everything and ends the threads, within a limit. The
// reactors must have stopped sending before.
func (n *Node) Stop(limit time.Duration) error {
	deadline := n.options.Clock.Monotonic() + int64(limit)
	for _, l := range n.loops {
		l.stop(deadline)
	}
	<-n.finished
	n.pool.Close()
	n.release()
	return n.Err()
}

// release gives back what wire took, after the threads have ended.
func (n *Node) release() {
	for _, w := range n.wakers {
		_ = w.Close()
	}
	for _, a := range n.arenas {
		closeMemory(a)
	}
}

// closeMemory returns an arena's address space. One with slabs out is left alone:
// the tail cache and batches that were never answered die with the process.
func closeMemory(a memory) {
	if a.Gauges().InUseBytes == 0 {
		_ = a.Close()
	}
}

type memory interface {
	Gauges() arena.Gauges
	Close() error
}

// Snapshot is the newest counters that a shard has published, nil before the
// first. It asks for fresh ones, for the next call.
func (n *Node) Snapshot(shard int) *shard.Snapshot { return n.loops[shard].Snapshot() }

// Memory adds up the arenas of all threads.
func (n *Node) Memory() arena.Gauges {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum arena.Gauges
	for _, a := range slices.Concat(n.arenas, n.locals) {
		g := a.Gauges()
		sum.ReservedBytes += g.ReservedBytes
		sum.InUseBytes += g.InUseBytes
		sum.TouchedBytes += g.TouchedBytes
	}
	return sum
}
