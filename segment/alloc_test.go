package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// nullDisk ends every operation at once and stores nothing, so that what is
// measured is the engine's own work.
type nullDisk struct {
	ops   []*core.DiskOp
	files core.FileID
}

func (d *nullDisk) Submit(op *core.DiskOp) bool {
	for ; op != nil; op = op.Next {
		op.Err, op.N = nil, len(op.Buf)
		if op.Kind == core.DiskOpen || op.Kind == core.DiskCreate {
			d.files++
			op.File = d.files
		}
		d.ops = append(d.ops, op)
	}
	return true
}

// reap ends what is in flight. An owner may submit an operation again from
// within its completion, so the list is taken first.
func (d *nullDisk) reap(spare []*core.DiskOp) []*core.DiskOp {
	ended := d.ops
	d.ops = spare[:0]
	for _, op := range ended {
		op.Owner.Complete(op)
	}
	return ended
}

// poolSlabs gives slabs out again.
type poolSlabs struct {
	free map[int][]*core.Slab
}

func (p *poolSlabs) Get(n int) *core.Slab {
	size := core.SlabClassBytes(n)
	if list := p.free[size]; len(list) > 0 {
		s := list[len(list)-1]
		p.free[size] = list[:len(list)-1]
		return s.Issue()
	}
	raw := core.HeapSlabs{}.Get(size)
	return core.NewSlab(raw.Bytes, p).Issue()
}

func (p *poolSlabs) Put(s *core.Slab) {
	size := len(s.Bytes)
	if p.free == nil {
		p.free = map[int][]*core.Slab{}
	}
	p.free[size] = append(p.free[size], s)
}

type quietOwner struct{}

func (quietOwner) Advanced(*Log)                                     {}
func (quietOwner) RolledBack(*Log, core.Offset, error)               {}
func (quietOwner) Snapshot(b []byte) []byte                          { return b }
func (quietOwner) Restore([]byte) error                              { return nil }
func (quietOwner) Excerpt(b []byte, _ *FrameHeader, _ []byte) []byte { return b }
func (quietOwner) Replay(*FrameHeader, []byte)                       {}

// bench is a store whose disk does nothing.
type bench struct {
	r     *rig
	disk  nullDisk
	spare []*core.DiskOp
	slabs *poolSlabs
	logs  []*Log
	batch proto.Batch
	crc   uint32
}

func newBench(t rigT, partitions, records, size int) *bench {
	b := &bench{slabs: &poolSlabs{}}
	b.r = newRig(t, func(o *rigOptions) {
		o.slabs = b.slabs
		o.folder.JournalFileBytes, o.folder.JournalBytes = 16<<20, 64<<20
		o.store.CacheBytes = 64 << 20
		o.store.StateBytes = 1 << 60
	})
	b.r.store.ports.Disk = &b.disk
	for i := range partitions {
		id := core.PartitionID(16 + i)
		b.logs = append(b.logs, b.r.store.CreateLog(rigIdentity(id), LogOptions{SegmentBytes: 1 << 40}, quietOwner{}))
	}
	b.r.store.Start()
	b.batch = makeBatch(records, size, 1000, 1)
	b.crc = b.batch.RecordsCRC()
	return b
}

func (b *bench) append(l *Log) bool {
	slab := b.slabs.Get(core.BatchRoomBytes + len(b.batch))
	copy(slab.Bytes[core.BatchRoomBytes:], b.batch)
	batch := proto.Batch(slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+len(b.batch)])
	batch.SetBaseOffset(int64(l.EndOffset()))
	batch.SetLeaderEpoch(int32(l.Term()))
	e := Entry{
		Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), BaseOffset: l.EndOffset(), Span: uint32(batch.Count()),
		MaxTimestamp: 1000, RecordsCRC: b.crc, Level: core.DurabilitySync, AppendTime: 1,
	}
	if err := b.r.store.Append(l, &e); err != nil {
		slab.Release()
		return false
	}
	return true
}

func (b *bench) turn() {
	b.r.store.Flush(1e9)
	b.spare = b.disk.reap(b.spare)
	for _, j := range b.r.workers.jobs {
		j.Done()
	}
	b.r.workers.jobs = b.r.workers.jobs[:0]
}

// Nothing allocates per append and flush once the pools are warm: small batches
// through the journal with recycling, and large ones directly.
func TestAppendFlushAllocates(t *testing.T) {
	for _, c := range []struct {
		name                                   string
		partitions, records, size, each, turns int
	}{
		{"small", 16, 1, 256, 4, 5000},
		{"medium", 4, 20, 1000, 2, 2000},
		{"direct", 4, 100, 1000, 1, 2000},
		{"journaled large", 32, 70, 1000, 1, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.partitions, c.records, c.size)
			turn := func() {
				for _, l := range b.logs {
					for range c.each {
						b.append(l)
					}
				}
				b.turn()
			}
			for range c.turns { // until each journal file has been used again and nothing grows any more
				turn()
			}
			recycles, indexed := b.r.store.stats.JournalRecycles, b.r.store.stats.SegmentWrites
			// The sparse index grows by an entry per 64 KiB; that is all that may be allocated.
			if n := testing.AllocsPerRun(300, turn); n > 0 {
				t.Errorf("%v allocations per turn", n)
			}
			t.Logf("recycles %d, segment writes %d, stats %+v", recycles, indexed, b.r.store.stats)
			if b.r.store.Err() != nil {
				t.Fatal(b.r.store.Err())
			}
		})
	}
}

func BenchmarkAppendSmall(b *testing.B)  { benchmarkAppend(b, 128, 1, 200, 8) }
func BenchmarkAppendMedium(b *testing.B) { benchmarkAppend(b, 16, 100, 200, 2) }
func BenchmarkAppendDirect(b *testing.B) { benchmarkAppend(b, 8, 1000, 240, 1) }

func benchmarkAppend(b *testing.B, partitions, records, size, each int) {
	x := newBench(b, partitions, records, size)
	x.turn()
	x.turn()
	b.SetBytes(int64(len(x.batch)))
	b.ResetTimer()
	done := 0
	for done < b.N {
		for _, l := range x.logs {
			for range each {
				if x.append(l) {
					done++
				}
			}
		}
		x.turn()
	}
	b.ReportMetric(float64(done)*float64(records)/b.Elapsed().Seconds(), "records/s")
}
