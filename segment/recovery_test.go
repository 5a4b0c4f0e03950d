package segment

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// readAll reads a file as it is on the disk.
func (r *rig) readAll(name string) []byte {
	r.t.Helper()
	b, err := readFile(r.fs, name, 1<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// patch changes bytes of a file and syncs it.
func (r *rig) patch(name string, at int64, b []byte) {
	r.t.Helper()
	f, err := r.fs.Open(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := f.WriteAt(b, at); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		r.t.Fatal(err)
	}
	f.Close()
}

// The journal's last group, not known durable, torn at any byte: cut, and the next
// append uses only offsets that were never acked.
func TestDurablePointTornJournalTail(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(2, 100)
	r.settle()
	acked := o.log.EndOffset()
	start := r.store.journal.position
	o.append(3, 1000)
	r.store.Flush(r.clock.mono) // in flight, never acked
	want := o.history[:1]
	name := r.store.journal.current.path
	whole := r.fs.Crash(1, mem.CrashOptions{Data: mem.FateKeep, InFlight: mem.FateKeep, Entries: mem.FateKeep})
	full := (&rig{t: t, fs: whole}).readAll(name)
	bytes := int(alignUp(GroupHeaderBytes+FrameHeaderBytes+3200)) + 1
	for cut := 0; cut < bytes; cut += 61 {
		c := *r
		c.ops = nil
		c.fs = whole.Kill(0)
		c.patch(name, start+int64(cut), make([]byte, int64(len(full))-start-int64(cut)))
		c.start()
		o := c.reopen(16)[0]
		end := o.log.EndOffset()
		if end != acked && end != acked+3 {
			t.Fatalf("cut at %d: the log ends at %d, want %d or %d", cut, end, acked, acked+3)
		}
		if end == acked && len(o.history) != len(want) {
			t.Fatalf("cut at %d: %d batches", cut, len(o.history))
		}
		if len(o.log.Damaged()) > 0 {
			t.Fatalf("cut at %d: a torn tail is called damage: %+v", cut, o.log.Damaged())
		}
		if n := c.store.stats.JournalDamages; n > 0 {
			t.Fatalf("cut at %d: a torn tail is counted as %d damages of the journal", cut, n)
		}
		o.append(1, 10)
		c.settle()
		o.check(0)
	}
}

// A direct frame at the end of its segment, not known durable, torn at any byte.
func TestDurablePointTornSegmentTail(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(2, 100)
	r.settle()
	o.append(1, 70<<10)
	r.settle()
	acked := o.log.EndOffset()
	g := o.log.active()
	start := g.position
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*", Action: mem.FaultDelay, Delay: 1000, Count: -1})
	o.append(1, 66<<10)
	for g.position == start || r.driver.Pending() > 1 {
		r.turn()
	}
	r.fs.ClearFaults()
	if o.log.DurableOffset() != acked {
		t.Fatal("acked without a sync")
	}
	whole := r.fs.Crash(1, mem.CrashOptions{Data: mem.FateKeep, InFlight: mem.FateDrop, Entries: mem.FateKeep})
	full := (&rig{t: t, fs: whole}).readAll(g.path)
	for cut := int64(0); cut < 70<<10; cut += 1777 {
		c := *r
		c.ops = nil
		c.fs = whole.Kill(0)
		c.patch(g.path, start+cut, make([]byte, int64(len(full))-start-cut))
		c.start()
		o := c.reopen(16)[0]
		if end := o.log.EndOffset(); end != acked && end != acked+1 {
			t.Fatalf("cut at %d: the log ends at %d", cut, end)
		}
		if len(o.log.Damaged()) > 0 {
			t.Fatalf("cut at %d: a torn tail is called damage: %+v", cut, o.log.Damaged())
		}
		o.append(1, 10)
		o.append(1, 65<<10)
		c.settle()
		o.check(0)
	}
}

// The same bytes below the durable point are damage: never cut, never reused, and
// what is before and after stays readable.
func TestDurablePointDamageIsNeverCut(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for range 5 {
		o.append(1, 70<<10)
		r.settle()
	}
	r.stop()
	history := o.history
	g := o.log.active()
	name := g.path
	base := r.fs.Kill(0)
	var sc Scanner
	f, err := base.OpenRead(name)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	if err := sc.Open(f, size, nil); err != nil {
		t.Fatal(err)
	}
	type place struct {
		at   int64
		base core.Offset
		mark bool
	}
	var places []place
	for sc.Next() {
		places = append(places, place{sc.Position + 20, sc.Frame.BaseOffset, sc.Frame.Kind == FrameWriteMark})
		if sc.Frame.Bytes > 100 {
			places = append(places, place{sc.Position + FrameHeaderBytes + int64(sc.Frame.Bytes)/2, sc.Frame.BaseOffset, false})
		}
	}
	for i, p := range places {
		for _, clean := range []bool{true, false} {
			c := *r
			c.ops = nil
			c.fs = base.Kill(0)
			if !clean { // as if the last group of the stop had been lost: not clean, marks decide
				c.patch(JournalPath(1, 0, r.store.journal.current.number), r.store.journal.position-core.DiskAlignment, make([]byte, core.DiskAlignment))
			}
			raw := c.readAll(name)
			c.patch(name, p.at, []byte{raw[p.at] ^ 4})
			c.start()
			if c.store.Clean() != clean {
				t.Fatalf("place %d: clean is %v", i, c.store.Clean())
			}
			o := c.reopen(16)[0]
			last := p.base == history[len(history)-1].base
			if o.log.EndOffset() != 6 && !(last && !clean) {
				t.Fatalf("place %d of %d, position %d, clean %v: the log ends at %d, want 6", i, len(places), p.at, clean, o.log.EndOffset())
			}
			for offset := core.Offset(0); offset < o.log.EndOffset(); offset++ {
				got, err := o.read(offset, offset+1, 1<<20)
				var corrupt *CorruptError
				switch {
				case err == nil && string(got) != string(history[offset].bytes):
					t.Fatalf("place %d: offset %d reads wrong bytes", i, offset)
				case err != nil && !errors.As(err, &corrupt):
					t.Fatalf("place %d: offset %d: %v", i, offset, err)
				case err != nil && (offset < corrupt.Start || offset >= corrupt.Next || offset != p.base):
					t.Fatalf("place %d (offset %d): reading %d answers %v", i, p.base, offset, err)
				}
			}
			end := o.log.EndOffset()
			o.history = nil
			o.append(1, 10)
			c.settle()
			if got := o.history[0].base; got != end {
				t.Fatalf("place %d: appended at %d, want %d", i, got, end)
			}
		}
	}
}

// A flipped bit in a synced journal group is damage, not the end of the journal:
// what follows is kept.
func TestDurablePointJournalDamage(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	owners[0].append(1, 100)
	owners[1].append(1, 100)
	r.settle()
	at := r.store.journal.position
	owners[0].append(1, 500)
	r.settle()
	for range 3 {
		owners[0].append(1, 100)
		owners[1].append(1, 100)
		r.settle()
	}
	name := r.store.journal.current.path
	for _, in := range []int64{8, GroupHeaderBytes + 20, GroupHeaderBytes + FrameHeaderBytes + 50} {
		c := *r
		c.ops = nil
		c.fs = r.fs.Kill(0)
		raw := c.readAll(name)
		c.patch(name, at+in, []byte{raw[at+in] ^ 1, raw[at+in+1] ^ 1}) // one byte of a header would be mended
		c.start()
		if c.store.stats.JournalDamages == 0 {
			t.Fatalf("byte %d: the damage was not noticed", in)
		}
		got := c.reopen(16, 17)
		if end := got[0].log.EndOffset(); end != 5 {
			t.Fatalf("byte %d: partition 16 ends at %d, want 5", in, end)
		}
		if end := got[1].log.EndOffset(); end != 4 {
			t.Fatalf("byte %d: partition 17 ends at %d, want 4", in, end)
		}
		_, err := got[0].read(1, 2, 1<<20)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Start != 1 || corrupt.Next != 2 {
			t.Fatalf("byte %d: reading the lost offset: %v", in, err)
		}
		if _, err := got[0].read(2, 5, 1<<20); err != nil {
			t.Fatalf("byte %d: behind the damage: %v", in, err)
		}
		if _, err := got[1].read(0, 4, 1<<20); err != nil {
			t.Fatalf("byte %d: another partition: %v", in, err)
		}
	}
}

// stateRig makes a log of several segments with states.
func stateRig(t *testing.T) (*rig, *rigOwner) {
	r := newRig(t, func(o *rigOptions) {
		o.log.SegmentBytes = 128 << 10
		o.store.StateBytes = 96 << 10
	})
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for range 14 {
		o.append(1, 66<<10)
		r.settle()
		r.tick(1e6)
	}
	r.tick(1e6)
	if len(o.log.segments) < 4 || r.store.stats.StatesWritten < 3 {
		t.Fatalf("%d segments, %d states", len(o.log.segments), r.store.stats.StatesWritten)
	}
	return r, o
}

// A start reads only what lies behind the newest state; a bad state falls back to
// the one before; without any, the log from its first frame; and without that the
// partition refuses.
func TestStateFallback(t *testing.T) {
	r, o := stateRig(t)
	history, sum := o.history, o.sum
	base := r.fs.Kill(0)
	dir := rigIdentity(16).dir()
	states := func(fs *mem.FS) (names []string) {
		list, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if strings.HasSuffix(e.Name, StateExtension) {
				names = append(names, path.Join(dir, e.Name))
			}
		}
		return names
	}
	names := states(base)
	for bad := 0; bad <= len(names); bad++ {
		c := *r
		c.ops = nil
		c.fs = base.Kill(0)
		for _, name := range names[len(names)-bad:] {
			c.patch(name, FileHeaderBytes+10, []byte{0xff, 0xee})
		}
		c.start()
		o := c.reopen(16)[0]
		if o.sum != sum || o.log.EndOffset() != history[len(history)-1].next {
			t.Fatalf("%d bad states: the state or the end differ", bad)
		}
		if o.restored != (bad < len(names)) {
			t.Fatalf("%d of %d states bad: restored %v", bad, len(names), o.restored)
		}
		if bad == 0 && len(o.history) > 4 {
			t.Fatalf("%d batches were replayed behind the newest state", len(o.history))
		}
		if bad > 0 && bad < len(names) && len(o.history) == len(history) {
			t.Fatalf("%d bad states: everything was replayed", bad)
		}
	}
	// Without the first segment and without a state there is nothing to start from.
	c := *r
	c.fs = base.Kill(0)
	for _, name := range names {
		if err := c.fs.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.fs.Remove(path.Join(dir, SegmentName(0, 1)+LogExtension)); err != nil {
		t.Fatal(err)
	}
	c.start()
	if _, err := c.tryOpen(16); !errors.Is(err, ErrStateMissing) {
		t.Fatalf("started without a base: %v", err)
	}
}

// Retention removes old segments by size and by age, never the active one, and
// only when a later state can start the log.
func TestRetention(t *testing.T) {
	r, o := stateRig(t)
	dir := rigIdentity(16).dir()
	before := len(o.log.segments)
	lo := o.log.options
	lo.RetentionBytes = 150 << 10
	// No state, no removal.
	verified := []*segment{}
	for _, g := range o.log.segments {
		if g.stateVerified {
			verified = append(verified, g)
			g.stateVerified = false
		}
	}
	r.store.SetOptions(o.log, lo)
	for range 5 {
		r.tick(1e6)
	}
	if len(o.log.segments) != before || o.log.StartOffset() != 0 {
		t.Fatalf("segments were removed although no state was read back: %d of %d, start %d", len(o.log.segments), before, o.log.StartOffset())
	}
	for _, g := range verified {
		g.stateVerified = true
	}
	for range 5 {
		r.tick(1e6)
	}
	if o.log.StartOffset() == 0 || len(o.log.segments) >= before {
		t.Fatalf("nothing was removed: start %d, %d segments", o.log.StartOffset(), len(o.log.segments))
	}
	if o.log.SizeBytes() < 150<<10 {
		t.Fatalf("%d bytes are left, %d should be kept", o.log.SizeBytes(), 150<<10)
	}
	list, err := r.fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, e := range list {
		if strings.HasSuffix(e.Name, LogExtension) {
			logs++
		}
	}
	if logs != len(o.log.segments) {
		t.Fatalf("%d files for %d segments", logs, len(o.log.segments))
	}
	start := o.log.StartOffset()
	o.check(start)
	var outside *RangeError
	if _, err := o.read(0, 1, 100); !errors.As(err, &outside) || outside.Start != start {
		t.Fatalf("reading what was removed: %v", err)
	}
	sum := o.sum
	r.crash(3, dropAll)
	o = r.reopen(16)[0]
	if o.log.StartOffset() != start || o.sum != sum {
		t.Fatalf("after a crash the log starts at %d, want %d", o.log.StartOffset(), start)
	}
	// By age: everything but the active segment, after its time.
	lo.RetentionBytes, lo.RetentionNanos = -1, 3600e9
	r.store.SetOptions(o.log, lo)
	r.tick(60e9)
	if o.log.StartOffset() != start {
		t.Fatal("removed before its time")
	}
	for range 50 { // two clocks that go together
		r.tick(120e9)
	}
	for range 5 {
		r.tick(1e6)
	}
	if len(o.log.segments) != 1 || o.log.segments[0].empty() {
		t.Fatalf("%d segments are left after their time", len(o.log.segments))
	}
	if o.log.StartOffset() >= o.log.EndOffset() {
		t.Fatal("the active segment was emptied")
	}
}

// A wall clock that jumps a year ahead deletes nothing.
func TestClockJumpStopsRetention(t *testing.T) {
	r, o := stateRig(t)
	lo := o.log.options
	lo.RetentionNanos = 3600e9
	r.store.SetOptions(o.log, lo)
	r.tick(1e6)
	r.clock.wall += 365 * 24 * 3600e9
	for range 10 {
		r.tick(1e9)
	}
	if o.log.StartOffset() != 0 {
		t.Fatalf("the log starts at %d after the clock jumped", o.log.StartOffset())
	}
	if !r.store.Stats().ClockJumped {
		t.Fatal("nobody was told")
	}
	r.clock.wall -= 365 * 24 * 3600e9
	r.tick(1e9)
	if r.store.Stats().ClockJumped {
		t.Fatal("the clocks agree again and nobody was told")
	}
	if o.log.StartOffset() != 0 {
		t.Fatal("deleted before its time")
	}
}

// A trim is durable before it is answered; after an emptied log the next offset is
// still the next.
func TestTrim(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(5, 100)
	r.settle()
	if err := r.store.Trim(o.log, 5); err != nil {
		t.Fatal(err)
	}
	if o.log.StartOffset() != 0 {
		t.Fatal("the log start moved before it was durable")
	}
	r.settle()
	if o.log.StartOffset() != 5 {
		t.Fatalf("the log starts at %d", o.log.StartOffset())
	}
	var outside *RangeError
	if err := r.store.Trim(o.log, 6); !errors.As(err, &outside) {
		t.Fatalf("a trim behind the end: %v", err)
	}
	r.crash(1, dropAll)
	o = r.reopen(16)[0]
	if o.log.StartOffset() != 5 || o.log.EndOffset() != 5 {
		t.Fatalf("after a crash the log is [%d, %d)", o.log.StartOffset(), o.log.EndOffset())
	}
	o.history = nil
	o.append(1, 10)
	r.settle()
	if o.history[0].base != 5 {
		t.Fatalf("the next offset was %d", o.history[0].base)
	}
}

// A deleted partition leaves no files and no claim on the journal.
func TestDropLog(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 100)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
		o.append(1, 100)
	}
	r.store.Flush(r.clock.mono) // in flight
	owners[0].append(1, 90<<10) // not placed yet
	written := r.store.stats.SegmentWrites
	done := false
	r.store.DropLog(owners[0].log, func() { done = true })
	r.until("the deletion", func() bool { return done })
	if _, err := r.fs.List(rigIdentity(16).dir()); err == nil {
		t.Fatal("the partition's folder is still there")
	}
	if _, err := r.fs.List(path.Dir(rigIdentity(16).dir())); err == nil {
		t.Fatal("the topic's empty folder is still there")
	}
	if r.store.stats.SegmentWrites > written+1 {
		t.Fatal("a deleted partition's frames were flushed")
	}
	if err := owners[0].tryAppend(1, 10, core.DurabilitySync); !errors.Is(err, ErrLogDropped) {
		t.Fatalf("an append to a deleted log: %v", err)
	}
	r.settle()
	for i := 0; r.store.stats.JournalRecycles < 2; i++ {
		owners[1].append(2, 3000)
		r.turn()
		if i > 5000 {
			t.Fatal("the journal is not recycled any more")
		}
	}
	owners[1].check(0)
	if r.store.cache.bytes < 0 {
		t.Fatalf("the cache holds %d bytes", r.store.cache.bytes)
	}
}

// Idle partitions hold no file and no memory; they are read and written again.
func TestIdleHoldsNothing(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	owners := r.serve(16, 17, 18)
	for _, o := range owners {
		o.append(3, 100)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
	}
	for range 5 {
		r.tick(1e9)
	}
	if st := r.store.Stats(); st.OpenFiles != 0 || st.CacheBytes != 0 {
		t.Fatalf("%d open files, %d bytes in the cache", st.OpenFiles, st.CacheBytes)
	}
	for _, o := range owners {
		if o.log.chunks.len() != 0 || o.log.tailSlab != nil || o.log.pending.frames != nil || o.log.writer != nil {
			t.Fatal("an idle log holds memory")
		}
		o.check(0)
		o.append(1, 10)
		r.settle()
		o.check(0)
	}
}

// A log that rests for good, because nothing ever leaves it, is looked at again once somebody has read it: the indexes
// and files that a read took are given up.
func TestIndexOfALogAtRest(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.store.IdleNanos = 1e9
		o.log.SegmentBytes, o.log.RetentionNanos, o.log.RetentionBytes = 512<<10, -1, -1
	})
	o := r.serve(16)[0]
	for range 10 {
		o.append(1, 100<<10)
		r.settle()
	}
	resting := func(when string) {
		t.Helper()
		for range 5 {
			r.tick(1e9)
		}
		if len(r.store.activeList) > 0 {
			t.Fatalf("the log is looked at %s", when)
		}
	}
	resting("although it is idle")
	for range 2 {
		if _, err := o.read(3, 4, 1); err != nil {
			t.Fatal(err)
		}
		if o.log.segments[0].index == nil {
			t.Fatal("the first segment was read without its index")
		}
		resting("although nobody reads it any more")
		if o.log.segments[0].index != nil {
			t.Fatal("the index of a log at rest is kept")
		}
	}
}

// After a clean stop the next start keeps the term, and what was stopped is whole.
func TestCleanStopKeepsTerm(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityNone} })
	o := r.serve(16)[0]
	for i := range 10 {
		o.append(1, 100)
		if i == 5 {
			o.append(1, 100<<10)
		}
		r.turn()
	}
	term, end := o.log.Term(), o.log.EndOffset()
	r.stop()
	if err := o.tryAppend(1, 1, core.DurabilityNone); !errors.Is(err, ErrStoreStopping) {
		t.Fatalf("an append after the stop: %v", err)
	}
	r.crash(1, dropAll)
	if !r.store.Clean() {
		t.Fatal("the stop is not called clean")
	}
	o = r.reopen(16)[0]
	if o.log.Term() != term || o.log.EndOffset() != end {
		t.Fatalf("term %d and end %d after a clean stop, want %d and %d", o.log.Term(), o.log.EndOffset(), term, end)
	}
	o.check(0)
}

// A look-up by time finds the exact record, in memory and on the disk.
func TestLookupTime(t *testing.T) {
	r, o := stateRig(t)
	o.append(4, 10)
	r.settle()
	for pass := range 2 {
		var first, last int64
		for i, b := range o.history {
			ts := batchTimestamp(b)
			if i == 0 {
				first = ts
			}
			last = ts
			got := r.lookup(o.log, ts)
			if got.Offset != b.base || got.Timestamp != ts {
				t.Fatalf("pass %d: the first record at %d is said to be %+v, want offset %d", pass, ts, got, b.base)
			}
			if b.next-b.base > 2 {
				if got := r.lookup(o.log, ts+2); got.Offset != b.base+2 {
					t.Fatalf("pass %d: %+v, want offset %d", pass, got, b.base+2)
				}
			}
		}
		if got := r.lookup(o.log, first-5000); got.Offset != 0 {
			t.Fatalf("before all: %+v", got)
		}
		if got := r.lookup(o.log, last+5000); got.Offset != -1 {
			t.Fatalf("behind all: %+v", got)
		}
		l := &rigLookup{}
		r.store.LookupMaxTimestamp(o.log, l)
		r.until("the look-up", func() bool { return l.done })
		if l.err != nil || l.found.Offset != o.log.EndOffset()-1 {
			t.Fatalf("max timestamp: %+v, %v", l.found, l.err)
		}
		history := o.history
		r.kill(1)
		o = r.reopen(16)[0]
		o.history = history
	}
}

type rigLookup struct {
	found Lookup
	err   error
	done  bool
}

func (l *rigLookup) LookupDone(found Lookup, err error) { l.found, l.err, l.done = found, err, true }

func (r *rig) lookup(l *Log, ts int64) Lookup {
	r.t.Helper()
	u := &rigLookup{}
	r.store.LookupTime(l, ts, u)
	r.until("the look-up", func() bool { return u.done })
	if u.err != nil {
		r.t.Fatal(u.err)
	}
	return u.found
}
