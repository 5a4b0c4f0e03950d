package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A reader of a segment whose index is not in memory waits for a worker when all are busy, and is before the jobs that
// producers leave, which otherwise take each place that comes free: it would be refused for as long as they send.
func TestReaderIsBeforeTheJobsOfProducers(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	for range 8 {
		o.append(1, 300<<10) // direct writes: in the segment
		r.settle()
	}
	history := o.history
	r.stop()
	r.start()
	o = r.open(16)
	o.history = history
	r.store.Start()
	r.settle()
	g := o.log.segmentAt(1)
	if g.header.BaseOffset == 1 {
		t.Fatal("the record is the first of its segment, which is read without an index")
	}
	r.store.dropIndex(g)
	r.workers.full = true
	for range 3 {
		r.store.submitSmall(&countedJob{})
	}
	read := &rigRead{}
	read.Read = Read{Log: o.log, Offset: 1, Limit: o.log.EndOffset(), BytesMax: 1 << 20, Owner: read}
	if r.store.Read(&read.Read) {
		t.Fatalf("ended at once: %v; want it to wait for a worker", read.Err)
	}
	r.workers.full = false
	r.store.submitJobs()
	if len(r.workers.jobs) != 4 {
		t.Fatalf("%d jobs for the workers, want 4", len(r.workers.jobs))
	}
	if _, ok := r.workers.jobs[0].(*indexJob); !ok {
		t.Fatalf("the first job is a %T, want that of the reader", r.workers.jobs[0])
	}
	r.settle()
	if !read.done || read.Err != nil || read.Bytes == 0 {
		t.Fatalf("done %v, %d bytes, %v", read.done, read.Bytes, read.Err)
	}
	read.Release()
}

// countedJob is any job of the background.
type countedJob struct{}

func (*countedJob) Run()  {}
func (*countedJob) Done() {}

var _ core.Job = (*countedJob)(nil)
