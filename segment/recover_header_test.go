package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A process ends between the write of a new segment's header and its sync. The next one writes to that segment, and the
// power goes: what the disk kept of that must never be without the header.
func TestHeaderOfAnEmptySegmentIsDurable(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 1 << 40}
		o.store.FlushBytes = 16 << 10
	})
	o := r.serve(16)[0]
	header := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: o.log.id.dir() + "/*.log", Action: mem.FaultDelay, Delay: 1 << 40})
	r.until("the sync of a new segment", func() bool {
		if header.Hits() == 0 {
			o.append(1, 2000)
		}
		return header.Hits() > 0
	})
	r.options.store.FlushBytes = 64 << 10 // the next start leaves in the journal what is there
	r.kill(1)
	o = r.open(16)
	if len(o.log.segments) != 1 || !o.log.segments[0].empty() {
		t.Fatalf("there are %d segments, not an empty one", len(o.log.segments))
	}
	r.store.Start()
	for range 100 {
		o.append(1, 2000)
		r.turn()
	}
	r.settle()
	if o.log.segments[0].empty() {
		t.Fatal("nothing was written to the segment")
	}
	durable, before := o.log.DurableOffset(), r.fs
	for seed := range uint64(30) {
		r.fs = before
		r.crash(seed, mem.CrashOptions{Data: mem.FateRandom, SectorBytes: 4096})
		if o, err := r.tryOpen(16); err != nil {
			t.Fatalf("power cut %d: %v", seed, err)
		} else if len(o.log.Damaged()) > 0 || o.log.EndOffset() < durable {
			t.Fatalf("power cut %d: the log ends at %d, %d was durable; damaged: %v", seed, o.log.EndOffset(), durable, o.log.Damaged())
		}
	}
}
