package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A large batch does not wait until a segment's file is made: the journal has it by then.
func TestLargeBatchesDoNotWaitForAFile(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.SegmentBytes = 1 << 20 })
	o := r.serve(16)[0]
	create := &mem.Fault{Kind: core.DiskCreate, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 1000, Count: -1}
	acked := func(what string) {
		t.Helper()
		hits := create.Hits()
		for range 3 {
			o.append(1, 100<<10)
			r.until(what, func() bool { return o.log.DurableOffset() == o.log.EndOffset() })
		}
		if create.Hits() == hits {
			t.Fatalf("%s: no file is being made", what)
		}
		if g := o.log.active(); g != nil && !g.ended {
			t.Fatalf("%s: the file was there before", what)
		}
	}
	create = r.fs.Inject(create)
	acked("the first segment")
	r.settle() // the file is made, and has what the journal took
	if g := o.log.active(); g == nil || g.lastIndex != o.log.LastIndex() {
		t.Fatal("the segment was not written")
	}
	r.fs.ClearFaults()

	// From then on batches go there and nowhere else, up to its end.
	frames := r.store.stats.DirectFrames
	o.append(1, 100<<10)
	r.settle()
	if r.store.stats.DirectFrames != frames+1 {
		t.Fatal("a large batch went through the journal beside a segment that has room")
	}
	for o.log.active().position+(128<<10) <= o.log.options.SegmentBytes {
		o.append(1, 100<<10)
		r.settle()
	}
	create = r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 1000, Count: -1})
	o.append(1, 100<<10)
	acked("the next segment")
	r.settle()
	r.fs.ClearFaults()
	o.check(0)
	c := r.branch(r.fs.Crash(1, dropAll))
	got := c.reopen(16)[0]
	if got.log.EndOffset() != o.log.EndOffset() || len(got.log.Damaged()) > 0 {
		t.Fatalf("after a power cut the log ends at %d, want %d; damaged %+v", got.log.EndOffset(), o.log.EndOffset(), got.log.Damaged())
	}
}

// While a partition's segment cannot be made, its large batches stay out of the journal, which all partitions share and
// which could not be recycled before they are in a segment.
func TestFileThatCannotBeMadePinsNoJournal(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*.log", Count: -1})
	o.append(1, 100<<10)
	r.until("the failure", func() bool { return o.log.makeFailed })
	r.settle()
	o.append(1, 10) // the term is open again
	r.settle()
	frames := r.store.stats.DirectFrames
	o.append(1, 100<<10)
	r.turn()
	if r.store.stats.DirectFrames != frames+1 {
		t.Error("a large batch went to the journal although its segment cannot be made")
	}
	r.fs.ClearFaults()
	for range 3 {
		r.tick(2e9)
	}
	if o.log.makeFailed || o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("failed %v, durable %d of %d once files can be made", o.log.makeFailed, o.log.DurableOffset(), o.log.EndOffset())
	}
	o.check(0)
}
