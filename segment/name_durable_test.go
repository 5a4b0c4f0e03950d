package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A start writes the frames behind a hole to a new segment, and ends before the name of
// that segment is durable. What later starts find and seal under the name has to
// survive a power cut.
func TestNameOfARewrittenSegmentIsDurable(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log.Durability = core.DurabilityBatch
		o.store.FlushBytes = 16 << 10
	})
	owners := r.serve(16, 17)
	o := owners[0]
	o.append(1, 100)
	r.settle()
	for range 3 {
		for range 9 {
			o.append(1, 2000) // some of these make a write
			r.turn()
		}
		r.settle()
	}
	// The second write never came to the disk, the later ones did, and the journal has all.
	lost := o.log.segments[0].path
	r.fs = r.fs.Kill(1)
	r.patch(lost, FileHeaderBytes+core.DiskAlignment, make([]byte, 2*core.DiskAlignment))
	failed := r.fs.Inject(&mem.Fault{Kind: core.DiskSyncDir, Path: rigIdentity(16).dir()})
	r.start()
	o = r.open(16)
	r.open(17)
	if failed.Hits() == 0 || len(o.log.segments) != 2 || o.log.end != 28 {
		t.Fatalf("nothing was written to a new segment: %d segments, %d records", len(o.log.segments), o.log.end)
	}
	r.store.Start()
	r.recycleAll(r.owners[17])
	r.recycleAll(r.owners[17])
	r.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	o = r.open(16)
	if len(o.log.Damaged()) > 0 || o.log.end < 28 {
		t.Fatalf("after a power cut %d of 28 records are there, with damage %v", o.log.end, o.log.Damaged())
	}
}
