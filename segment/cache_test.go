package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

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
