package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// cursorRig is a log that may have 200 KiB, with 60 KiB of records.
func cursorRig(t *testing.T) (*rig, *rigOwner) {
	r := newRig(t, func(o *rigOptions) {
		o.log.SegmentBytes = 64 << 10
		o.log.RetentionBytes = 200 << 10
		o.store.StateBytes = 16 << 10
		o.store.FlushBytes = 8 << 10
	})
	o := r.serve(16)[0]
	for range 30 {
		o.append(1, 2<<10)
		r.settle()
	}
	return r, o
}

// commits appends cursors of a size together, a turn for each.
func (o *rigOwner) commits(bytes int) {
	o.rig.t.Helper()
	payload := make([]byte, 500)
	for n := 0; n < bytes; n += FrameHeaderBytes + len(payload) {
		if err := o.rig.store.AppendControl(o.log, FrameCursor, payload, core.DurabilitySync, true); err != nil {
			o.rig.t.Fatal(err)
		}
		o.rig.settle()
		if n%(16<<10) < FrameHeaderBytes+len(payload) {
			o.rig.tick(1e6)
		}
	}
	for range 5 {
		o.rig.tick(1e6)
	}
}

// What groups commit does not take the room of records, also after a start, which knows what the cursors of ended
// segments take from their indexes alone.
func TestCursorsTakeNoRoomOfRecords(t *testing.T) {
	r, o := cursorRig(t)
	o.commits(180 << 10)
	if o.log.StartOffset() != 0 {
		t.Fatalf("the log starts at %d: commits have removed records", o.log.StartOffset())
	}
	if size := o.log.SizeBytes(); size < 200<<10 {
		t.Fatalf("the log takes %d bytes, which shows nothing", size)
	}
	r.kill(1)
	o = r.reopen(16)[0]
	if g := o.log.segments[0]; g.learned || g.index != nil {
		t.Fatal("the first segment's cursors are known after a start; this test is about one whose are not")
	}
	r.workers.full = true // nobody has time to read an index
	for range 5 {
		r.clock.advance(1e6)
		r.store.Tick(r.clock.mono)
		r.turn()
	}
	r.workers.full = false
	for range 5 {
		r.tick(1e6)
	}
	if o.log.StartOffset() != 0 {
		t.Fatalf("after a start the log begins at %d: commits have removed records", o.log.StartOffset())
	}
	for range 120 {
		o.append(1, 2<<10)
		r.settle()
		r.tick(1e6)
	}
	for range 5 {
		r.tick(1e6)
	}
	if o.log.StartOffset() == 0 {
		t.Fatal("more records than the log may have are kept")
	}
}

// Who commits without end fills no disk: what cursors take beyond as much as records may take counts.
func TestCursorsHaveABound(t *testing.T) {
	_, o := cursorRig(t)
	o.commits(600 << 10)
	if o.log.StartOffset() == 0 {
		t.Fatal("the first segment was never removed")
	}
	if size := o.log.SizeBytes(); size > 2*200<<10+2*64<<10 {
		t.Fatalf("the log takes %d bytes", size)
	}
}
