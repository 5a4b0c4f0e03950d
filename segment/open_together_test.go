package segment

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Logs that are opened together are what each would be alone, however their files are
// read: in another order, of a disk that fails once, with little room for the journal.
func TestLogsOpenedTogetherAreWhatTheyWere(t *testing.T) {
	for name, c := range map[string]struct {
		cache  int64
		faults bool
	}{"": {}, "the journal is read again": {cache: 1}, "a disk that fails once": {faults: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.store.StateBytes = 3 << 20 })
			var ids []core.PartitionID
			for i := range 30 {
				ids = append(ids, core.PartitionID(16+i))
			}
			owners := r.serve(ids...)
			for round := range 40 {
				for i, o := range owners {
					switch {
					case (round+i)%3 == 0:
						o.append(3, 100)
					case (round+i)%7 == 1:
						o.append(1, 150<<10)
					case i%5 == 0:
						o.append(1, 20<<10)
					}
				}
				r.settle()
				r.tick(0)
			}
			type point struct {
				sum   uint64
				start core.Offset
				end   core.Offset
				index core.Index
			}
			before := make([]point, len(ids))
			history := make([][]rigBatch, len(ids))
			for i, o := range owners {
				before[i] = point{o.sum, o.log.StartOffset(), o.log.EndOffset(), o.log.LastIndex()}
				history[i] = o.history
			}
			r.options.store.Together, r.options.store.CacheBytes = backwards, c.cache
			r.kill(1)
			var faults []*mem.Fault
			if c.faults {
				for _, id := range ids[:20] {
					faults = append(faults, r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: PartitionDir(rigIdentity(id).Topic, rigIdentity(id).Number) + "*", Err: syscall.EIO, Count: 1}))
				}
			}
			for i, q := range r.openTogether(ids...) {
				o := q.Owner.(*rigOwner)
				if q.Err != nil {
					t.Fatal(q.Err)
				}
				if got := (point{o.sum, o.log.StartOffset(), o.log.EndOffset(), o.log.LastIndex()}); got != before[i] || len(o.log.Damaged()) > 0 {
					t.Errorf("partition %d came back as %+v, want %+v; damaged %v", o.id, got, before[i], o.log.Damaged())
				}
				o.history = history[i] // what lies behind a state is not replayed
			}
			for _, f := range faults {
				if f.Hits() == 0 {
					t.Error("a fault was not met")
				}
			}
			r.store.Start()
			for _, o := range r.owners {
				o.check(0)
			}
		})
	}
}

// The newest of the journal stays in memory up to what the store may cache; the rest is
// read again.
func TestStartKeepsThisMuchOfTheJournal(t *testing.T) {
	for _, most := range []int64{1, 100 << 10, 1 << 30} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := newRig(t, nil)
			o := r.serve(16)[0]
			for range 200 {
				o.append(1, 2<<10)
				r.settle()
			}
			r.options.store.CacheBytes = most
			r.kill(1)
			kept, frames, newest := int64(0), 0, false
			for _, p := range r.store.replay.partitions {
				for i := range p.frames {
					kept += int64(len(p.frames[i].raw))
					newest = p.frames[i].raw != nil
					frames++
				}
			}
			all := int64(200 * (2 << 10))
			if kept > most || most > all && kept < all || most > 1 && most < all && kept < most/2 || newest != (most > 1) {
				t.Errorf("%d bytes of %d frames are kept, the newest: %v; at most %d are allowed", kept, frames, newest, most)
			}
			want := o.sum
			if o = r.open(16); o.sum != want {
				t.Errorf("the log came back with another history")
			}
			r.store.Start()
			o.check(0)
		})
	}
}
