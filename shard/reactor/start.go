package reactor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
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
	// SegmentFiles is how many segments each shard keeps open; 0 leaves it to the store.
	SegmentFiles int
	// Stop gives the start up when it is closed; nil never does.
	Stop <-chan struct{}
}

// ErrStopped is the end of a start that was given up. The next one begins anew.
var ErrStopped = errors.New("stopped while starting")

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

// startSyncs is how many files a shard syncs at a time while it starts. Syncs that are in
// flight together share the work of the file system's journal and the flush of the disk.
const startSyncs = 16

// slots are the sizes of the rings.
type slots struct{ requests, answers, letters int }

// Start recovers the data folder and returns when the node serves: all
// partitions that can be opened are, and the first view is published.
func Start(o Options) (*Node, error) {
	n := newNode(o)
	n.startSyncs = startSyncs
	if err := n.openFolder(nil); err != nil {
		return nil, err
	}
	for range o.Config.Broker.Shards {
		waker, err := ring.NewWaker()
		if err != nil {
			n.release()
			return nil, err
		}
		n.wakers = append(n.wakers, waker)
	}
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

func newNode(o Options) *Node {
	return &Node{
		options: o, Views: &mail.Views{}, failed: make(chan struct{}), finished: make(chan struct{}),
		budget: share(o.Config), slots: slots{requestRingSlots, answerRingSlots, letterRingSlots}, topicIDs: randomTopicID,
	}
}

// openFolder opens the data folder, or makes it. random gives its identity; nil is crypto/rand.
func (n *Node) openFolder(random io.Reader) error {
	config := n.options.Config
	folder, err := segment.OpenFolder(n.options.Disks.FS(), segment.FolderOptions{
		Shards: config.Broker.Shards, JournalBytes: int64(config.Storage.JournalSize),
		JournalFileBytes: int64(config.Storage.JournalFileSize), Log: n.options.Log, Rand: random,
	})
	if err != nil {
		return fmt.Errorf("open the data folder: %w", err)
	}
	n.folder, n.ClusterID, n.Incarnation = folder, folder.ClusterID, folder.Incarnation
	return nil
}

// wire makes the rings and arenas between all threads; the wakers are there.
func (n *Node) wire() error {
	shards, reactors := n.options.Config.Broker.Shards, n.options.Config.Broker.Reactors
	for range reactors {
		links := make([]*mail.Link, shards)
		for i := range links {
			memory, err := arena.New(n.budget.ingest)
			if err != nil {
				return fmt.Errorf("reserve memory for batches: %w", err)
			}
			n.arenas = append(n.arenas, memory)
			links[i] = &mail.Link{
				Requests: ring.NewSPSC[mail.Request](n.slots.requests),
				Answers:  ring.NewSPSC[mail.Answer](n.slots.answers),
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
				n.letters[from][to] = ring.NewSPSC[mail.Letter](n.slots.letters)
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
		n.mu.Lock() // a shard may be on its way still; it finds the gates closed
		for _, l := range n.loops {
			if l != nil {
				l.abandon()
			}
		}
		n.mu.Unlock()
		<-n.finished
		n.pool.Close()
		n.release()
	}
	return err
}

func (n *Node) bringUp(steps *steps) error {
	if err := steps.wait(n.options.Stop); err != nil { // journals replayed, metadata recovered
		return err
	}
	metadata, err := n.recovered()
	if err != nil {
		return err
	}
	steps.metadata = metadata
	steps.open(stepPartitions)
	if err := steps.wait(n.options.Stop); err != nil { // partitions open, stores started
		return err
	}
	n.reportUnavailable()
	steps.open(stepServe)
	return steps.wait(n.options.Stop) // every shard has taken its first turns, the node is registered
}

// recovered is between the journals and the partitions: what the metadata says is
// there, and what it does not know is put aside.
func (n *Node) recovered() (*cluster.Metadata, error) {
	home := n.loops[core.ShardOf(core.MetadataPartition, len(n.loops))].machine
	metadata := home.Metadata().Clone()
	for _, fault := range metadata.Faults() {
		n.options.Log.Warn("a stored topic setting is not allowed any more and is left out", "fault", fault.Error())
	}
	metadata.View() // is made by the first call, and every shard's thread reads it from here on
	return metadata, n.sortOut(metadata)
}

func (n *Node) reportUnavailable() {
	slices.SortFunc(n.Unavailable, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	for _, err := range n.Unavailable {
		n.options.Log.Error("a partition cannot serve", "error", err)
	}
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

func (n *Node) progress(p Progress) {
	if n.options.Progress != nil {
		n.options.Progress(p)
	}
}
