package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A trim whose frame was rolled back did not happen: the start stays, now and when
// other frames take its index.
func TestRolledBackTrimMovesNothing(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(1)[0]
	for range 4 {
		o.append(1, 100)
		r.settle()
	}
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*"})
	o.append(1, 200<<10)
	for len(o.rolled) == 0 && o.log.state == logServing {
		r.store.Flush(r.clock.mono)
		if o.log.writer != nil && len(o.log.trims) == 0 {
			if err := r.store.Trim(o.log, 3); err != nil {
				t.Fatal(err)
			}
		}
		r.reap()
	}
	r.until("the roll back", func() bool { return len(o.rolled) > 0 })
	if o.log.StartOffset() == 3 && o.log.DurableIndex() >= 6 {
		t.Skip("the trim was durable before")
	}
	r.tick(2e9)
	for range 4 {
		o.append(1, 100)
		r.settle()
	}
	start := o.log.StartOffset()
	r.crash(3, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if after := r.open(1).log.StartOffset(); after != start {
		t.Fatalf("the log started at %d, after a crash it starts at %d", start, after)
	}
}

// A trim waits for the frames before it. On a topic that syncs nothing by itself
// it asks for their sync.
func TestTrimOfUnsyncedLog(t *testing.T) {
	for _, level := range []core.Durability{core.DurabilityNone, core.DurabilityBatch} {
		r := newRig(t, func(o *rigOptions) { o.log.Durability = level })
		o := r.serve(1)[0]
		o.append(1, 100)
		r.settle()
		o.append(1, 300<<10)
		r.settle()
		if o.log.DurableOffset() == o.log.EndOffset() {
			t.Fatal("everything is durable already")
		}
		if err := r.store.Trim(o.log, 1); err != nil {
			t.Fatal(err)
		}
		r.settle()
		if o.log.StartOffset() != 1 {
			t.Errorf("%v: the log starts at %d, durable %d of %d", level, o.log.StartOffset(), o.log.DurableOffset(), o.log.EndOffset())
		}
	}
}

// A trim whose log has large batches on their way to the segment, unsynced.
func TestRaisedDurabilityCoversWhatWaitsForTheWriter(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityNone; o.log.FlushNanos = 3600e9 })
	o := r.serve(1)[0]
	o.append(1, 100)
	r.settle()
	o.append(1, 300<<10)
	r.store.Flush(r.clock.mono) // its chain is on its way
	o.append(1, 300<<10)
	r.store.Flush(r.clock.mono) // this one waits for the writer
	r.store.SetOptions(o.log, LogOptions{Durability: core.DurabilitySync, FlushNanos: 3600e9})
	r.settle()
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Errorf("durable %d of %d after the durability was raised", o.log.DurableOffset(), o.log.EndOffset())
	}
}

// A state that is written together with a trim's frame knows the new start: a
// restart reads nothing below the state's point.
func TestStateKnowsTheTrimInItsChunk(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(1)[0]
	o.append(1, 100)
	r.settle()
	if err := r.store.Trim(o.log, 1); err != nil {
		t.Fatal(err)
	}
	o.append(1, 100<<10) // goes straight to the segment and takes the trim along
	o.log.stateBytes = r.store.options.StateBytes
	r.store.Flush(r.clock.mono)
	r.store.Tick(r.clock.mono)
	if !o.log.stateBusy {
		t.Fatal("no state was taken")
	}
	r.settle()
	if o.log.StartOffset() != 1 || r.store.Stats().StatesWritten == 0 {
		t.Fatalf("start %d, %d states", o.log.StartOffset(), r.store.Stats().StatesWritten)
	}
	r.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if start := r.open(1).log.StartOffset(); start != 1 {
		t.Fatalf("after a crash the log starts at %d", start)
	}
}
