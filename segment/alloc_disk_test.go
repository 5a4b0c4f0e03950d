package segment

import (
	"runtime"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// diskBench is a store in a real folder with one log that takes large batches.
type diskBench struct {
	bench
	driver *posix.Driver
	out    []*core.DiskOp
}

func newDiskBench(t *testing.T, o LogOptions, stateBytes int64) *diskBench {
	folder, err := posix.OpenFolder(t.TempDir(), posix.FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waker, err := ring.NewWaker()
	if err != nil {
		t.Fatal(err)
	}
	driver := posix.NewDriver(folder, waker, posix.DriverOptions{OpsMax: 64, FilesMax: 64, Workers: 1})
	t.Cleanup(func() {
		if driver.Pending() == 0 {
			_ = driver.Close()
		}
		_ = waker.Close()
		_ = folder.Close()
	})
	b := &diskBench{bench: bench{slabs: &poolSlabs{}}, driver: driver, out: make([]*core.DiskOp, 64)}
	b.r = &rig{t: t, clock: &rigClock{wall: 1_700_000_000e9, mono: 1e9}}
	data, err := OpenFolder(folder.FS(), smallFolder(1))
	if err != nil {
		t.Fatal(err)
	}
	b.r.store, err = OpenStore(data, 0, Ports{
		Disk: driver, FS: folder.FS(), Clock: b.r.clock, Workers: &b.r.workers, Slabs: b.slabs,
	}, Options{FreeBytesLow: 1, FreeBytesHigh: 2, CacheBytes: 1 << 20, StateBytes: stateBytes, RetainNanos: 1, ScrubNanos: -1})
	if err != nil {
		t.Fatal(err)
	}
	b.logs = []*Log{b.r.store.CreateLog(rigIdentity(16), o, quietOwner{})}
	b.r.store.Start()
	b.batch = makeBatch(250, 1000, 1000, 1)
	b.crc = b.batch.RecordsCRC()
	return b
}

// turn goes on until nothing is in flight.
func (b *diskBench) turn() {
	b.r.clock.advance(1e6)
	s := b.r.store
	s.Tick(b.r.clock.mono)
	for busy := true; busy; {
		s.Flush(b.r.clock.mono)
		for b.driver.Pending() > 0 {
			n := b.driver.Reap(b.out)
			for _, op := range b.out[:n] {
				op.Owner.Complete(op)
			}
			if n == 0 {
				runtime.Gosched()
			}
		}
		busy = len(b.r.workers.jobs) > 0
		for _, j := range b.r.workers.jobs {
			j.Run()
			j.Done()
		}
		b.r.workers.jobs = b.r.workers.jobs[:0]
		busy = busy || b.driver.Pending() > 0 || len(s.kickList) > 0
	}
}

// What a partition costs beside its produce requests: a state file for each
// Options.StateBytes puts nothing on the heap, and the end of a segment, the next one and
// the removal of the oldest a few objects for each LogOptions.SegmentBytes, by default
// some four thousand requests of 256 KB.
func TestStatesAndRollsAllocate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are resolved by os.Root here")
	}
	for _, c := range []struct {
		name     string
		log      LogOptions
		count    func(*Stats) uint64
		most     float64
		warm, of uint64
	}{
		{"state", LogOptions{SegmentBytes: 1 << 40}, func(s *Stats) uint64 { return s.StatesWritten }, 0, 20, 10},
		{"roll", LogOptions{SegmentBytes: 1 << 20, RetentionBytes: 3 << 20}, func(s *Stats) uint64 { return s.Rolls }, 11, 20, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newDiskBench(t, c.log, 1<<20)
			until := func(count uint64) {
				for turns := 0; c.count(&b.r.store.stats) < count; turns++ {
					if turns > 1000 || b.r.store.Err() != nil {
						t.Fatalf("%d of %d after %d turns, %v", c.count(&b.r.store.stats), count, turns, b.r.store.Err())
					}
					b.append(b.logs[0])
					b.turn()
				}
			}
			until(c.warm)
			states := b.r.store.stats.StatesWritten
			n := testing.AllocsPerRun(int(c.of), func() { until(c.count(&b.r.store.stats) + 1) })
			if n > c.most {
				t.Errorf("%v objects, at most %v are allowed", n, c.most)
			}
			if b.r.store.stats.StatesWritten == states {
				t.Error("no state was written")
			}
			t.Logf("%v objects; %d states, %d rolls, %d segments", n, b.r.store.stats.StatesWritten, b.r.store.stats.Rolls, len(b.logs[0].segments))
		})
	}
}
