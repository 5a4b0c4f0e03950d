package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
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

// Partitions that seldom write hold the oldest memory of the shard. They must not
// stand between the budget and what a busy partition has in its segments.
func TestSlowPartitionsDoNotHoldTheCache(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.CacheBytes = 4 << 20 })
	var ids []core.PartitionID
	for id := range core.PartitionID(evictLookMax + 2) {
		ids = append(ids, id+1)
	}
	owners := r.serve(ids...)
	for _, o := range owners {
		o.append(1, 100)
	}
	r.settle()
	for i := range 300 {
		if err := owners[0].tryAppend(1, 60<<10, core.DurabilitySync); err != nil {
			t.Fatalf("batch %d with %d bytes in memory: %v", i, r.store.cache.bytes, err)
		}
		r.settle()
	}
}
