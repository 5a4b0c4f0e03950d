package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A log whose segment failed rests before it tries again. A stop in that time
// stores what was appended meanwhile, or rolls it back: it never leaves it behind a
// clean mark, after which its offsets would be used again in the same epoch.
func TestStopDuringTheRestAfterAFailure(t *testing.T) {
	for _, level := range []core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone} {
		for _, failing := range []bool{false, true} {
			r := newRig(t, func(o *rigOptions) { o.log.Durability = level })
			o := r.serve(16)[0]
			o.append(1, 100<<10) // makes the segment
			r.settle()
			r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*"})
			o.append(1, 100<<10)
			r.until("the rollback", func() bool { return len(o.rolled) > 0 })
			r.store.Flush(r.clock.mono)
			o.append(1, 100)
			r.settle()                                     // the new term is open
			o.append(1, r.store.journal.frameBytesMax()+1) // too large for the journal: waits for the rest to end
			o.append(1, 100)
			r.turn()
			if failing {
				r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*", Count: -1})
			}
			rolled := len(o.rolled)
			r.stop()
			if failing != (len(o.rolled) > rolled) {
				t.Errorf("%v, failing %v: rolled back %d times before the stop, %d after", level, failing, rolled, len(o.rolled))
			}
			history, end := o.history, o.log.EndOffset()
			r.fs.ClearFaults()
			r.kill(0)
			if !r.store.Clean() {
				t.Errorf("%v, failing %v: the stop was not clean", level, failing)
			}
			o = r.open(16)
			if len(o.history) != len(history) || o.log.EndOffset() != end {
				t.Errorf("%v, failing %v: %d batches up to %d came back, want %d up to %d", level, failing, len(o.history), o.log.EndOffset(), len(history), end)
			}
		}
	}
}

// The disk is full, the journal too, and nothing can be moved to segments: the stop
// rolls back what was not stored and ends, with a clean mark.
func TestStopOnAFullDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.FlushBytes = 16 << 20 })
	owners := r.serve(16, 17, 18)
	for _, o := range owners {
		o.append(1, 100)
	}
	r.settle()
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*", Count: -1, Err: core.ErrDiskFull})
	for range 400 {
		_ = owners[0].tryAppend(1, 20<<10, core.DurabilitySync)
		r.turn()
		if len(r.store.placeList) > 0 && r.store.journal.inFlight == 0 && !r.store.journal.syncing {
			break
		}
		r.store.full = false // as if the look at the free space saw some
	}
	if len(r.store.placeList) == 0 {
		t.Fatal("the journal still has room")
	}
	r.store.full = false
	owners[1].append(1, 40<<10) // nothing of it is in the files that are to be emptied
	r.store.Stop()
	for i := 0; !r.store.Stopped(); i++ {
		if i > 10_000 {
			t.Fatal("the stop does not end")
		}
		r.turn()
		r.clock.advance(1e6)
		r.store.Tick(r.clock.mono)
	}
	ends := map[core.PartitionID]core.Offset{}
	for _, o := range owners {
		ends[o.id] = o.log.EndOffset()
		if o.log.DurableOffset() != o.log.EndOffset() {
			t.Errorf("partition %d: durable %d of %d", o.id, o.log.DurableOffset(), o.log.EndOffset())
		}
	}
	r.kill(0)
	if !r.store.Clean() {
		t.Error("the stop was not clean")
	}
	for id, end := range ends {
		if got := r.open(id).log.EndOffset(); got != end {
			t.Errorf("partition %d ends at %d, want %d", id, got, end)
		}
	}
}
