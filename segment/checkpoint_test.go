package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// recycleAll drives the journal with another log until every file that is in use now
// has been recycled.
func (r *rig) recycleAll(driver *rigOwner) {
	r.t.Helper()
	want := r.store.stats.JournalRecycles + uint64(len(r.store.journal.live))
	for i := 0; r.store.stats.JournalRecycles < want; i++ {
		driver.append(2, 3000)
		r.turn()
		if i > 20_000 {
			r.t.Fatalf("%d files recycled, want %d", r.store.stats.JournalRecycles, want)
		}
	}
	r.settle()
}

// staleRig is a log whose failed segment still holds frames behind its durable
// point, with higher indexes than any frame of the generation that came after.
func staleRig(t *testing.T) (r *rig, o, driver *rigOwner) {
	r = newRig(t, nil)
	owners := r.serve(16, 17)
	o = owners[0]
	o.append(1, 100<<10) // makes the segment
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: segmentPath(16, 0, 1)})
	for range 5 {
		o.append(1, 70<<10) // one chain of writes, whose sync fails
	}
	r.until("the roll back", func() bool { return len(o.rolled) == 1 })
	if fault.Hits() != 1 || o.log.EndOffset() != 2 {
		t.Fatalf("%d faults, the log ends at %d", fault.Hits(), o.log.EndOffset())
	}
	o.append(1, 10)
	r.settle()
	return r, o, owners[1]
}

// staysDiscarded kills, which keeps what no sync has seen, and requires the log to
// come back as it was.
func staysDiscarded(t *testing.T, r *rig, o *rigOwner) {
	t.Helper()
	if len(o.log.segments) != 1 {
		t.Fatalf("%d segments: the frames behind the failure were to stay in the journal", len(o.log.segments))
	}
	c := r.branch(r.fs.Kill(1))
	got := c.reopen(16)[0]
	if got.log.EndOffset() != 3 || got.sum != o.sum || len(got.log.Damaged()) > 0 {
		t.Fatalf("the log ends at %d, want 3; damaged %+v", got.log.EndOffset(), got.log.Damaged())
	}
	got.history = o.history
	got.check(0)
}

// Frames of a lower generation are discarded from where the next one begins, also
// those that no frame of it stands beside: its record says so.
func TestGenerationRecordDiscardsWhatNoFrameReplaces(t *testing.T) {
	r, o, _ := staleRig(t)
	staysDiscarded(t, r, o)
}

// The checkpoint repeats a partition's generation and where it begins: what was
// discarded stays so when the journal file that held the generation's record has
// been recycled.
func TestCheckpointRepeatsTheGeneration(t *testing.T) {
	r, o, driver := staleRig(t)
	r.recycleAll(driver)
	staysDiscarded(t, r, o)
}

// The checkpoint repeats what is known durable: when the last frames of a segment
// are hurt after its journal files were recycled, that is damage and no torn tail.
func TestCheckpointRepeatsTheDurablePoint(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	o := owners[0]
	o.append(1, 10)
	r.settle()
	for range 3 {
		o.append(1, 100<<10)
		r.settle()
	}
	r.recycleAll(owners[1])
	g := o.log.active()
	c := r.branchAfter(func(r *rig) { r.patch(g.path, g.position-50<<10, []byte("damage")) })
	if c.store.Clean() {
		t.Fatal("a kill is called clean")
	}
	got := c.reopen(16)[0]
	if got.log.EndOffset() != 4 {
		t.Fatalf("the log ends at %d, 4 was durable", got.log.EndOffset())
	}
	_, err := got.read(3, 4, 1<<20)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Start != 3 || corrupt.Next != 4 {
		t.Fatalf("reading the hurt offset: %v", err)
	}
	if _, err := got.read(0, 3, 1<<20); err != nil {
		t.Fatalf("what lies before: %v", err)
	}
}

// A file is free only when the checkpoint that replaces it is durable, also while no
// topic asks for a sync.
func TestRecyclingWaitsForItsCheckpoint(t *testing.T) {
	r, owners := batchRig(t, 16, 17)
	quiet, driver := owners[0], owners[1]
	quiet.appendAt(core.DurabilitySync, 3, 50)
	r.settle()
	durable := quiet.log.DurableOffset()
	cuts, wait := 0, 0
	for i := 0; r.store.stats.JournalRecycles < 6; i++ {
		if i > 20_000 {
			t.Fatalf("%d recycles", r.store.stats.JournalRecycles)
		}
		driver.append(2, 3000)
		r.turn()
		if r.store.journal.recycle.file != nil || r.store.journal.prepare.busy {
			wait = 3 // and a little longer: what was in flight has happened then
		}
		if wait == 0 {
			continue
		}
		wait--
		cuts++
		c := r.branch(r.fs.Crash(1, dropAll))
		if o := c.open(16); o.log.EndOffset() < durable || len(o.log.Damaged()) > 0 {
			t.Fatalf("turn %d, %d recycles: the log ends at %d, %d was durable; damaged %+v", i, r.store.stats.JournalRecycles, o.log.EndOffset(), durable, o.log.Damaged())
		}
	}
	if cuts < 6 {
		t.Fatalf("%d power cuts tried", cuts)
	}
}
