package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Open tails of quiet partitions cannot be given up and are older than what a busy
// partition writes. However many there are, the cache keeps to its budget.
func TestCacheSeesPastQuietPartitions(t *testing.T) {
	const quiet, budget = 3 * evictLookMax, 16 << 20
	r := newRig(t, func(o *rigOptions) { o.store.CacheBytes = budget })
	ids := make([]core.PartitionID, quiet+1)
	for i := range ids {
		ids[i] = core.PartitionID(i + 1)
	}
	owners := r.serve(ids...)
	for _, o := range owners[1:] {
		if err := o.tryAppend(1, 100, core.DurabilitySync); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	for i := range 4 * budget / (256 << 10) {
		if err := owners[0].tryAppend(1, 250<<10, core.DurabilitySync); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		r.settle()
	}
	if bytes := r.store.Stats().CacheBytes; bytes > budget+budget/4 {
		t.Errorf("%d bytes in the cache, its budget is %d", bytes, budget)
	}
}

// While nobody reads, little of the budget is used; with the first read all of it is.
func TestCacheGrowsForReaders(t *testing.T) {
	const budget, batch = 4 * unreadBytes, 250 << 10
	r := newRig(t, func(o *rigOptions) { o.store.CacheBytes = budget })
	o := r.serve(1)[0]
	fill := func() int64 {
		for range 2 * unreadBytes / batch {
			if err := o.tryAppend(1, batch, core.DurabilitySync); err != nil {
				t.Fatal(err)
			}
			r.settle()
		}
		return r.store.Stats().CacheBytes
	}
	if bytes := fill(); bytes > unreadBytes+unreadBytes/4 {
		t.Errorf("%d bytes are kept for nobody, allowed are about %d", bytes, unreadBytes)
	}
	newest := Read{Log: o.log, Offset: o.log.EndOffset() - 1, Limit: o.log.EndOffset(), BytesMax: 1}
	if !r.store.Read(&newest) || newest.Err != nil || r.store.Stats().ReadsCached != 1 {
		t.Fatalf("the newest record does not come from the cache: %v", newest.Err)
	}
	for _, slab := range newest.Slabs {
		slab.Release()
	}
	if bytes := fill(); bytes < 2*unreadBytes {
		t.Errorf("%d bytes are kept for a reader, of %d", bytes, budget)
	}
}

// Batches that have to wait for their segment do not keep those of others in memory.
func TestCacheIsShedBehindWhatWaits(t *testing.T) {
	const batch = 250 << 10
	r := newRig(t, nil)
	owners := r.serve(1, 2)
	for _, o := range owners {
		o.append(1, 10)
	}
	r.settle()
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: segmentPath(1, 0, 1), Action: mem.FaultDelay, Delay: 20_000, Count: -1})
	waits := owners[0]
	for range 2 * unreadLookMax {
		waits.append(1, 70<<10)
		r.until("the journal", func() bool { return waits.log.DurableOffset() == waits.log.EndOffset() })
	}
	for range 2 * unreadBytes / batch {
		owners[1].append(1, batch)
		r.until("the ack", func() bool { return owners[1].log.DurableOffset() == owners[1].log.EndOffset() })
	}
	if len(waits.log.segments) > 0 {
		t.Fatal("the segment has been made")
	}
	if bytes := r.store.Stats().CacheBytes; bytes > unreadBytes+unreadBytes/2 {
		t.Errorf("%d bytes are kept for nobody, allowed are about %d", bytes, unreadBytes)
	}
	r.settle()
	for _, o := range owners {
		o.check(0)
	}
}

// The memory of open tails counts: when those of many quiet partitions take more
// than the budget, some go to their segments long before the partitions are idle,
// and what is counted is what is held.
func TestCacheBoundsOpenTails(t *testing.T) {
	const partitions, budget = 600, 1 << 20
	slabs := &heldSlabs{}
	r := newRig(t, func(o *rigOptions) {
		o.store.CacheBytes = budget
		o.slabs = slabs
		o.folder.JournalFileBytes, o.folder.JournalBytes = 8<<20, 32<<20
	})
	r.store.Start()
	refused := 0
	for id := core.PartitionID(16); id < 16+partitions; id++ {
		o := r.create(id)
		for o.tryAppend(1, 100, core.DurabilitySync) != nil {
			refused++
			r.settle()
		}
		r.turn()
	}
	r.settle()
	for range 100 {
		r.tick(1e6) // far from idle
	}
	if got := r.store.Stats().CacheBytes; got > budget {
		t.Errorf("%d bytes are counted, the budget is %d", got, budget)
	}
	// Groups of the journal hold slabs of their own.
	if held := slabs.bytes - slabs.journal(r); held > budget+budget/4 {
		t.Errorf("%d bytes are held, the budget is %d", held, budget)
	}
	if slabs.most > 4*budget+slabs.journal(r) {
		t.Errorf("%d bytes were held at most", slabs.most)
	}
	for _, o := range r.owners {
		if o.log.DurableOffset() != 1 {
			t.Fatalf("partition %d: durable up to %d", o.id, o.log.DurableOffset())
		}
		o.check(0)
	}
	t.Logf("%d appends were refused, %d bytes at most", refused, slabs.most)
}

// heldSlabs counts the bytes of the slabs that are out.
type heldSlabs struct{ bytes, most int64 }

func (h *heldSlabs) Get(n int) *core.Slab {
	slab := core.HeapSlabs{}.Get(n)
	h.bytes += int64(len(slab.Bytes))
	h.most = max(h.most, h.bytes)
	return core.NewSlab(slab.Bytes, h).Issue()
}

func (h *heldSlabs) Put(s *core.Slab) { h.bytes -= int64(len(s.Bytes)) }

func (h *heldSlabs) journal(r *rig) (bytes int64) {
	for _, g := range r.store.journal.groups {
		if g.slab != nil {
			bytes += int64(len(g.slab.Bytes))
		}
	}
	return bytes
}
