package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// TestStoreScrubs: a store reads its sealed segments again within its budget,
// finds a flipped bit that nobody has read, and answers that range alone as damaged.
func TestStoreScrubs(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10}
		o.store.CacheBytes = 128 << 10
		o.store.ScrubBytesPerSecond = 10 << 20
		o.store.ScrubNanos = 1 // one pass after the other
	})
	r.serve(16, 17)
	for range 100 {
		for _, id := range []core.PartitionID{16, 17} {
			o := r.owners[id]
			for o.tryAppend(2, 2000, core.DurabilitySync) != nil {
				r.tick(1e6)
			}
		}
		r.settle()
	}
	round := func() {
		for want := r.store.stats.ScrubPasses + 2; r.store.stats.ScrubPasses < want; {
			r.tick(1e9)
		}
	}
	round()
	if r.store.stats.ScrubRecords != 0 || r.store.stats.ScrubBytes == 0 {
		t.Fatalf("%+v", r.store.stats)
	}
	o := r.owners[17]
	g := o.log.segments[1]
	f, err := r.fs.Open(g.path)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, core.DiskAlignment)
	at := g.position / 2 &^ (core.DiskAlignment - 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[1000] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	round()
	damaged := o.log.Damaged()
	if r.store.stats.ScrubRecords == 0 || len(damaged) != 1 || len(r.owners[16].log.Damaged()) != 0 {
		t.Fatalf("%+v %+v", r.store.stats, damaged)
	}
	d := damaged[0]
	if d.Start < g.header.BaseOffset || d.Next > g.next || d.Start >= d.Next {
		t.Fatalf("%+v in a segment of [%d, %d)", d, g.header.BaseOffset, g.next)
	}
	var corrupt *CorruptError
	if _, err := o.read(d.Start, d.Next, 1<<20); !errors.As(err, &corrupt) {
		t.Fatal(err)
	}
	if _, err := o.read(0, d.Start, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := o.read(d.Next, o.log.EndOffset(), 1<<20); err != nil {
		t.Fatal(err)
	}
	// The same place is reported once, however often it is met.
	round()
	if len(o.log.Damaged()) != 1 {
		t.Fatalf("%+v", o.log.Damaged())
	}
	// Within the budget: over ten quiet seconds it reads ten seconds' worth at most.
	before := r.store.stats.ScrubBytes
	for range 100 {
		r.tick(1e8)
	}
	if n := r.store.stats.ScrubBytes - before; n == 0 || n > 110<<20 {
		t.Fatalf("read %d bytes in ten seconds", n)
	}
}

func TestStoreScrubCanBeOff(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10}
		o.store.ScrubNanos = -1
	})
	o := r.serve(16)[0]
	for range 50 {
		o.append(2, 2000)
		r.settle()
	}
	for range 20 {
		r.tick(1e9)
	}
	if r.store.stats.ScrubBytes != 0 {
		t.Fatal("it reads although it is off")
	}
}
