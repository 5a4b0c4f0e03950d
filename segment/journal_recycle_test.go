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
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 20, Count: -1})
	owners := r.serve(1, 2)
	o, busy := owners[0], owners[1]
	o.append(1, 100)
	k := &r.store.journal.recycle
	for i := 0; !k.ready || k.file.number != 1; i++ {
		if i > 20_000 {
			t.Fatal("the first file is not recycled")
		}
		_ = busy.tryAppend(1, 50<<10, core.DurabilitySync)
		r.turn()
	}
	if o.log.DurableOffset() != 1 || o.log.sealed.Index != 0 {
		t.Fatalf("durable %d, sealed %d: the frame is not to be copied", o.log.DurableOffset(), o.log.sealed.Index)
	}
	// The next batches take the journaled one along to the segment, whose disk is slow.
	slow := r.fs.Inject(&mem.Fault{Path: "topics/*", Action: mem.FaultDelay, Delay: 1000, Count: -1})
	o.append(1, 100)
	o.append(1, 200<<10)
	recycles := r.store.Stats().JournalRecycles
	for range 300 {
		r.turn()
	}
	if slow.Hits() == 0 {
		t.Fatal("nothing was on its way to the segment")
	}
	crashed := *r
	crashed.ops = nil
	crashed.crash(7, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if after := crashed.open(1); len(after.history) == 0 {
		t.Fatalf("an acked batch went with its journal file: %d recycled meanwhile", r.store.Stats().JournalRecycles-recycles)
	}
	r.fs.ClearFaults()
	r.until("the recycling", func() bool { return r.store.Stats().JournalRecycles > recycles })
}
