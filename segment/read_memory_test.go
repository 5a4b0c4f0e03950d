package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/arena"
)

// A producer's tails take whatever memory comes free. A reader of records that are no more in memory gets on all the
// same: reads have some for themselves, and give it back for the next.
func TestReadsHaveMemoryOfTheirOwn(t *testing.T) {
	shared, err := arena.NewLocal(32 << 20)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := arena.NewLocal(core.SlabBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *rigOptions) { o.slabs = shared })
	o := r.serve(16)[0]
	for range 8 {
		o.append(1, 300<<10) // direct writes: in the segment
		r.settle()
	}
	history := o.history
	r.stop()
	r.start()
	o = r.open(16)
	o.history = history
	r.store.Start()
	r.settle()
	// What tails hold: pieces of every block, so that none is free for a read.
	var held []*core.Slab
	for slab := shared.Get(core.SlabBytesMin); slab != nil; slab = shared.Get(core.SlabBytesMin) {
		held = append(held, slab)
	}
	if _, err := o.read(0, o.log.EndOffset(), 1<<20); !errors.Is(err, ErrStoreBusy) {
		t.Fatalf("with all memory in use, and none for reads alone: %v, want %v", err, ErrStoreBusy)
	}
	r.store.ports.ReadSlabs = reads
	for range 3 {
		o.checkFrom(0, 1<<20)
	}
	if n := reads.Gauges().InUseBytes; n != 0 {
		t.Errorf("%d bytes did not come home", n)
	}
	if r.store.Stats().ReadsDisk < 3 {
		t.Errorf("%d reads of the disk: nothing was tried", r.store.Stats().ReadsDisk)
	}
	for _, slab := range held {
		slab.Release()
	}
}
