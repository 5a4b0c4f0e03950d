package reactor

import (
	"crypto/rand"
	"fmt"
	"math"
	"runtime"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/shard"
)

// thread is one shard from its recovery to its end.
func (n *Node) thread(id core.ShardID, steps *steps) {
	defer n.threads.Done()
	runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
	if cpus := n.options.CPUs; int(id) < len(cpus) {
		if err := pinThread(cpus[id]); err != nil {
			n.options.Log.Warn("a shard runs unpinned", "shard", int(id), "error", err)
		}
	}
	loop, err := n.open(id)
	if err != nil {
		steps.done(err)
		return
	}
	for _, memory := range loop.memory {
		defer closeMemory(memory)
	}
	n.mu.Lock()
	n.loops[id] = loop
	n.mu.Unlock()
	steps.done(nil)
	if steps.passed(stepPartitions) {
		err = n.openPartitions(loop, steps.metadata, steps.abandoned)
		steps.done(err)
	}
	if err == nil && steps.passed(stepServe) {
		err = n.serve(loop, steps)
	}
	if err != nil {
		n.fail(err)
	}
	if err := loop.close(); err != nil {
		n.options.Log.Warn("a shard's disk driver did not close", "shard", int(id), "error", err)
	}
}

// open recovers the shard's journal, and the metadata where it lives.
func (n *Node) open(id core.ShardID) (*Loop, error) {
	config := n.options.Config
	n.progress(Progress{Shard: id, Stage: "journal"})
	driver, err := n.options.Disks.Driver(n.wakers[id])
	if err != nil {
		return nil, fmt.Errorf("shard %d: open its disk driver: %w", id, err)
	}
	memory, err := arena.NewLocal(n.budget.local)
	if err != nil {
		_ = driver.Close()
		return nil, fmt.Errorf("shard %d: reserve its memory: %w", id, err)
	}
	reads, err := arena.NewLocal(n.budget.reads)
	if err != nil {
		closeMemory(memory)
		_ = driver.Close()
		return nil, fmt.Errorf("shard %d: reserve its memory for reads: %w", id, err)
	}
	n.mu.Lock()
	n.locals = append(n.locals, memory, reads)
	n.mu.Unlock()
	workers := n.pool.Workers(n.wakers[id])
	store, err := segment.OpenStore(n.folder, id, segment.Ports{
		Disk: driver, FS: n.options.Disks.FS(), Clock: n.options.Clock, Workers: workers, Slabs: memory, ReadSlabs: reads, Log: n.options.Log,
	}, n.storeOptions())
	if err != nil {
		_ = driver.Close()
		return nil, fmt.Errorf("shard %d: recover its journal: %w", id, err)
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
		Store: store, Clock: n.options.Clock, Workers: workers, Slabs: memory, Out: out, View: n.Views.Load, TopicIDs: n.topicIDs,
	}, n.machineOptions(id))
	loop := &Loop{
		id: id, machine: m, driver: driver, waker: n.wakers[id], workers: workers, memory: []*arena.Local{memory, reads}, clock: n.options.Clock,
		links: links, letters: in, out: out,
	}
	spin := spinMax(runtime.NumCPU(), shards+reactors)
	loop.spin = newSpinner(spin)
	loop.spinLimit.Store(int64(spin))
	if core.ShardOf(core.MetadataPartition, shards) == id {
		n.progress(Progress{Shard: id, Stage: "metadata"})
		if err := m.OpenMetadata(); err != nil {
			_ = driver.Close()
			return nil, err
		}
	}
	return loop, nil
}

func randomTopicID() (id core.TopicID) {
	_, _ = rand.Read(id[:]) // crypto/rand does not fail: it ends the process instead
	return id
}

func (n *Node) storeOptions() segment.Options {
	storage := &n.options.Config.Storage
	scrub := int64(storage.ScrubInterval)
	if scrub == math.MaxInt64 {
		scrub = -1
	}
	return segment.Options{
		ScrubBytesPerSecond: max(int64(storage.ScrubRate)/int64(n.options.Config.Broker.Shards), 1), ScrubNanos: scrub,
		CacheBytes: n.budget.cache, OpenFiles: n.options.SegmentFiles, FreeBytesLow: int64(storage.MinFree), FlushBytes: int64(storage.FlushBytes),
		Together: n.together, RetainNanos: int64(storage.RetentionInterval), CompactNanos: int64(storage.CompactionInterval), ClockJumpNanos: int64(storage.ClockJumpMax),
	}
}

func (n *Node) machineOptions(id core.ShardID) shard.Options {
	c := n.options.Config
	return shard.Options{
		Shard: id, Shards: c.Broker.Shards, Reactors: c.Broker.Reactors, MemoryBytes: n.budget.hold,
		FetchBytesMax: int(c.Consumer.MaxFetchBytes), FetchRecordsMax: c.Consumer.MaxFetchMessages, FetchWaitMax: c.Consumer.MaxFetchWait,
		BatchRecordsMax: c.Producer.MaxBatchSize, ProducerExpiry: c.Producer.Expiry, OffsetsRetention: c.Offsets.Retention,
		Incarnation: n.folder.Incarnation,
		Rules: cluster.Rules{
			Node: c.Broker.NodeID, PartitionsDefault: uint32(c.Partitions.DefaultCount), ReplicasDefault: uint16(c.Replication.Factor),
		},
		Metadata: cluster.Options{ClusterID: n.folder.ClusterID, Defaults: c.TopicDefaults()},
	}
}

// openTogether is how many partitions are opened between two reports, and how many
// have their files synced together.
const openTogether = 64

// openPartitions opens the shard's partitions. One that cannot be opened is
// reported and answers PARTITION_UNAVAILABLE; the others serve.
func (n *Node) openPartitions(l *Loop, metadata *cluster.Metadata, abandoned func() bool) error {
	shards := len(n.loops)
	var mine []shard.Place
	metadata.View().TopicsAfter("", func(t *core.Topic) bool {
		for number, p := range t.Partitions {
			if core.ShardOf(p.ID, shards) == l.id {
				mine = append(mine, shard.Place{Topic: t, Number: core.PartitionNumber(number)})
			}
		}
		return true
	})
	for done := 0; done < len(mine); {
		if abandoned() {
			return ErrStopped
		}
		some := mine[done:min(done+openTogether, len(mine))]
		l.machine.Open(some, func(err error) {
			n.mu.Lock()
			n.Unavailable = append(n.Unavailable, err)
			n.mu.Unlock()
		})
		done += len(some)
		n.progress(Progress{Shard: l.id, Stage: "partitions", Partitions: done, Total: len(mine)})
	}
	return l.machine.Serve(func(id core.PartitionID) bool {
		_, _, state := metadata.Partition(id)
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
