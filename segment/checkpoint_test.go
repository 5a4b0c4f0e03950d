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

// The checkpoint repeats a partition's generation and where it begins: frames of a
// lower one that stand behind the end of a failed segment stay discarded when the
// journal file that held the generation's record has been recycled.
func TestCheckpointRepeatsTheGeneration(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	o := owners[0]
	o.append(1, 10)
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
	want, sum, index := o.history, o.sum, o.log.LastIndex()
	r.recycleAll(owners[1])
	if len(o.log.segments) != 1 || o.log.LastIndex() != index {
		t.Fatalf("%d segments: the frames behind the failure were to stay in the journal", len(o.log.segments))
	}
	c := r.branch(r.fs.Kill(1)) // keeps what no sync has seen
	got := c.reopen(16)[0]
	if got.log.EndOffset() != 3 || got.sum != sum || len(got.log.Damaged()) > 0 {
		t.Fatalf("the log ends at %d, want 3; damaged %+v", got.log.EndOffset(), got.log.Damaged())
	}
	got.history = want
	got.check(0)
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
	cuts := 0
	for i := 0; r.store.stats.JournalRecycles < 6; i++ {
		if i > 20_000 {
			t.Fatalf("%d recycles", r.store.stats.JournalRecycles)
		}
		driver.append(2, 3000)
		r.turn()
		if r.store.journal.recycle.file == nil && !r.store.journal.prepare.busy {
			continue
		}
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
