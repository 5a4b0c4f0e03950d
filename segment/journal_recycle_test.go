package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// The group that carries a file's last checkpoint entry takes a while to reach
// the disk. The turns in between must not gather the entries again: when the file
// has been recycled there is nothing left to gather from.
func TestRecyclingWithASlowDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.driver.LatencyMin, o.driver.LatencyMax = 1, 6 })
	owners := r.serve(1, 2, 3)
	for i := 0; r.store.Stats().JournalRecycles < 4; i++ {
		if i > 20_000 {
			t.Fatalf("the journal is not recycled: %+v", r.store.Stats())
		}
		_ = owners[i%len(owners)].tryAppend(2, 8<<10, core.DurabilitySync) // busy now and then
		r.turn()
		r.store.Tick(r.clock.mono)
	}
	r.settle()
}

// A chunk whose frames were to be copied to the journal's head may be on its way
// to the segment when the head is written. Its file is not free before the
// segment has it.
func TestRecyclingWaitsForWhatTheWriterTook(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(1, 2)
	o, busy := owners[0], owners[1]
	o.append(1, 100)
	r.settle()
	k := &r.store.journal.recycle
	for i := 0; !k.ready; i++ {
		if i > 2000 {
			t.Fatal("nothing is recycled")
		}
		_ = busy.tryAppend(1, 50<<10, core.DurabilitySync)
		r.store.placeDirect()
		for _, l := range r.store.placeList {
			if c := l.chunks.last(); c.frameOpen {
				r.store.frameClose(c)
			}
		}
		r.store.journal.recycleStep()
		if k.ready {
			break
		}
		r.turn()
	}
	// The next batch of the partition takes the journaled one along to the segment,
	// whose disk is slow.
	r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*", Action: mem.FaultDelay, Delay: 1000, Count: -1})
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*", Action: mem.FaultDelay, Delay: 1000, Count: -1})
	o.append(1, 100<<10)
	recycles := r.store.Stats().JournalRecycles
	for range 100 {
		r.turn()
	}
	if r.store.Stats().JournalRecycles > recycles {
		r.crash(7, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		o := r.open(1)
		if len(o.history) == 0 {
			t.Fatal("an acked batch is gone with its journal file")
		}
		return
	}
	r.fs.ClearFaults()
	r.until("the recycling", func() bool { return r.store.Stats().JournalRecycles > recycles })
}
