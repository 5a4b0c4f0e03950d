package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Two thousand partitions with data, killed and started on a full disk; the start
// is killed again at several places, and power cuts come into it. Each start has all
// that was acked, none has more to read than the first, and when space returns
// every partition takes batches.
func TestStartOfManyPartitionsIsKilledAgain(t *testing.T) {
	const partitions = 2000
	r := newRig(t, func(o *rigOptions) {
		o.folder.JournalFileBytes, o.folder.JournalBytes = 4<<20, 16<<20
		o.store.FreeBytesLow, o.store.FreeBytesHigh = 1<<20, 2<<20
	})
	ids := make([]core.PartitionID, partitions)
	for i := range ids {
		ids[i] = core.PartitionID(16 + i)
	}
	owners := r.serve(ids...)
	sums := make([]uint64, partitions)
	ends := make([]core.Offset, partitions)
	for i, o := range owners {
		size := 100
		if i%40 == 0 {
			size = 70 << 10 // straight to its segment
		}
		for range 1 + i%3 {
			o.append(1, size)
		}
		if i%50 == 49 {
			r.settle()
		}
	}
	r.settle()
	for i, o := range owners {
		if o.log.DurableOffset() != o.log.EndOffset() {
			t.Fatalf("partition %d: durable %d of %d", o.id, o.log.DurableOffset(), o.log.EndOffset())
		}
		sums[i], ends[i] = o.sum, o.log.EndOffset()
	}
	open := func(n int) {
		for i, id := range ids[:n] {
			if o := r.open(id); o.sum != sums[i] || o.log.EndOffset() != ends[i] || len(o.log.Damaged()) > 0 {
				t.Fatalf("partition %d ends at %d, want %d; damaged %+v", id, o.log.EndOffset(), ends[i], o.log.Damaged())
			}
		}
	}
	full := func() {
		total, free, _ := r.fs.Space()
		r.fs.SetCapacity(total - free + 256<<10)
	}
	r.fs = r.fs.Kill(1)
	full()
	r.start()
	open(partitions)
	first := r.store.stats.RecoveredBytes
	for round, opened := range []int{0, 7, partitions / 2, partitions - 1} {
		if round%2 == 0 {
			r.fs = r.fs.Kill(uint64(round))
		} else {
			r.fs = r.fs.Crash(uint64(round), mem.CrashOptions{})
		}
		full()
		r.start()
		open(opened)
	}
	r.fs = r.fs.Kill(9)
	full()
	r.start()
	open(partitions)
	if got := r.store.stats.RecoveredBytes; got > first {
		t.Errorf("the last start read %d bytes back, the first %d", got, first)
	}
	r.store.Start()
	r.tick(6e9)
	if err := r.owners[16].tryAppend(1, 100, core.DurabilitySync); !errors.Is(err, core.ErrDiskFull) {
		t.Fatalf("an append on the full disk: %v", err)
	}
	r.fs.SetCapacity(1 << 40)
	r.tick(6e9)
	r.tick(6e9)
	for i, id := range ids {
		o := r.owners[id]
		r.until("an append", func() bool { return o.tryAppend(1, 10, core.DurabilitySync) == nil })
		if i%100 == 99 {
			r.settle()
		}
	}
	r.settle()
	for i, id := range ids {
		if got := r.owners[id].log.DurableOffset(); got != ends[i]+1 {
			t.Fatalf("partition %d: durable up to %d, want %d", id, got, ends[i]+1)
		}
	}
}

// The wall clock goes a year ahead, stays there for days and comes back: nothing is
// deleted before its time, and nothing is kept beyond it once the clocks agree.
func TestClockAYearAheadAndBackDeletesNothingEarly(t *testing.T) {
	const day, year = 24 * 3600e9, 365 * 24 * 3600e9
	r := newRig(t, func(o *rigOptions) {
		o.log.SegmentBytes, o.log.RetentionNanos = 128<<10, 7*day
		o.store.StateBytes = 96 << 10
	})
	o := r.serve(16)[0]
	fill := func() {
		for range 10 {
			o.append(1, 66<<10)
			r.settle()
			r.tick(1e6)
		}
	}
	fill()
	segments := len(o.log.segments)
	if segments < 4 || o.log.StartOffset() != 0 {
		t.Fatalf("%d segments, the log begins at %d", segments, o.log.StartOffset())
	}
	for _, jump := range []int64{year, -year, -year, year} {
		r.clock.wall += jump
		for range 5 {
			r.tick(day / 10)
		}
		if o.log.StartOffset() != 0 || len(o.log.segments) < segments {
			t.Fatalf("after a jump by %d days the log begins at %d, with %d of %d segments", jump/day, o.log.StartOffset(), len(o.log.segments), segments)
		}
		if jump := r.clock.wall - r.clock.mono - (1_700_000_000e9 - 1e9); (jump != 0) != r.store.Stats().ClockJumped {
			t.Fatalf("the clocks are %d days apart, and the store says %v", jump/day, r.store.Stats().ClockJumped)
		}
	}
	fill()
	r.tick(8 * day)
	r.tick(1e9)
	if o.log.StartOffset() == 0 {
		t.Error("nothing is deleted when its time has come")
	}
}
