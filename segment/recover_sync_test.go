package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// What recovery accepts it calls durable, so it must be: a kill -9 leaves bytes in
// the caches that no sync has seen. Each test kills, opens the log, and cuts the
// power before anything else happens.
func acceptedIsDurable(t *testing.T, r *rig, end core.Offset) {
	t.Helper()
	c := r.branch(r.fs.Kill(1))
	o := c.open(16)
	durable := o.log.DurableOffset()
	if durable != end {
		t.Fatalf("after a kill the log ends at %d, want %d", durable, end)
	}
	c.crash(1, dropAll)
	o = c.open(16)
	if o.log.EndOffset() < durable || len(o.log.Damaged()) > 0 {
		t.Fatalf("the log ends at %d after a power cut, %d was called durable; damaged: %+v", o.log.EndOffset(), durable, o.log.Damaged())
	}
}

func TestAcceptedJournalIsSyncedBeforeServing(t *testing.T) {
	r, owners := batchRig(t, 16)
	o := owners[0]
	for range 3 {
		o.append(2, 100)
		r.settle()
	}
	if o.log.DurableOffset() == o.log.EndOffset() {
		t.Fatal("a batch topic is synced at once")
	}
	acceptedIsDurable(t, r, o.log.EndOffset())
}

func TestAcceptedSegmentsAreSyncedBeforeServing(t *testing.T) {
	// A chunk larger than the segment fills its file to the end, so that nothing has to
	// be cut off, which would sync the file by the way.
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 1 << 40, SegmentBytes: SegmentBytesMin}
	})
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	if o.log.DurableOffset() == o.log.EndOffset() || o.log.WrittenOffset() != o.log.EndOffset() {
		t.Fatalf("durable %d, written %d, end %d", o.log.DurableOffset(), o.log.WrittenOffset(), o.log.EndOffset())
	}
	acceptedIsDurable(t, r, o.log.EndOffset())
}
