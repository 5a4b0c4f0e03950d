package posix_test

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
)

type ignore struct{}

func (ignore) Complete(*core.DiskOp) {}

// Steady writes, syncs and reads allocate nothing, on the workers neither.
func TestDriverAllocatesNothing(t *testing.T) {
	d := open(true)(t)
	out := make([]*core.DiskOp, 4)
	run := func(op *core.DiskOp) {
		if !d.Driver.Submit(op) {
			panic("no room")
		}
		for d.Driver.Pending() > 0 {
			if d.Driver.Reap(out) == 0 {
				d.Waker.Announce()
				_ = d.Driver.Park(1e9)
				d.Waker.Retract()
			}
		}
	}
	create := &core.DiskOp{Kind: core.DiskCreate, Path: "a", Owner: ignore{}}
	run(create)
	read := &core.DiskOp{Kind: core.DiskRead, File: create.File, Buf: disktest.Buffer(4096), Owner: ignore{}}
	sync := &core.DiskOp{Kind: core.DiskSync, File: create.File, Owner: ignore{}, Next: read}
	write := &core.DiskOp{Kind: core.DiskWrite, File: create.File, Buf: disktest.Buffer(4096), Owner: ignore{}, Next: sync}
	if n := testing.AllocsPerRun(50, func() { run(write) }); n != 0 {
		t.Errorf("%v allocations per chain", n)
	}
	for _, op := range []*core.DiskOp{create, write, sync, read} {
		if op.Err != nil {
			t.Errorf("%s: %v", op.Kind, op.Err)
		}
	}
}
