package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A topic of ten thousand partitions is deleted while the workers are busy: each
// folder's removal is done, and told, once they have room.
func TestJobsWaitForWorkers(t *testing.T) {
	r := newRig(t, nil)
	r.serve()
	const logs = 10_000
	done := 0
	r.workers.full = true
	for id := range core.PartitionID(logs) {
		l := r.store.CreateLog(rigIdentity(id+1), r.options.log, &rigOwner{rig: r, id: id + 1})
		r.store.DropLog(l, func() { done++ })
	}
	r.workers.full = false
	for range 20 {
		r.tick(1e6)
	}
	if done != logs {
		t.Fatalf("%d of %d deletions were done", done, logs)
	}
}
