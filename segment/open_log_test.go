package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// openTogether opens logs with one call.
func (r *rig) openTogether(ids ...core.PartitionID) []LogRequest {
	list := make([]LogRequest, len(ids))
	for i, id := range ids {
		r.owners[id] = &rigOwner{rig: r, id: id}
		list[i] = LogRequest{Identity: rigIdentity(id), Options: r.options.log, Owner: r.owners[id]}
	}
	r.store.OpenLogs(list)
	for i, id := range ids {
		r.owners[id].log = list[i].Log
	}
	return list
}

// backwards does together what no order may matter to.
func backwards(n int, do func(i int)) {
	for i := range n {
		do(n - 1 - i)
	}
}

// orders are the ways in which files are synced together: nil is the store's own.
var orders = map[string]func(n int, do func(i int)){"in order": nil, "backwards": backwards}

// togetherRig has logs with segments that nothing has synced.
func togetherRig(t *testing.T, order string, ids ...core.PartitionID) *rig {
	r := newRig(t, func(o *rigOptions) {
		o.store.Together = orders[order]
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 1 << 40}
	})
	for i, o := range r.serve(ids...) {
		o.append(1, 100<<10) // makes the segment
		r.settle()
		for range 1 + i {
			o.append(1, 100<<10)
		}
		r.settle()
		if o.log.DurableOffset() == o.log.EndOffset() {
			t.Fatal("the log is synced as it is written")
		}
	}
	return r
}

// Logs that are opened together are as durable, and hold the same, as if each had been opened alone: what they call
// durable survives the loss of all that was never synced.
func TestLogsOpenedTogetherAreSynced(t *testing.T) {
	ids := []core.PartitionID{16, 17, 18, 19, 20}
	for order := range orders {
		r := togetherRig(t, order, ids...)
		before := r.owners
		r.kill(1)
		r.openTogether(ids...)
		for _, id := range ids {
			if got, want := r.owners[id], before[id]; got.log.DurableOffset() != want.log.EndOffset() || got.sum != want.sum {
				t.Fatalf("partition %d: durable %d of %d", id, got.log.DurableOffset(), want.log.EndOffset())
			}
		}
		r.crash(1, dropAll)
		r.openTogether(ids...)
		for _, id := range ids {
			if o := r.owners[id]; o.log.EndOffset() < before[id].log.EndOffset() || len(o.log.Damaged()) > 0 {
				t.Errorf("%s: partition %d ends at %d after a power cut, %d was called durable; damaged: %+v",
					order, id, o.log.EndOffset(), before[id].log.EndOffset(), o.log.Damaged())
			}
		}
	}
}

// A file that cannot be synced costs its own partition, whoever is opened beside it; an error that passes costs nothing.
func TestFailedSyncOfALogOpenedTogether(t *testing.T) {
	ids := []core.PartitionID{16, 17, 18}
	for order := range orders {
		for _, count := range []int{1, -1} {
			r := togetherRig(t, order, ids...)
			end := r.owners[17].log.EndOffset()
			r.kill(1)
			fault := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: rigIdentity(17).dir() + "/*.log", Count: count})
			list := r.openTogether(ids...)
			if fault.Hits() == 0 {
				t.Fatal("nothing was synced")
			}
			for i, q := range list {
				if wrong := q.Err != nil; wrong != (count < 0 && ids[i] == 17) {
					t.Errorf("%s, %d errors: partition %d: %v", order, count, ids[i], q.Err)
				}
			}
			if count > 0 && r.owners[17].log.EndOffset() != end {
				t.Errorf("the log ends at %d, want %d", r.owners[17].log.EndOffset(), end)
			}
			if count < 0 && len(r.store.refused) != 1 {
				t.Errorf("%d logs are refused", len(r.store.refused))
			}
		}
	}
}
