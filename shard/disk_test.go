package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// testFolder is a node's data folder in memory.
type testFolder struct {
	fs     *mem.FS
	folder *segment.Folder
}

// testDisk is one shard's driver on it.
type testDisk struct {
	folder *testFolder
	shard  core.ShardID
	driver *mem.Driver
	store  *segment.Store
	ops    []*core.DiskOp
	null   *nullDisk // nil: the driver
}

// seeded gives the same salts in every run.
type seeded struct{ r *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.r.Uint32())
	}
	return len(p), nil
}

func openTestDisks(t testing.TB, fs *mem.FS, shards int) []*testDisk {
	f := &testFolder{fs: fs}
	var err error
	f.folder, err = segment.OpenFolder(fs, segment.FolderOptions{
		Shards: shards, JournalFileBytes: segment.JournalFileBytesMin, JournalBytes: 8 * segment.JournalFileBytesMin,
		Rand: seeded{rand.New(rand.NewPCG(1, 2))},
	})
	if err != nil {
		t.Fatal(err)
	}
	var disks []*testDisk
	for i := range shards {
		disks = append(disks, &testDisk{folder: f, shard: core.ShardID(i), ops: make([]*core.DiskOp, 64)})
	}
	return disks
}

func newMemFS() *mem.FS { return mem.New() }

func (d *testDisk) open(n *node, workers core.Workers) *segment.Store {
	d.driver = d.folder.fs.Driver(mem.DriverOptions{})
	disk := core.Disk(d.driver)
	if n.null != nil {
		d.null = n.null.disk
		disk = d.null
	}
	options := n.store
	options.FreeBytesLow, options.FreeBytesHigh = 1, 2
	if n.null != nil {
		options.CacheBytes = nullCacheBytes
	}
	store, err := segment.OpenStore(d.folder.folder, d.shard, segment.Ports{
		Disk: disk, FS: d.folder.fs, Clock: n.clock, Workers: workers, Slabs: n.slabs(),
	}, options)
	if err != nil {
		n.t.Fatal(err)
	}
	d.store = store
	return store
}

// reap ends what is due and says whether there was something.
func (d *testDisk) reap(m *Machine) bool {
	if d.null != nil {
		return d.null.reap(m) > 0
	}
	n := d.driver.Reap(d.ops)
	for _, op := range d.ops[:n] {
		m.Complete(op)
	}
	return n > 0
}

func (d *testDisk) pending() bool { return d.driver.Pending() > 0 }

// crash cuts the power: what was not durable is gone as the options say. The
// node starts again on what is left.
func (n *node) crash(seed uint64, options mem.CrashOptions) {
	n.t.Helper()
	n.restart(n.disks[0].folder.fs.Crash(seed, options))
}

// restart starts the node on a file system.
func (n *node) restart(fs *mem.FS) {
	n.t.Helper()
	shards := len(n.machines)
	for i := range n.incoming {
		n.incoming[i] = nil
	}
	n.view, n.held = nil, false
	n.disks = openTestDisks(n.t, fs, shards)
	n.start(shards)
}

// stop ends the node cleanly.
func (n *node) stop() {
	n.t.Helper()
	for _, m := range n.machines {
		m.Stop()
	}
	for range 10_000 {
		n.turn()
		stopped := true
		for _, m := range n.machines {
			stopped = stopped && m.Stopped()
		}
		if stopped {
			return
		}
	}
	n.t.Fatal("the node does not stop")
}
