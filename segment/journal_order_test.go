package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Of two unsynced groups in flight the later one may end first. Replay stops at the
// first gap, so nothing of it counts before the earlier one has ended: a batch that
// was called written survives kill -9.
func TestJournalGroupsCountInOrder(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityBatch })
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 10)
	}
	r.settle()
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "layout-*", Action: mem.FaultDelay, Delay: 50})
	owners[0].append(1, 100)
	r.store.Flush(r.clock.mono)
	owners[1].append(1, 100)
	for range 20 {
		r.turn()
	}
	if slow.Hits() != 1 || r.driver.Pending() != 1 {
		t.Fatalf("%d delays, %d operations pending: one group should have overtaken the other", slow.Hits(), r.driver.Pending())
	}
	if got := owners[1].log.WrittenOffset(); got != 1 {
		t.Errorf("the later group counts as written before the earlier one: offset %d", got)
	}
	for seed := range uint64(8) {
		c := *r
		c.ops = nil
		c.fs = r.fs.Kill(seed)
		c.start()
		for _, o := range owners {
			if got := c.open(o.id).log.EndOffset(); got < o.log.WrittenOffset() {
				t.Fatalf("seed %d: partition %d ends at %d, %d was written", seed, o.id, got, o.log.WrittenOffset())
			}
		}
	}
	r.settle()
	for _, o := range owners {
		if got := o.log.WrittenOffset(); got != 2 {
			t.Errorf("partition %d: written up to %d after both ended", o.id, got)
		}
	}
}
