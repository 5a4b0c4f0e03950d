package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// forgetAll is a loss of power that leaves nothing that was not synced, names included.
var forgetAll = mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop}

// A process that is killed leaves names that are seen and not durable. The next one
// makes them so before it stores anything under them.
func TestNamesOfAKilledProcessBecomeDurable(t *testing.T) {
	for seed := range uint64(10) {
		r := newRig(t, nil)
		o := r.serve(16)[0]
		// The segment is there with its header, its folder is not synced: its first write waits.
		slow := r.fs.Inject(&mem.Fault{Kind: core.DiskSyncDir, Path: o.log.id.dir(), Action: mem.FaultDelay, Delay: 1 << 40, Count: -1})
		for i := 0; i < 20 && slow.Hits() == 0; i++ {
			o.append(1, 100<<10)
			for range 20 {
				r.turn()
			}
		}
		if slow.Hits() == 0 {
			t.Fatal("no segment was begun")
		}
		acked := o.log.DurableOffset()
		r.fs.ClearFaults()
		r.kill(seed)
		o = r.open(16)
		r.store.Start()
		for range 10 { // the segment has its name now, so that they go straight to it
			o.append(1, 100<<10)
			r.settle()
		}
		end := o.log.DurableOffset()
		if end != o.log.EndOffset() || end <= acked {
			t.Fatalf("durable up to %d of %d, before the kill up to %d", end, o.log.EndOffset(), acked)
		}
		r.crash(seed, forgetAll)
		o = r.open(16)
		if o.log.EndOffset() != end {
			t.Fatalf("seed %d: the log ends at %d after the loss of power; acked up to %d", seed, o.log.EndOffset(), end)
		}
	}
}

// The same of the files that say which layout counts, before anything follows from them.
func TestLayoutOfAKilledProcessBecomesDurable(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(3, 100)
	r.settle()
	r.stop()
	r.fs.Inject(&mem.Fault{Kind: core.DiskSyncDir, Path: MetaDir})
	if err := r.tryStart(); err == nil {
		t.Error("a start went on although the names in meta/ could not be made durable")
	}
	if err := r.tryStart(); err != nil {
		t.Error(err)
	}
}
