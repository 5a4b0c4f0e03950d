package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// readCount counts the bytes that blocking reads ask the disk for.
type readCount struct {
	core.FS
	bytes int64
}

func (c *readCount) Open(path string) (core.File, error) { return c.file(c.FS.Open(path)) }

func (c *readCount) OpenRead(path string) (core.File, error) { return c.file(c.FS.OpenRead(path)) }

func (c *readCount) file(f core.File, err error) (core.File, error) {
	if err != nil {
		return nil, err
	}
	return &countedFile{File: f, count: c}, nil
}

type countedFile struct {
	core.File
	count *readCount
}

func (f *countedFile) ReadAt(p []byte, at int64) (int, error) {
	f.count.bytes += int64(len(p))
	return f.File.ReadAt(p, at)
}

// countReads opens every partition again and says how much was read for that,
// without what the journal's own replay reads.
func (r *rig) countReads(ids []core.PartitionID, end func()) (perPartition int64) {
	r.t.Helper()
	count := &readCount{}
	r.options.files = func(files core.FS) core.FS { count.FS = files; return count }
	end()
	before := count.bytes
	for _, id := range ids {
		r.open(id)
	}
	r.options.files = nil
	return (count.bytes - before) / int64(len(ids))
}

// What a start reads of a partition depends on what the partition holds behind its
// state, not on what was reserved for it: thousands of idle partitions start fast.
func TestStartReadsNoReservedExtents(t *testing.T) {
	const partitions = 60
	for _, c := range []struct {
		name string
		end  func(r *rig)
		most int64 // bytes per partition
		rest bool
	}{
		{"clean stop", func(r *rig) { r.stop(); r.kill(0) }, 400 << 10, false},
		{"clean stop after a rest", func(r *rig) { r.stop(); r.kill(0) }, 400 << 10, true},
		{"kill after a rest", func(r *rig) { r.kill(1) }, 400 << 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.folder.JournalFileBytes, o.folder.JournalBytes = 8<<20, 32<<20 })
			var ids []core.PartitionID
			for id := core.PartitionID(16); id < 16+partitions; id++ {
				ids = append(ids, id)
			}
			r.serve(ids...)
			for _, id := range ids {
				r.owners[id].append(1, 10)
				r.settle()
				r.owners[id].append(1, 100<<10) // straight to its segment
				r.settle()
			}
			if c.rest {
				for range 2 + partitions/tickFlushesMax {
					r.tick(61e9)
				}
			}
			ends := map[core.PartitionID]core.Offset{}
			for _, id := range ids {
				ends[id] = r.owners[id].log.EndOffset()
			}
			read := r.countReads(ids, func() { c.end(r) })
			t.Logf("%d KiB per partition", read>>10)
			if read > c.most {
				t.Errorf("a start reads %d KiB per partition, at most %d are needed", read>>10, c.most>>10)
			}
			for _, id := range ids {
				if got := r.owners[id].log.EndOffset(); got != ends[id] {
					t.Errorf("partition %d ends at %d, want %d", id, got, ends[id])
				}
			}
		})
	}
}

// What is appended while a worker gives the reserve of an idle log back is not cut
// with it, and the next extent of such a log is a small one.
func TestExtentReturnedUnderAppends(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 80<<10) // makes the segment
	r.settle()
	o.append(1, 80<<10)
	r.settle()
	g := o.log.active()
	if g.allocated != core.SegmentExtentIdleBytes {
		t.Fatalf("the first extent has %d bytes", g.allocated)
	}
	for round := range 3 {
		r.clock.advance(61e9)
		r.store.Tick(r.clock.mono)
		if !g.returning {
			t.Fatal("the extent of an idle log is not given back")
		}
		r.store.Flush(r.clock.mono)
		o.append(1, 80<<10)
		r.store.Flush(r.clock.mono)
		job := r.workers.jobs
		r.workers.jobs = nil
		for range 5 { // all that can be written while the worker is slow
			r.turn()
		}
		for _, j := range job {
			j.Run()
			j.Done()
		}
		r.settle()
		if o.log.DurableOffset() != core.Offset(3+round) {
			t.Fatalf("round %d: durable up to %d", round, o.log.DurableOffset())
		}
		if most := g.position + core.SegmentExtentIdleBytes; g.allocated > most {
			t.Fatalf("round %d: %d bytes are reserved, %d are written", round, g.allocated, g.position)
		}
		o.check(0)
	}
	history := o.history
	r.crash(3, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop})
	o = r.open(16)
	o.history = history
	r.store.Start()
	o.check(0)
}
