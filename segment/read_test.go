package segment

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A read from disk that copies small batches together and hands large ones out
// where they lie keeps the memory of the large ones. Slabs that come home are
// overwritten in tests, so that a read that does not is seen.
func TestReadOfSmallAndLargeBatchesFromDisk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(1)[0]
	for _, size := range []int{100, 30 << 10, 100, 3 << 10, 20, 90 << 10, 100} {
		if err := o.tryAppend(1, size, core.DurabilitySync); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	for range 4 {
		r.tick(2e9) // idle: nothing is left in memory
	}
	o.check(0)
	if r.store.Stats().ReadsDisk == 0 {
		t.Error("the records did not come from the disk")
	}
}

// A read says when its first batch was appended, from memory and from the disk, and Cost says which it will be. One
// that is the broker's own look counts as no consumer's.
func TestReadSaysWhenItWasStored(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.IdleNanos = 1e9 })
	o := r.serve(1)[0]
	var stored []int64
	for range 5 {
		r.clock.advance(100e6)
		stored = append(stored, r.clock.wall)
		if err := o.tryAppend(1, 100, core.DurabilitySync); err != nil {
			t.Fatal(err)
		}
		r.settle()
	}
	look := func(memory bool) {
		t.Helper()
		before := r.store.Stats()
		for i, want := range stored {
			if cost := o.log.Cost(core.Offset(i)); (cost == 0) != memory {
				t.Fatalf("offset %d costs %d bytes", i, cost)
			}
			read := &rigRead{Read: Read{Log: o.log, Offset: core.Offset(i), Limit: o.log.EndOffset(), BytesMax: 1, RecordsMax: 1, Unseen: true}}
			read.Owner = read
			if !r.store.Read(&read.Read) {
				r.until("the read", func() bool { return read.done })
			}
			if read.Err != nil || read.Stored != want || read.Next != core.Offset(i+1) {
				t.Errorf("offset %d: stored at %d, up to %d (%v), want %d", i, read.Stored, read.Next, read.Err, want)
			}
			if read.Release(); read.Stored != 0 {
				t.Error("a read that was released still says when something was stored")
			}
		}
		after := r.store.Stats()
		if after.ReadsCached != before.ReadsCached || after.ReadsDisk != before.ReadsDisk || r.store.cache.readUntil != 0 {
			t.Errorf("the broker's own looks count as reads: %+v", after)
		}
	}
	look(true)
	for range 4 {
		r.tick(2e9) // idle: nothing is left in memory
	}
	look(false)
	o.check(0)
	if r.store.cache.readUntil == 0 {
		t.Error("a consumer's read does not count")
	}
}

// Segments that somebody removed are damage like any other, in whatever order readers come upon it: each stretch is told
// once, with its time, and ranges stay in order and apart.
func TestRemovedSegmentsAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	r, o := stateRig(t)
	r.tick(2e9)
	r.stop()
	r.options.said = slog.New(slog.NewTextHandler(&out, nil))
	if len(o.log.segments) < 6 {
		t.Fatalf("%d segments", len(o.log.segments))
	}
	var want [][2]core.Offset
	for _, i := range []int{1, 3} {
		want = append(want, [2]core.Offset{o.log.segments[i].header.BaseOffset, o.log.segments[i+1].header.BaseOffset})
		if err := r.fs.Remove(o.log.segments[i].stem() + LogExtension); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	o = r.open(16)
	r.store.Start()
	for range 2 {
		for at := o.log.EndOffset() - 1; at >= 0; at-- { // readers come upon the end of each stretch first
			_, err := o.read(at, at+1, 1<<20)
			var corrupt *CorruptError
			gone := slices.ContainsFunc(want, func(w [2]core.Offset) bool { return w[0] <= at && at < w[1] })
			if gone != errors.As(err, &corrupt) || !gone && err != nil {
				t.Fatalf("offset %d: %v", at, err)
			}
		}
	}
	var got [][2]core.Offset
	for _, d := range o.log.Damaged() {
		got = append(got, [2]core.Offset{d.Start, d.Next})
		if d.Found != r.store.wall {
			t.Errorf("[%d, %d) was found at %d, and it is %d", d.Start, d.Next, d.Found, r.store.wall)
		}
	}
	if !slices.Equal(got, want) || r.store.Stats().Damages != 2 {
		t.Errorf("damaged are %v, and %d are counted; want %v", got, r.store.Stats().Damages, want)
	}
}

// Records of a segment that cannot be read, nor its index, are an error for their
// range, which readers can go behind; once it can be read, so can they.
func TestReadWithoutAnIndexNamesItsRange(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.StateBytes = 64 << 10 }) // a start reads only what is behind the newest state
	o := r.serve(1)[0]
	for range 12 {
		o.append(1, 100<<10)
		r.settle()
	}
	r.tick(2e9)
	r.stop()
	r.start()
	o = r.open(1)
	r.store.Start()
	r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "topics/*.log", Count: -1})
	var corrupt *CorruptError
	if _, err := o.read(0, o.log.EndOffset(), 64<<10); !errors.As(err, &corrupt) {
		t.Fatalf("read: %v", err)
	}
	if corrupt.Start != 0 || corrupt.Next <= 0 || corrupt.Next > o.log.EndOffset() {
		t.Errorf("offsets [%d, %d) are called damaged of [0, %d)", corrupt.Start, corrupt.Next, o.log.EndOffset())
	}
	if rebuilt := r.store.Stats().IndexesRebuilt; rebuilt > 0 {
		t.Fatal("the index was there")
	}
	r.fs.ClearFaults()
	for _, from := range []core.Offset{1, 0} { // from its beginning a segment is read without an index
		if _, err := o.read(from, o.log.EndOffset(), 64<<10); err != nil {
			t.Errorf("from %d, once it can be read again: %v", from, err)
		}
	}
	if r.store.Stats().IndexesRebuilt == 0 {
		t.Error("no index had to be built")
	}
}
