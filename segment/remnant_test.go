package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A write that was taken back in part leaves a whole frame in the block of the last one that counts. The block is
// durable and is not written again, so whoever walks the segment has to end before that frame: another one has its
// index and its offset, in a later generation.
func TestFrameThatWasGivenUpIsNotRead(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(16)[0]
	o.append(1, 130<<10)
	r.settle()
	for range 3 {
		r.tick(2e9)
	}
	o.append(1, 100) // goes to the journal
	r.settle()
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*.log"}) // the write is done
	o.append(1, 100)                                                   // goes to the segment with the large one
	o.append(1, 130<<10)
	r.until("the roll back", func() bool { return len(o.rolled) == 1 })
	kept := len(o.history)
	if kept != 2 {
		t.Fatalf("%d batches are left, this is about 2 of 4", kept)
	}
	o.append(1, 101)
	o.append(1, 102)
	r.settle()
	history := o.history

	// The process ends before the next segment is made.
	r.kill(0)
	o = r.open(16)
	r.store.Start()
	if len(o.log.segments) != 1 || o.log.segments[0].lastIndex >= o.log.index {
		t.Fatalf("%d segments; this is about frames that only the journal holds, behind a segment's end", len(o.log.segments))
	}
	o.history = history
	o.check(0)
	for range 5 { // and once they have a segment
		r.tick(2e9)
	}
	if o.log.chunks.len() > 0 || len(o.log.segments) != 2 {
		t.Fatalf("%d chunks in memory, %d segments: this is about reading from the disk", o.log.chunks.len(), len(o.log.segments))
	}
	o.check(0)
	for _, b := range o.history {
		if got := r.lookup(o.log, batchTimestamp(b)); got.Offset != b.base {
			t.Fatalf("the record at %d is found at %d", b.base, got.Offset)
		}
	}
	g := o.log.segments[0]
	_ = r.fs.Remove(g.stem() + IndexExtension)
	var sc Scanner
	x, _, err := OpenIndex(r.fs, g.stem(), &g.header, g.end(), &sc)
	if err != nil || x.LastIndex != g.lastIndex {
		t.Fatalf("%s ends at index %d, and its index at %d (%v)", g.path, g.lastIndex, x.LastIndex, err)
	}
	r.verify()
}
