package reactor

import (
	"sync/atomic"
	"testing"
)

// Each number comes once, never more than togetherMax at a time, and all are done at the end.
func TestTogether(t *testing.T) {
	for _, n := range []int{0, 1, togetherMax - 1, togetherMax, 5*togetherMax + 3} {
		calls := make([]atomic.Int32, n)
		var running, most atomic.Int32
		together(n, func(i int) {
			now := running.Add(1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			calls[i].Add(1)
			running.Add(-1)
		})
		for i := range calls {
			if c := calls[i].Load(); c != 1 {
				t.Errorf("%d of %d was called %d times", i, n, c)
			}
		}
		if most.Load() > togetherMax {
			t.Errorf("%d at a time", most.Load())
		}
	}
}
