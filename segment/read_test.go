package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A read from disk that copies small batches together and hands large ones out
// where they lie keeps the memory of the large ones. Slabs that come home are
// overwritten in tests, so that a read that does not is seen.
func TestReadOfSmallAndLargeBatchesFromDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(1)[0]
	for _, size := range []int{100, 30 << 10, 100, 3 << 10, 20, 90 << 10, 100} {
		if err := o.tryAppend(1, size, core.DurabilitySync); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	for range 4 {
		r.tick(2e9) // idle: nothing is left in memory
	}
	o.check(0)
	if r.store.Stats().ReadsDisk == 0 {
		t.Error("the records did not come from the disk")
	}
}
