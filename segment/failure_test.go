package segment

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A direct frame whose sync failed is not acked: it is rolled back, the segment
// ends, and what comes after has a higher term and generation. Frames of the
// journal survive.
func TestFailedSegmentSyncRollsBack(t *testing.T) {
	testFailedSegment(t, core.DiskSync)
}

func TestFailedSegmentWriteRollsBack(t *testing.T) {
	testFailedSegment(t, core.DiskWrite)
}

func testFailedSegment(t *testing.T, kind core.DiskOpKind) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(2, 100)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	o.append(3, 100)
	r.settle()
	durable := o.log.DurableOffset()
	term, generation := o.log.Term(), o.log.Generation()
	segment := o.log.active().header.Segment
	fault := r.fs.Inject(&mem.Fault{Kind: kind, Path: "topics/*.log"})
	o.append(1, 100<<10)
	r.until("the fault", func() bool { return fault.Hits() == 1 })
	r.until("the roll back", func() bool { return len(o.rolled) == 1 })
	if o.rolled[0] != durable || o.log.EndOffset() != durable || o.log.DurableOffset() != durable {
		t.Fatalf("rolled back to %d, the log ends at %d, durable %d; want %d", o.rolled[0], o.log.EndOffset(), o.log.DurableOffset(), durable)
	}
	if o.rollErr == nil {
		t.Fatal("no reason was given")
	}
	if o.log.Term() <= term || o.log.Generation() <= generation {
		t.Fatalf("term %d and generation %d after the failure, %d and %d before", o.log.Term(), o.log.Generation(), term, generation)
	}
	if r.store.stats.Failures != 1 {
		t.Fatalf("%d failures counted", r.store.stats.Failures)
	}
	o.append(4, 100)
	r.settle()
	r.tick(2e9) // the rest after a failure
	o.append(1, 90<<10)
	r.settle()
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("durable %d of %d after the failure", o.log.DurableOffset(), o.log.EndOffset())
	}
	if got := o.log.active().header.Segment; got == segment {
		t.Fatal("the failed segment is still written to")
	}
	o.check(0)
	want := o.history
	r.crash(5, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	o = r.open(16)
	if len(o.history) != len(want) || o.log.EndOffset() != want[len(want)-1].next {
		t.Fatalf("after the crash %d batches up to %d, want %d up to %d", len(o.history), o.log.EndOffset(), len(want), want[len(want)-1].next)
	}
	r.store.Start()
	o.check(0)
	if len(o.log.Damaged()) > 0 {
		t.Fatalf("called damaged: %+v", o.log.Damaged())
	}
}

// While a log returns to its durable point nothing is accepted.
func TestFailingLogAcceptsNothing(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*.log"})
	o.append(1, 100<<10)
	for fault.Hits() == 0 {
		r.store.Flush(r.clock.mono)
		r.reap()
	}
	if err := o.tryAppend(1, 10, core.DurabilitySync); !errors.Is(err, ErrLogFailed) {
		t.Fatalf("an append to a failing log: %v", err)
	}
	r.settle()
	o.append(1, 10)
}

// A failed journal write or sync ends the process: nothing in doubt is acked.
func TestFailedJournalEnds(t *testing.T) {
	for _, kind := range []core.DiskOpKind{core.DiskWrite, core.DiskSync} {
		r := newRig(t, nil)
		o := r.serve(16)[0]
		o.append(1, 100)
		r.settle()
		durable := o.log.DurableOffset()
		r.fs.Inject(&mem.Fault{Kind: kind, Path: "*.jnl"})
		o.append(1, 100)
		r.settle()
		if !errors.Is(r.store.Err(), ErrJournalFailed) {
			t.Fatalf("after a failed %s: %v", kind, r.store.Err())
		}
		if o.log.DurableOffset() != durable || o.log.WrittenOffset() != durable {
			t.Fatalf("acked up to %d and %d after a failed %s, want %d", o.log.DurableOffset(), o.log.WrittenOffset(), kind, durable)
		}
		if err := o.tryAppend(1, 10, core.DurabilitySync); err == nil {
			t.Fatal("an append after the journal failed")
		}
	}
}

// A full disk: appends are refused, what was acked is readable, the log accepts
// again when space has returned.
func TestFullDiskRecovers(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.store.FreeBytesLow, o.store.FreeBytesHigh = 2<<20, 3<<20
	})
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	r.settle()
	_, free, _ := r.fs.Space()
	total, _, _ := r.fs.Space()
	r.fs.SetCapacity(total - free + 256<<10)
	var err error
	for range 200 {
		r.tick(1e9)
		if err = o.tryAppend(1, 100<<10, core.DurabilitySync); err != nil && !errors.Is(err, ErrLogFailed) {
			break
		}
		r.settle()
	}
	if !errors.Is(err, core.ErrDiskFull) {
		t.Fatalf("appends on a full disk: %v", err)
	}
	o.check(0)
	durable := o.log.DurableOffset()
	if err := r.store.Trim(o.log, 1); err != nil {
		t.Fatalf("a trim on a full disk: %v", err)
	}
	r.settle()
	if o.log.StartOffset() != 1 {
		t.Fatalf("the log starts at %d after the trim", o.log.StartOffset())
	}
	// Also when started while full.
	r.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	total, free, _ = r.fs.Space()
	r.fs.SetCapacity(total - free + 64<<10)
	o = r.open(16)
	r.store.Start()
	if o.log.EndOffset() < durable {
		t.Fatalf("started while full the log ends at %d, %d was acked", o.log.EndOffset(), durable)
	}
	r.tick(6e9)
	if err := o.tryAppend(1, 100, core.DurabilitySync); !errors.Is(err, core.ErrDiskFull) {
		t.Fatalf("an append on a disk that was full at the start: %v", err)
	}
	r.fs.SetCapacity(1 << 30)
	r.tick(6e9)
	r.tick(6e9)
	o.append(1, 100)
	o.append(1, 100<<10)
	r.settle()
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("durable %d of %d after space returned", o.log.DurableOffset(), o.log.EndOffset())
	}
	o.check(o.log.StartOffset())
}

// A read error costs its own range, and only while it lasts.
func TestReadErrorIsItsRange(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(16)[0]
	for range 4 {
		o.append(1, 70<<10)
		r.settle()
	}
	r.tick(2e9)
	r.tick(2e9)
	if o.log.chunks.len() > 0 {
		t.Fatal("the idle log still holds chunks")
	}
	r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "topics/*.log"})
	_, err := o.read(0, o.log.EndOffset(), 64<<10)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("a read error: %v", err)
	}
	o.check(0)
}

// A segment write that fails under a state on its way takes the state with it. The
// next one is taken later, and a clean stop does not wait for the lost one.
func TestFailureTakesTheStateWithIt(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.StateBytes = 1 << 10 })
	o := r.serve(1)[0]
	o.append(1, 4000)
	r.settle()
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics/*"})
	r.tick(1e6)
	if fault.Hits() != 1 {
		t.Fatal("no state was on its way")
	}
	for range 5 {
		r.tick(2e9)
	}
	o.append(1, 4000)
	for range 3 {
		r.tick(1e9)
	}
	if r.store.Stats().StatesWritten == 0 {
		t.Error("no state is written any more")
	}
	r.stop()
}

// A state that cannot be written is tried again and again, and told once; it is told anew when one has been written since.
func TestStateFailureIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	r := newRig(t, func(o *rigOptions) {
		o.store.StateBytes = 1 << 10
		o.said = slog.New(slog.NewTextHandler(&out, nil))
	})
	o := r.serve(1)[0]
	for round := 1; round <= 2; round++ {
		fault := r.fs.Inject(&mem.Fault{Path: "*" + StateExtension + ".new", Count: -1})
		o.append(1, 4000)
		r.settle()
		for range 20 {
			r.tick(2e9)
		}
		if told := strings.Count(out.String(), "a state file could not be written"); fault.Hits() < 5 || told != round {
			t.Fatalf("round %d: failed %d times, told %d times: %s", round, fault.Hits(), told, out.String())
		}
		r.fs.ClearFaults()
		r.tick(2e9)
		if r.store.Stats().StatesWritten != uint64(round) {
			t.Fatalf("round %d: %d states are written", round, r.store.Stats().StatesWritten)
		}
	}
}

// An extent that cannot be had, as on a full disk, and a file that cannot be opened leave no hole in the segment, no
// frame in it twice and nothing in its index that is not there: what is durable is read from the disk, at once, after the
// disk has recovered, and after a power cut.
func TestFailedChainLeavesNoHole(t *testing.T) {
	for _, kind := range []core.DiskOpKind{core.DiskAllocate, core.DiskOpen} {
		for _, level := range []core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone} {
			for _, size := range []int{20 << 10, 100 << 10} {
				t.Run(fmt.Sprintf("%s %s %d", kind, level, size), func(t *testing.T) { testFailedChain(t, kind, level, size) })
			}
		}
	}
}

func testFailedChain(t *testing.T, kind core.DiskOpKind, level core.Durability, size int) {
	r := newRig(t, func(o *rigOptions) {
		o.store.FlushBytes, o.store.CacheBytes, o.store.OpenFiles, o.log.Durability = 64<<10, 1, 1, level
	})
	owners := r.serve(16, 17)
	o := owners[0]
	put := func() error { return o.tryAppend(1, size, level) }
	for o.log.EndOffset() < 8 { // the segment is there, with frames that are not synced in it
		if err := put(); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	err := error(nil) // EIO
	if kind == core.DiskAllocate {
		err = core.ErrDiskFull
	}
	if kind == core.DiskOpen {
		for o.log.active().file != 0 { // another log's takes its place
			owners[1].append(1, 100<<10)
			r.settle()
		}
	}
	fault := r.fs.Inject(&mem.Fault{Kind: kind, Path: "topics/*.log", Err: err})
	for n := 0; fault.Hits() == 0; n++ {
		if n == 200 {
			t.Fatal("the fault did not come")
		}
		_ = put()
		r.settle()
	}
	o.check(0)
	for range 6 {
		r.tick(2e9) // the rest after a failure
		if err := put(); err != nil && !errors.Is(err, core.ErrDiskFull) {
			t.Fatal(err)
		}
		r.settle()
		o.check(0)
	}
	r.verify()
	want, durable := o.history, o.log.DurableOffset()
	r.crash(5, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	o = r.open(16)
	r.open(17)
	r.store.Start()
	if len(o.log.Damaged()) > 0 {
		t.Fatalf("called damaged: %+v", o.log.Damaged())
	}
	end := o.log.EndOffset()
	if end < durable {
		t.Fatalf("after the crash the log ends at %d, and %d was durable", end, durable)
	}
	var bytes []byte
	for _, b := range want {
		if b.next <= end {
			bytes = append(bytes, b.bytes...)
		}
	}
	if got, err := o.read(0, end, 256<<10); err != nil || string(got) != string(bytes) {
		t.Fatalf("after the crash: %d bytes, want %d: %s (%v)", len(got), len(bytes), firstDifference(got, bytes), err)
	}
}

// While the disk stays full, every try to write a segment fails before anything was
// written. The segment goes on where it ended, without a hole, and the term is not
// raised with each try: nothing was lost.
func TestFullDiskLeavesNoHoles(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.SegmentBytes = 8 << 20 })
	o := r.serve(16)[0]
	o.append(1, 80<<10)
	r.settle()
	for range 10 {
		o.append(1, 100<<10)
		r.settle()
	}
	g := o.log.active()
	position, segments := g.position, len(o.log.segments)
	o.append(1, 40<<10) // goes through the journal, and to its segment when that is asked for
	r.settle()
	term := o.log.Term()
	full := r.fs.Inject(&mem.Fault{Kind: core.DiskAllocate, Path: "topics*", Count: -1, Err: core.ErrDiskFull})
	g.allocated = g.position // so that the next write needs an extent
	for range 10 {
		r.store.requestFlush(o.log, o.log.LastIndex())
		r.tick(2e9)
	}
	if full.Hits() < 5 {
		t.Fatalf("%d tries", full.Hits())
	}
	if o.log.Term() != term || len(o.rolled) > 0 {
		t.Errorf("term %d after tries that lost nothing, %d before; rolled back %v", o.log.Term(), term, o.rolled)
	}
	r.fs.ClearFaults()
	r.tick(2e9)
	r.store.requestFlush(o.log, o.log.LastIndex())
	r.tick(2e9)
	if g := o.log.active(); len(o.log.segments) != segments || g.position <= position || g.position > position+64<<10 {
		t.Errorf("the segment goes on at %d, it ended at %d; %d segments, %d before", g.position, position, len(o.log.segments), segments)
	}
	o.check(0)
	r.stop()
	r.verify()
	r.kill(0)
	history := o.history
	o = r.open(16)
	r.store.Start()
	o.history = history
	o.check(0)
}

// What stands behind the durable point of a failed segment is never read again,
// although the disk may well hold it: other frames have its offsets.
func TestFailedSegmentIsReadUpToItsDurablePoint(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(16)[0]
	o.append(1, 100<<10) // makes the segment
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	durable := o.log.SizeBytes()
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*.log"})
	for range 3 {
		o.append(1, 70<<10)
	}
	r.until("the roll back", func() bool { return len(o.rolled) == 1 })
	// What was given up is not of the log's size any more, by which retention goes.
	if size := o.log.SizeBytes(); size != durable {
		t.Fatalf("the log holds %d bytes after the roll back, %d are durable", size, durable)
	}
	r.tick(2e9)
	for range 3 {
		o.append(1, 80<<10)
		r.settle()
	}
	for range 5 {
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
}
