package reactor

import (
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/shard"
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
	slots   slots
	pool    *Pool
	wakers  []waker
	letters [][]*ring.SPSC[mail.Letter] // [from][to]
	loops   []*Loop                     // each is set by its thread, under mu until the start is over
	arenas  []memory

	topicIDs func() core.TopicID
	// startSyncs is how many files each shard syncs at a time while it starts.
	startSyncs int

	threads  sync.WaitGroup
	mu       sync.Mutex
	locals   []memory // the shards' own arenas; each is closed by its thread
	failure  error
	failed   chan struct{} // closed with the first failure
	finished chan struct{} // closed when every thread has ended
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

// waker is a ring.Waker, or what stands for one where there are no threads.
type waker interface {
	core.Waker
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
