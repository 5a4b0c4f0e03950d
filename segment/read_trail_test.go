package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// trailRig has a log whose records are on the disk alone and whose indexes are not in memory.
func trailRig(t *testing.T) (*rig, *rigOwner) {
	r := newRig(t, func(o *rigOptions) {
		o.store.IdleNanos = 1e9
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 600 << 10}
	})
	o := r.serve(16)[0]
	for i := range 60 {
		o.append(1+i%3, []int{100, 5 << 10, 70 << 10, 20}[i%4])
		if i%5 != 0 {
			r.settle()
		}
	}
	r.settle()
	for range 4 {
		r.tick(2e9)
	}
	for _, g := range o.log.segments {
		r.store.dropIndex(g)
	}
	if o.log.chunks.len() > 0 || len(o.log.segments) < 2 {
		t.Fatalf("%d chunks in memory, %d segments", o.log.chunks.len(), len(o.log.segments))
	}
	return r, o
}

// Who reads a log from its beginning on needs no index, however large the steps are: it may not be in memory, nor in a
// file, and then making it takes a pass over the whole segment.
func TestReadingOnNeedsNoIndex(t *testing.T) {
	for _, step := range []int{1, 3000, 100 << 10, 1 << 20} {
		r, o := trailRig(t)
		r.workers.full = true // nobody can load one
		o.checkFrom(0, step)
		for _, g := range o.log.segments {
			if g.index != nil {
				t.Errorf("steps of %d: segment %d has got an index", step, g.header.Segment)
			}
		}
		if r.store.stats.ReadsDisk < 2 {
			t.Fatalf("%d reads from the disk", r.store.stats.ReadsDisk)
		}
	}
}

// Damage that is met without an index has the range that the index gives it: what lies behind stays readable.
func TestDamageMetWithoutAnIndexHasItsRange(t *testing.T) {
	for _, header := range []bool{true, false} {
		ranges := make([]CorruptError, 0, 2)
		for _, on := range []bool{false, true} {
			r, o := trailRig(t)
			g := o.log.segments[0]
			var sc Scanner
			f, err := r.fs.Open(g.path)
			if err != nil {
				t.Fatal(err)
			}
			if err := sc.Open(f, g.position, &g.header); err != nil {
				t.Fatal(err)
			}
			at, hurt := int64(0), core.Offset(0)
			for sc.Next() {
				if sc.Frame.Kind == FrameData && sc.Frame.Bytes > 65<<10 && sc.Frame.BaseOffset > 4 {
					at, hurt = sc.Position, sc.Frame.BaseOffset
					break
				}
			}
			if hurt == 0 || hurt+4 > g.next {
				t.Fatalf("frame at offset %d is to be hurt, the segment ends at %d", hurt, g.next)
			}
			if !header {
				at += FrameHeaderBytes + 10
			}
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, at); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 1
			if _, err := f.WriteAt(b, at); err != nil {
				t.Fatal(err)
			}
			f.Close()
			if on {
				if _, err := o.read(0, hurt, 1000); err != nil { // up to it, by the trail
					t.Fatal(err)
				}
			}
			_, err = o.read(hurt, o.log.EndOffset(), 1000)
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("reading what was hurt: %v", err)
			}
			ranges = append(ranges, *corrupt)
			if corrupt.Start != hurt || corrupt.Next <= hurt || corrupt.Next >= g.next {
				t.Errorf("hurt at %d, [%d, %d) is called damaged", hurt, corrupt.Start, corrupt.Next)
			}
			if len(o.log.damaged) != 1 {
				t.Errorf("damage was noted %d times", len(o.log.damaged))
			}
		}
		if ranges[0].Start != ranges[1].Start || ranges[0].Next != ranges[1].Next {
			t.Errorf("header %v: [%d, %d) by the index, [%d, %d) without", header, ranges[0].Start, ranges[0].Next, ranges[1].Start, ranges[1].Next)
		}
	}
}

// What a failed write takes back is not where a read goes on.
func TestTrailEndsWithItsSegment(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(16)[0]
	for range 3 {
		o.append(1, 70<<10)
		r.settle()
	}
	r.tick(2e9)
	r.tick(2e9)
	o.checkFrom(0, 1)
	g := o.log.active()
	if _, ok := r.store.trails.find(g, 2); !ok {
		t.Fatal("the read has left no trail")
	}
	r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log"})
	if err := o.tryAppend(1, 70<<10, core.DurabilitySync); err != nil {
		t.Fatal(err)
	}
	r.settle()
	if o.log.active() == g && !o.log.rollWanted {
		t.Fatal("the segment goes on")
	}
	if _, ok := r.store.trails.find(g, 2); ok {
		t.Error("the trail of a segment that was cut is still followed")
	}
	o.check(0)
}

// Many readers go through many segments at once, and each finds its place again.
func TestReadersKeepTheirTrails(t *testing.T) {
	const readers, steps = 64, 50
	var at trails
	var segments [readers]*segment
	for i := range segments {
		segments[i] = &segment{header: FileHeader{Partition: core.PartitionID(i + 1), Segment: 1}}
	}
	lost := 0
	for step := range steps {
		for i, g := range segments {
			if position, ok := at.find(g, core.Offset(step*10)); !ok {
				lost++
			} else if step > 0 && position != int64(step*1000+i) {
				t.Fatalf("reader %d finds position %d for step %d", i, position, step)
			}
			at.note(g, core.Offset(step*10+10), int64(step*1000+1000+i))
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d places were forgotten", lost, readers*steps)
	}
}
