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
