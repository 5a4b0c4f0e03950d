package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"pgregory.net/rapid"
)

// TestModelFaults injects failures of segment files between random work and
// crashes: whatever was acked as durable stays, in order, with one content.
func TestModelFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { runFaultModel(t) })
}

func runFaultModel(t *rapid.T) {
	level := rapid.SampledFrom([]core.Durability{core.DurabilitySync, core.DurabilityBatch}).Draw(t, "level")
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: level, SegmentBytes: 256 << 10, FlushNanos: 50e6, FlushBytes: 128 << 10}
		o.store.CacheBytes = 512 << 10
		o.store.StateBytes = 100 << 10
		o.store.IdleNanos = 3e9
		o.driver = mem.DriverOptions{Reorder: rapid.Bool().Draw(t, "reorder"), Seed: rapid.Uint64().Draw(t, "seed")}
	})
	ids := []core.PartitionID{16, 17}
	r.serve(ids...)
	acked := map[core.PartitionID][]rigBatch{}
	note := func() {
		for _, id := range ids {
			o := r.owners[id]
			list := acked[id]
			for _, b := range o.history {
				if b.next > o.log.DurableOffset() {
					break
				}
				if len(list) > 0 && b.base < list[len(list)-1].next {
					continue
				}
				list = append(list, b)
			}
			acked[id] = list
		}
	}
	compare := func(id core.PartitionID) {
		o := r.owners[id]
		list := acked[id]
		if len(list) > len(o.history) {
			t.Fatalf("partition %d has %d batches, %d were acked", id, len(o.history), len(list))
		}
		for i, b := range list {
			if h := o.history[i]; h.base != b.base || h.sum != b.sum {
				t.Fatalf("partition %d: batch %d at offset %d changed after it was acked", id, i, b.base)
			}
		}
		if d := o.log.Damaged(); len(d) > 0 {
			t.Fatalf("partition %d is called damaged: %+v", id, d)
		}
	}
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		id := rapid.SampledFrom(ids).Draw(t, "id")
		o := r.owners[id]
		switch action := rapid.IntRange(0, 14).Draw(t, "action"); {
		case action < 4:
			for range rapid.IntRange(1, 10).Draw(t, "batches") {
				if o.tryAppend(rapid.IntRange(1, 4).Draw(t, "records"), rapid.IntRange(0, 2000).Draw(t, "size"), level) != nil {
					break
				}
			}
		case action < 7:
			_ = o.tryAppend(1, rapid.IntRange(64<<10, 200<<10).Draw(t, "large"), level)
		case action < 9:
			r.turn()
			note()
		case action == 9:
			r.settle()
			note()
		case action == 10:
			r.tick(rapid.Int64Range(1e6, 4e9).Draw(t, "nanos"))
			note()
		case action < 13:
			kinds := []core.DiskOpKind{core.DiskSync, core.DiskWrite, core.DiskAllocate, core.DiskCreate, core.DiskOpen, core.DiskSyncDir}
			f := &mem.Fault{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Path: "topics*", Skip: rapid.IntRange(0, 3).Draw(t, "skip")}
			if f.Kind == core.DiskAllocate && rapid.Bool().Draw(t, "full") {
				f.Err = core.ErrDiskFull
			}
			if f.Kind == core.DiskWrite && rapid.Bool().Draw(t, "tear") {
				f.Action, f.Bytes = mem.FaultTear, rapid.IntRange(0, 9000).Draw(t, "bytes")
			}
			r.fs.Inject(f)
		default:
			r.fs.ClearFaults()
			note()
			before := map[core.PartitionID][]rigBatch{}
			for _, id := range ids {
				before[id] = r.owners[id].history
			}
			r.crash(rapid.Uint64().Draw(t, "crash"), mem.CrashOptions{})
			for _, id := range ids {
				o := r.open(id)
				// What the state stands for is not replayed: it is what was there before.
				skipped := o.batches - len(o.history)
				if skipped > len(before[id]) {
					t.Fatalf("partition %d: the state stands for %d batches, there were %d", id, skipped, len(before[id]))
				}
				o.history = append(append([]rigBatch(nil), before[id][:skipped]...), o.history...)
				if n := len(o.history); n > 0 && (o.history[n-1].next != o.log.EndOffset() || o.history[n-1].sum != o.sum) {
					t.Fatalf("partition %d ends at %d, its batches at %d", id, o.log.EndOffset(), o.history[n-1].next)
				}
				compare(id)
			}
			r.store.Start()
		}
		if err := r.store.Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.fs.ClearFaults()
	r.tick(3e9)
	r.tick(3e9)
	r.tick(10e9)
	for _, id := range ids {
		o := r.owners[id]
		note()
		compare(id)
		r.until("appends after the faults", func() bool {
			err := o.tryAppend(1, 10, level)
			if err != nil && !errors.Is(err, ErrLogFailed) && !errors.Is(err, core.ErrDiskFull) {
				t.Fatal(err)
			}
			return err == nil
		})
		r.settle()
		o.check(0)
	}
	modelStats.Failures += r.store.stats.Failures
}
