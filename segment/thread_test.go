package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

func TestThreadAppendReadRecover(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	for range 10 {
		o.append(3, 100)
		r.turn()
	}
	r.settle()
	if o.log.DurableOffset() != 30 {
		t.Fatalf("durable offset %d, want 30", o.log.DurableOffset())
	}
	o.check(0)
	before := o.history
	r.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	o = r.open(16)
	r.store.Start()
	r.settle()
	if o.log.EndOffset() != 30 || len(o.history) != len(before) {
		t.Fatalf("after the crash the log ends at %d with %d batches", o.log.EndOffset(), len(o.history))
	}
	o.check(0)
	o.append(2, 50)
	r.settle()
	if o.log.DurableOffset() != 32 {
		t.Fatalf("durable offset %d, want 32", o.log.DurableOffset())
	}
	o.check(0)
}

func TestThreadDirect(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for range 5 {
		o.append(1, 100<<10)
		o.append(2, 200)
		r.turn()
	}
	r.settle()
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("durable offset %d, end %d", o.log.DurableOffset(), o.log.EndOffset())
	}
	if r.store.stats.DirectFrames == 0 {
		t.Fatal("no frame went directly to the segment")
	}
	o.check(0)
	r.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	o = r.open(16)
	r.store.Start()
	o.check(0)
	if got := o.log.EndOffset(); got != 16 {
		t.Fatalf("end %d, want 16", got)
	}
	_ = core.DurabilitySync
}
