package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// store appends a message as a client does, again when it was refused or rolled back. It
// returns how often it was sent.
func (o *rigOwner) store(bytes int) (tries int) {
	o.rig.t.Helper()
	end := o.log.DurableOffset()
	for o.log.DurableOffset() == end {
		if tries++; tries > 5 {
			o.rig.t.Fatalf("after %d tries %d messages are stored, in %d segments, term %d", tries, end, len(o.log.segments), o.log.Term())
		}
		if o.log.EndOffset() == end {
			_ = o.tryAppend(1, bytes, core.DurabilitySync)
		}
		for range 64 {
			o.rig.turn()
		}
		if o.log.DurableOffset() == end {
			o.rig.clock.advance(2e9) // the rest after a failure
			o.rig.store.Tick(o.rig.clock.mono)
		}
	}
	return tries
}

// A limit on the size of files, below that of a segment and of an extent: segments end
// where the limit is, and what is sent finds its way after few refusals.
func TestSegmentEndsWhereItsFileMayNotGrow(t *testing.T) {
	const limit = 3 << 20 // more than a journal file has
	for name, c := range map[string]struct{ messages, bytes int }{
		"straight to the segment": {40, 400 << 10},
		"by the journal":          {400, 30 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.fs.SetFileBytes(limit)
			o := r.serve(16)[0]
			tries := 0
			for range c.messages {
				tries += o.store(c.bytes)
			}
			r.tick(2e9)
			total := c.messages * c.bytes
			if most := tries - c.messages; most > 2*(total/limit+2) {
				t.Errorf("%d tries failed", most)
			}
			if most := o.log.Term(); int(most) > 2*(total/limit+2) {
				t.Errorf("term %d", most)
			}
			if n := len(o.log.segments); n < total/limit || n > 2*total/limit+2 {
				t.Errorf("%d bytes in %d segments", total, n)
			}
			o.check(0)
			want := o.history
			r.crash(3, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			r.fs.SetFileBytes(limit)
			o = r.open(16)
			r.store.Start()
			if o.log.DurableOffset() != core.Offset(c.messages) || len(o.log.Damaged()) > 0 {
				t.Fatalf("after a power cut the log ends at %d with damage %v", o.log.DurableOffset(), o.log.Damaged())
			}
			o.history = want // what lies behind a state is not replayed
			o.check(0)
			r.stop()
			r.verify()
		})
	}
}

// A reservation that fails for another reason ends the segment too: it may be the file.
func TestSegmentEndsWhenItCannotBeReserved(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 900<<10)
	r.settle()
	old := o.log.active()
	r.fs.Inject(&mem.Fault{Kind: core.DiskAllocate, Path: old.path, Count: -1})
	for range 3 {
		o.store(900 << 10)
	}
	if o.log.active() == old {
		t.Error("the segment goes on")
	}
	o.check(0)
}

// What a segment reserves grows with what it holds: a partition that has just left its
// first extent does not take as much of the disk as one that is filled all day, and
// that one still seldom asks.
func TestExtentsGrowWithTheirSegment(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	const bytes = 200 << 10
	grown := 0
	for reserved := int64(0); ; {
		o.append(1, bytes)
		r.settle()
		g := o.log.active()
		if g == nil {
			continue // the first frames of a term go by the journal
		}
		if g.position >= 3*core.SegmentExtentBytes {
			break
		}
		if g.allocated != reserved {
			reserved = g.allocated
			grown++
		}
		room := g.allocated - g.position
		if most := min(max(g.position, core.SegmentExtentIdleBytes), core.SegmentExtentBytes); room > most {
			t.Fatalf("%d bytes are reserved behind %d that are written", room, g.position)
		}
	}
	if grown < 6 || grown > 9 {
		t.Errorf("48 MiB were reserved in %d pieces, want 1, 1, 2, 4, 8, 16, 16 MiB", grown)
	}
	o.check(0)
}
