package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// Large batches stay in the slabs that they came in, which are the reactors'. The
// cache gives them back when a reactor runs short, though its own budget is far
// from used: nothing could come in any more that would make it.
func TestReleaseSlabs(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.CacheBytes = 1 << 40 })
	owners := []*rigOwner{r.create(20), r.create(21)}
	r.store.Start()
	const each = 8
	for range each {
		for _, o := range owners {
			o.append(3, 100) // so that other chunks lie between
			o.append(1, 100<<10)
		}
		r.settle()
	}
	held := r.store.cache.directBytes
	if held < 2*each*100<<10 {
		t.Fatalf("the cache counts %d bytes of %d batches of 100 KiB", held, 2*each)
	}
	for step := 0; r.store.cache.directBytes > 0; step++ {
		if step > 20 {
			t.Fatalf("%d bytes of slabs are still held after %d releases", r.store.cache.directBytes, step)
		}
		before := r.store.cache.directBytes
		r.store.ReleaseSlabs()
		r.settle()
		if after := r.store.cache.directBytes; after > before/2+256<<10 {
			t.Fatalf("release %d left %d of %d bytes", step, after, before)
		}
	}
	for _, o := range owners {
		o.check(0)
	}
}

// Batches that the journal holds and no segment yet are made durable in their segments.
func TestReleaseSlabsFlushes(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.FlushBytes = 1 << 30 })
	var owners []*rigOwner
	for i := range directFilesMax + 4 {
		owners = append(owners, r.create(core.PartitionID(20+i)))
	}
	r.store.Start()
	for _, o := range owners { // in one turn: so many partitions go through the journal
		o.append(1, 70<<10)
	}
	r.settle()
	unsealed := 0
	for _, o := range owners {
		if o.log.chunks.last().state != chunkSealed {
			unsealed++
		}
	}
	if unsealed == 0 {
		t.Fatal("every batch went straight to its segment: there is nothing to see here")
	}
	for range 20 {
		r.store.ReleaseSlabs()
		r.settle()
	}
	if n := r.store.cache.directBytes; n != 0 {
		t.Fatalf("%d bytes of slabs are held after every release", n)
	}
	for _, o := range owners {
		o.check(0)
	}
}
