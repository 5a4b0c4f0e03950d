package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// The group that carries a file's last checkpoint entry takes a while to reach
// the disk. The turns in between must not gather the entries again: when the file
// has been recycled there is nothing left to gather from.
func TestRecyclingWithASlowDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.driver.LatencyMin, o.driver.LatencyMax = 1, 6 })
	owners := r.serve(1, 2, 3)
	for i := 0; r.store.Stats().JournalRecycles < 4; i++ {
		if i > 20_000 {
			t.Fatalf("the journal is not recycled: %+v", r.store.Stats())
		}
		_ = owners[i%len(owners)].tryAppend(2, 8<<10, core.DurabilitySync) // busy now and then
		r.turn()
		r.store.Tick(r.clock.mono)
	}
	r.settle()
}
