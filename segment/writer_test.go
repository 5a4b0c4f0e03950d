package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// When more partitions write at once than the disk takes operations, the rest
// waits for a later turn. The turn itself ends: it once went round for ever.
func TestWritersWaitForABusyDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.driver.OpsMax = 16
		o.driver.LatencyMin, o.driver.LatencyMax = 1, 3
	})
	ids := make([]core.PartitionID, 24)
	for i := range ids {
		ids[i] = core.PartitionID(i + 1)
	}
	owners := r.serve(ids...)
	for range 3 {
		for _, o := range owners {
			if err := o.tryAppend(1, 200<<10, core.DurabilitySync); err != nil { // straight to its segment
				t.Fatal(err)
			}
		}
		r.turn()
		if n := len(r.store.kickList); n > len(owners) {
			t.Fatalf("%d partitions wait for their writer, there are %d", n, len(owners))
		}
		r.settle()
	}
	for _, o := range owners {
		if o.log.DurableOffset() != 3 {
			t.Errorf("partition %d is durable to %d, want 3", o.id, o.log.DurableOffset())
		}
	}
}
