package segment

import (
	"fmt"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A disk whose queue is full takes the chain at a later turn: the turn ends all
// the same.
func TestFullDiskQueueEndsTheTurn(t *testing.T) {
	for _, closed := range []bool{false, true} {
		r := newRig(t, func(o *rigOptions) { o.driver.OpsMax = 16 })
		o := r.serve(1)[0]
		o.append(1, 100)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
		g := o.log.active()
		if closed {
			r.store.files.close(g)
			r.settle()
		}
		var fill [16]core.DiskOp
		for i := range fill {
			fill[i] = core.DiskOp{Kind: core.DiskSyncDir, Path: TopicsDir, Owner: ignored{}}
			if !r.driver.Submit(&fill[i]) {
				break
			}
		}
		o.append(1, 100<<10)
		hangs := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("the turn does not end (file closed: %v)", closed)) })
		r.store.Flush(r.clock.mono)
		hangs.Stop()
		r.settle()
		if o.log.DurableOffset() != 3 {
			t.Fatalf("durable %d after the queue had room again", o.log.DurableOffset())
		}
	}
}

type ignored struct{}

func (ignored) Complete(*core.DiskOp) {}

// What a partition could not write while the first frame of its term was on its
// way to the journal is written once that has arrived, without another append: a
// partition at its bound gets none.
func TestWriterGoesOnBehindTheOpening(t *testing.T) {
	r := newRig(t, nil)
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 50})
	o := r.serve(1)[0]
	for o.log.dirtyBytes < r.store.options.FlushBytes {
		o.append(1, 60<<10)
		r.store.Flush(r.clock.mono)
	}
	if o.log.opening == 0 {
		t.Fatal("the term is open already")
	}
	r.settle()
	if o.log.dirtyBytes > 0 {
		t.Fatalf("%d bytes wait for the writer, and nobody wakes it", o.log.dirtyBytes)
	}
}
