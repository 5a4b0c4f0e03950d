package segment

import (
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// What a none topic wrote straight to its segment is synced when the journal goes on
// in its next file, at the latest.
func TestNoneIsSyncedAtRotation(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityNone, FlushBytes: 1 << 40} })
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 10)
	}
	r.settle()
	direct, driver := owners[0], owners[1]
	direct.append(1, 200<<10)
	r.settle()
	end := direct.log.EndOffset()
	if direct.log.WrittenOffset() != end || direct.log.DurableOffset() == end {
		t.Fatalf("written %d, durable %d of %d", direct.log.WrittenOffset(), direct.log.DurableOffset(), end)
	}
	before := r.store.journal.current
	for i := 0; r.store.journal.current == before; i++ {
		driver.append(4, 1000)
		r.turn()
		if i > 5000 {
			t.Fatal("the journal did not go on in its next file")
		}
	}
	r.settle()
	if direct.log.DurableOffset() < end {
		t.Fatalf("durable %d of %d after the journal's rotation", direct.log.DurableOffset(), end)
	}
	r.crash(1, dropAll)
	if o := r.open(16); o.log.EndOffset() < end {
		t.Fatalf("the log ends at %d after a power cut, %d was synced", o.log.EndOffset(), end)
	}
}

// A segment ends durable before the next one begins, also when its topic syncs
// seldom: what a power cut leaves of a log is a prefix, and only the last segment
// can be torn.
func TestSegmentEndsDurable(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 1 << 40, SegmentBytes: SegmentBytesMin}
	})
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for n := range 4 {
		before := o.log.EndOffset()
		o.append(1, 100<<10)
		r.settle()
		if o.log.WrittenOffset() != o.log.EndOffset() {
			t.Fatalf("written %d of %d", o.log.WrittenOffset(), o.log.EndOffset())
		}
		if len(o.log.segments) != n+2 {
			t.Fatalf("%d segments after %d large batches", len(o.log.segments), n+1)
		}
		if o.log.DurableOffset() < before {
			t.Fatalf("segment %d was begun while the one before was durable up to %d of %d", n+2, o.log.DurableOffset(), before)
		}
		c := r.branch(r.fs.Crash(uint64(n), dropAll))
		if got := c.open(16); got.log.EndOffset() < before || len(got.log.Damaged()) > 0 {
			t.Fatalf("after a power cut the log ends at %d, all before the last segment is [0, %d); damaged %+v", got.log.EndOffset(), before, got.log.Damaged())
		}
	}
}

// After a failed segment write what the journal holds of the log is synced there
// and kept: a batch topic has acked it.
func TestFailedWriteKeepsJournaledFrames(t *testing.T) {
	r, owners := batchRig(t, 16)
	o := owners[0]
	o.appendAt(core.DurabilitySync, 1, 100<<10)
	r.settle()
	for range 3 {
		o.append(2, 100)
		r.settle()
	}
	acked := o.log.WrittenOffset()
	if acked != o.log.EndOffset() || o.log.DurableOffset() == acked {
		t.Fatalf("written %d, durable %d of %d", acked, o.log.DurableOffset(), o.log.EndOffset())
	}
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log"})
	o.append(1, 100<<10)
	r.until("the roll back", func() bool { return len(o.rolled) == 1 })
	if fault.Hits() != 1 {
		t.Fatal("no write failed")
	}
	if o.rolled[0] != acked || o.log.EndOffset() != acked {
		t.Fatalf("rolled back to %d, the journal held [0, %d)", o.rolled[0], acked)
	}
	o.check(0)
}

// A state is written only when the segment holds its point durably: until then its
// frames are in the journal alone, and a start from it would miss them.
func TestStateWaitsForItsFrames(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.StateBytes = 4 << 10 })
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	r.tick(1e6)
	states := func(fs *mem.FS) int {
		list, err := fs.List(rigIdentity(16).dir())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range list {
			if strings.HasSuffix(e.Name, StateExtension) {
				n++
				if err := fs.Remove(path.Join(rigIdentity(16).dir(), e.Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	states(r.fs)
	written := r.store.stats.StatesWritten
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 200})
	o.append(3, 3000)
	for range 20 {
		r.turn()
	}
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatal("the frames are not durable in the journal")
	}
	r.clock.advance(1e6)
	r.store.Tick(r.clock.mono)
	for range 50 {
		r.turn()
	}
	if slow.Hits() != 1 {
		t.Fatal("no state was asked for")
	}
	if r.store.stats.StatesWritten != written || states(r.fs.Kill(0)) > 0 {
		t.Fatal("a state was written before the segment held its frames")
	}
	r.settle()
	r.until("the state", func() bool { return r.store.stats.StatesWritten > written })
	sum := o.sum
	r.crash(1, dropAll)
	if o = r.open(16); o.sum != sum || !o.restored {
		t.Fatalf("after a power cut: restored %v, the state differs", o.restored)
	}
}

// A segment whose age nobody knows is kept: after a start the frames before the
// newest state have not been read, and only a verified frame tells an age.
func TestUnknownAgeKeepsASegment(t *testing.T) {
	r, _ := stateRig(t)
	r.kill(1)
	o := r.reopen(16)[0]
	if o.log.segments[0].appendLast != 0 {
		t.Fatal("the first segment's age is known; this test is about one whose is not")
	}
	r.workers.full = true // nobody has time to read its index
	lo := o.log.options
	lo.RetentionNanos = 3600e9
	r.store.SetOptions(o.log, lo)
	for range 5 {
		r.clock.advance(1e6)
		r.store.Tick(r.clock.mono)
		r.turn()
	}
	if o.log.StartOffset() != 0 {
		t.Fatalf("the log starts at %d: segments of unknown age were removed", o.log.StartOffset())
	}
	r.workers.full = false
	for range 5 {
		r.tick(1e6)
	}
	if o.log.StartOffset() != 0 {
		t.Fatalf("the log starts at %d: young segments were removed", o.log.StartOffset())
	}
	for range 50 {
		r.tick(120e9)
	}
	if o.log.StartOffset() == 0 {
		t.Fatal("old segments are kept although their age is known now")
	}
}
