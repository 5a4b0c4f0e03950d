package segment

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// scrubRig has two logs of several segments, with states, and reads nothing again
// unless it is asked to.
func scrubRig(t *testing.T, change func(*rigOptions)) (*rig, []*rigOwner, *bytes.Buffer) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10}
		o.store.CacheBytes = 128 << 10
		o.store.StateBytes = 32 << 10
		o.store.ScrubBytesPerSecond = 100 << 20
		o.store.ScrubNanos = -1
		if change != nil {
			change(o)
		}
	})
	lines := logged(r)
	owners := r.serve(16, 17)
	for range 60 {
		for _, o := range owners {
			for o.tryAppend(2, 2000, core.DurabilitySync) != nil {
				r.tick(1e6)
			}
		}
		r.settle()
		r.tick(1e6)
	}
	for _, o := range owners {
		r.store.requestFlush(o.log, o.log.index)
	}
	r.settle()
	return r, owners, lines
}

// logged gathers what the store logs from now on.
func logged(r *rig) *bytes.Buffer {
	lines := &bytes.Buffer{}
	r.store.log = slog.New(slog.NewTextHandler(lines, nil))
	return lines
}

// verify has a log read again and waits for the end of it.
func (o *rigOwner) verify() {
	o.rig.t.Helper()
	o.rig.store.Verify(o.log)
	for range 10_000 {
		if !o.log.Verification().Asked {
			return
		}
		o.rig.tick(1e8)
	}
	o.rig.t.Fatal("the verification does not end")
}

// flip changes one bit of a file.
func (r *rig) flip(name string, at int64) {
	r.t.Helper()
	f, err := r.fs.Open(name)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		r.t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) holds(name string) bool {
	_, err := readFile(r.fs, name, 1<<30)
	return err == nil
}

func count(text, part string) int { return strings.Count(text, part) }

// Each kind of damage is counted as what it is and told once, with its place, in
// however many passes it is met.
func TestScrubTellsEachDamageOnce(t *testing.T) {
	r, owners, lines := scrubRig(t, nil)
	o := owners[1]
	l := o.log
	l.id.Name = "orders"
	g, mark := l.segments[1], l.segments[2]
	stated := l.segments[3]
	if !r.holds(g.stem()+IndexExtension) || !r.holds(stated.stem()+StateExtension) {
		t.Fatal("no index or no state was written")
	}
	r.flip(g.path, g.position/2)
	r.flip(mark.path, FileHeaderBytes+8) // the first write mark
	r.flip(g.stem()+IndexExtension, FileHeaderBytes+20)
	r.flip(stated.stem()+StateExtension, FileHeaderBytes+3)
	for range 3 {
		o.verify()
	}
	st := r.store.Stats()
	if st.ScrubRecords != 1 || st.ScrubFiles != 1 || st.ScrubIndexes != 1 || st.ScrubStates != 1 || st.Damages != 1 {
		t.Fatalf("%+v\n%s", st, lines)
	}
	text := lines.String()
	for part, times := range map[string]int{damageOfSegment: 2, damageOfIndex: 1, damageOfState: 1, "topic=orders partition=2": 4, "file=" + g.path: 1} {
		if count(text, part) != times {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", part, count(text, part), times, text)
		}
	}
	if d := l.Damaged(); len(d) != 1 || d[0].File != g.path || d[0].Found == 0 || !strings.Contains(text, fmt.Sprintf("offsets=\"[%d, %d)\"", d[0].Start, d[0].Next)) {
		t.Errorf("%+v\n%s", d, text)
	}
	if stated.stateVerified || stated.statePoint != 0 {
		t.Error("a state that is damaged still counts for retention")
	}
	// The index was made again: it is whole, and another flip is another damage.
	if _, err := LoadIndex(r.fs, g.stem()+IndexExtension, &g.header, g.end()); err != nil {
		t.Fatal(err)
	}
	r.flip(g.stem()+IndexExtension, FileHeaderBytes+20)
	o.verify()
	if st := r.store.Stats(); st.ScrubIndexes != 2 {
		t.Errorf("%d damaged indexes", st.ScrubIndexes)
	}
}

// A damaged header hides nothing behind it, and is written again.
func TestScrubMendsAHeader(t *testing.T) {
	r, owners, lines := scrubRig(t, nil)
	o := owners[0]
	for i, g := range []*segment{o.log.segments[1], o.log.active()} {
		r.flip(g.path, 20)
		r.flip(g.path, FileHeaderBytes+FrameHeaderBytes+9)
		for range 2 {
			o.verify()
		}
		if st := r.store.Stats(); st.ScrubFiles != uint64(i+1) || st.ScrubRecords != uint64(i+1) {
			t.Fatalf("%+v\n%s", st, lines)
		}
		b, err := readFile(r.fs, g.path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := ParseFileHeader(b); err != nil || h != g.header {
			t.Fatalf("%+v, %v", h, err)
		}
	}
	if count(lines.String(), damageOfHeader) != 2 {
		t.Fatal(lines)
	}
}

// A header that is damaged together with the first write is known from the index.
func TestStartMendsAHeaderFromTheIndex(t *testing.T) {
	r, owners, _ := scrubRig(t, nil)
	g := owners[0].log.segments[1]
	path, header, want := g.path, g.header, owners[0].log.EndOffset()
	r.stop()
	for _, at := range []int64{20, FileHeaderBytes + 9, FileHeaderBytes + FrameHeaderBytes + 9} {
		r.flip(path, at)
	}
	r.start()
	for _, id := range []core.PartitionID{16, 17} {
		r.open(id)
	}
	r.store.Start()
	o := r.owners[16]
	if got := o.log.segments[1].header; got != header || o.log.EndOffset() != want {
		t.Fatalf("%+v, was %+v; the log ends at %d, not %d", got, header, o.log.EndOffset(), want)
	}
	o.verify()
	if d := o.log.Damaged(); len(d) != 1 || d[0].Start != header.BaseOffset {
		t.Fatalf("%+v", d)
	}
}

// A segment whose file is gone takes all its records with it; the others are served.
func TestScrubFindsAMissingFile(t *testing.T) {
	r, owners, _ := scrubRig(t, nil)
	o := owners[0]
	g := o.log.segments[1]
	if err := r.fs.Remove(g.path); err != nil {
		t.Fatal(err)
	}
	o.verify()
	d := o.log.Damaged()
	if len(d) != 1 || d[0].Start != g.header.BaseOffset || d[0].Next != g.next {
		t.Fatalf("%+v", d)
	}
	if _, err := o.read(g.next, o.log.EndOffset(), 1<<20); err != nil {
		t.Fatal(err)
	}
}

// What is synced of the segment that is being written is read again, too: a small
// topic has no other for a week.
func TestScrubReadsTheActiveSegment(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.ScrubNanos = -1 })
	o := r.serve(16)[0]
	for range 10 {
		o.append(2, 2000)
		r.settle()
	}
	r.store.requestFlush(o.log, o.log.index)
	r.settle()
	g := o.log.active()
	o.verify()
	if r.store.stats.ScrubBytes == 0 || len(o.log.Damaged()) != 0 {
		t.Fatalf("%+v %+v", r.store.stats, o.log.Damaged())
	}
	r.flip(g.path, g.position-core.DiskAlignment-2000)
	o.verify()
	if len(o.log.Damaged()) != 1 || r.store.stats.ScrubRecords != 1 {
		t.Fatalf("%+v", o.log.Damaged())
	}
}

// The frame is as it was written, the batch in it was not when it got there: the
// producer's own checksum says so.
func TestScrubChecksBatches(t *testing.T) {
	w := smallSegment(t)
	var s Scanner
	if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), nil); err != nil {
		t.Fatal(err)
	}
	for s.Next() && s.Frame.Kind != FrameData {
	}
	if holes := appendBadBatches(nil, &s); len(holes) != 0 {
		t.Fatalf("%v", holes)
	}
	b := proto.Batch(s.Payload)
	b[proto.BatchHeaderBytes+3] ^= 1
	holes := appendBadBatches(nil, &s)
	if len(holes) != 1 || holes[0].OffsetFirst != s.Frame.BaseOffset || holes[0].OffsetNext != s.Frame.Next() {
		t.Fatalf("%v", holes)
	}
	var bad *proto.BatchError
	if !errors.As(holes[0].Cause, &bad) {
		t.Fatal(holes[0].Cause)
	}
}

// Between two passes nothing is read. What somebody asks for is read all the same,
// and then is known to have been verified since.
func TestScrubRests(t *testing.T) {
	r, owners, _ := scrubRig(t, func(o *rigOptions) { o.store.ScrubNanos = 3600e9 })
	for range 100 {
		r.tick(1e8)
	}
	st := r.store.Stats()
	if st.ScrubPasses != 1 || st.ScrubBegan == 0 || st.ScrubLeft != 0 {
		t.Fatalf("%+v", st)
	}
	read := st.ScrubBytes
	began := r.clock.wall
	owners[0].verify()
	st = r.store.Stats()
	if v := owners[0].log.Verification(); v.Since < began || st.ScrubBytes < read+uint64(v.SealedBytes) {
		t.Fatalf("%+v %+v", v, st)
	}
	read = st.ScrubBytes
	for range 100 {
		r.tick(1e9)
	}
	if n := r.store.Stats().ScrubBytes; n != read {
		t.Fatalf("%d bytes were read at rest", n-read)
	}
	for range 100 {
		r.tick(60e9)
	}
	if n := r.store.Stats().ScrubPasses; n != 2 && n != 3 {
		t.Fatalf("%d passes", n)
	}
}

// A pass goes on where the process before was, and a restart does not begin one
// that is not due.
func TestScrubGoesOnAfterARestart(t *testing.T) {
	r, _, _ := scrubRig(t, func(o *rigOptions) {
		o.store.ScrubNanos = 3600e9
		o.store.ScrubBytesPerSecond = 1 // a stretch at a time
	})
	c := &r.store.scrubber
	for c.pass.id != 17 {
		c.budget.saved = scrubStretchBytes
		r.tick(1e6)
		if r.store.stats.ScrubPasses > 0 {
			t.Fatal("the pass is over")
		}
	}
	r.tick(2 * scrubSaveNanos)
	c.budget.saved = scrubStretchBytes
	r.tick(1e6)
	id, began := c.pass.id, c.passBegan
	restart := func() *scrubber {
		r.stop()
		r.start()
		r.open(16)
		r.open(17)
		r.store.Start()
		return &r.store.scrubber
	}
	c = restart()
	if c.pass.id != id || c.passBegan != began || c.pass.index == 0 || c.passLeft == 0 {
		t.Fatalf("%+v, it was at log %d of the pass of %d", c, id, began)
	}
	r.store.options.ScrubBytesPerSecond = 1 << 40
	for range 100 {
		r.tick(1e9)
	}
	if r.store.stats.ScrubPasses != 1 {
		t.Fatalf("%+v", r.store.stats)
	}
	c = restart()
	for range 10 {
		r.tick(1e9)
	}
	if c.endedBegan != began || r.store.stats.ScrubBytes != 0 {
		t.Fatalf("%+v", c)
	}
	// A place that is damaged, or lies ahead of the clock, is as good as none.
	r.flip(scrubPlacePath(0), FileHeaderBytes+20)
	if c = restart(); c.endedBegan != 0 || c.passBegan != 0 {
		t.Fatalf("%+v", c)
	}
}

// A topic that is deleted does not wait until its segment has been read to the end.
func TestScrubLetsGoOfADroppedLog(t *testing.T) {
	r, owners, _ := scrubRig(t, func(o *rigOptions) { o.store.ScrubBytesPerSecond = 1 })
	l := owners[0].log
	r.store.Verify(l)
	c := &r.store.scrubber
	r.until("a segment is being read", func() bool {
		c.budget.saved = scrubStretchBytes
		r.clock.advance(1)
		r.store.Tick(r.clock.mono)
		return c.current != nil
	})
	done := false
	r.store.DropLog(l, func() { done = true })
	for range 10 {
		r.tick(1e6)
	}
	if !done {
		t.Fatal("the deletion waits for the scrubber")
	}
}

// Settings that want old segments removed take effect on a log at rest.
func TestSettingsWakeALogAtRest(t *testing.T) {
	r, owners, _ := scrubRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := owners[0]
	for range 10 {
		r.tick(10e9)
	}
	if o.log.inActiveList {
		t.Skip("the log is not at rest")
	}
	lo := o.log.options
	lo.RetentionBytes = 100 << 10
	before := len(o.log.segments)
	r.store.SetOptions(o.log, lo)
	for range 10 {
		r.tick(1e9)
	}
	if len(o.log.segments) >= before {
		t.Fatalf("%d segments of %d are left of a log that may have %d bytes", len(o.log.segments), before, lo.RetentionBytes)
	}
}

// A flipped frame header costs what lies before the next place that is known to begin
// a frame: reading again loses no more than a reader does, though marks are far apart.
func TestScrubLosesNoMoreThanReads(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 1 << 20}
		o.store.ScrubNanos = -1
		o.store.FlushBytes = 512 << 10
		o.store.CacheBytes = 1
	})
	o := r.serve(16)[0]
	for range 1500 {
		for o.tryAppend(1, 1000, core.DurabilitySync) != nil {
			r.tick(1e6)
		}
		r.turn()
	}
	r.store.requestFlush(o.log, o.log.index)
	r.settle()
	for _, g := range []*segment{o.log.segments[0], o.log.active()} {
		var s Scanner
		b, err := readFile(r.fs, g.path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Open(bytes.NewReader(b), int64(len(b)), nil); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 20 && s.Next(); n++ {
		}
		lost := s.Frame.BaseOffset
		r.flip(g.path, s.Position+9)
		o.verify()
		last := o.log.Damaged()[len(o.log.Damaged())-1]
		if last.Start != lost || last.Next-last.Start > core.IndexIntervalBytes/1000+1 {
			t.Errorf("the header of offset %d is hurt, and [%d, %d) are lost", lost, last.Start, last.Next)
		}
	}
	if len(o.log.Damaged()) != 2 || r.store.stats.ScrubRecords != 2 {
		t.Errorf("%+v", o.log.Damaged())
	}
}

// What the device does not give for a moment is told, and is not kept from readers once it does; the next pass
// forgets it.
func TestScrubReadErrorPasses(t *testing.T) {
	r, owners, lines := scrubRig(t, nil)
	o := owners[1]
	l := o.log
	g := l.segments[1]
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: g.path, Count: -1})
	o.verify()
	if fault.Hits() == 0 || len(l.Damaged()) == 0 || !strings.Contains(lines.String(), ErrUnreadable.Error()) {
		t.Fatalf("%d reads failed, damage %+v\n%s", fault.Hits(), l.Damaged(), lines)
	}
	r.fs.ClearFaults()
	o.check(0)
	o.verify()
	if d := l.Damaged(); len(d) > 0 {
		t.Errorf("after a pass that was given everything: %+v", d)
	}
	o.check(0)
}
