package segment

import (
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
		done := make(chan struct{})
		go func() { r.store.Flush(r.clock.mono); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("the turn does not end (file closed: %v)", closed)
		}
		r.settle()
		if o.log.DurableOffset() != 3 {
			t.Fatalf("durable %d after the queue had room again", o.log.DurableOffset())
		}
	}
}

type ignored struct{}

func (ignored) Complete(*core.DiskOp) {}

// What a partition could not write while the first frame of its term was on its
// way to the journal is written once that has arrived, without another append.
func TestWriterGoesOnBehindTheOpening(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.folder.JournalBytes, o.folder.JournalFileBytes = 64<<20, 16<<20
		o.driver.Clock = nil
	})
	o := r.serve(1)[0]
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 200, Count: 1})
	busy := 0
	for range 2000 {
		if o.tryAppend(1, 60<<10, core.DurabilitySync) != nil {
			busy++
			break
		}
		r.store.Flush(r.clock.mono)
	}
	if busy == 0 || slow.Hits() == 0 && r.driver.Pending() == 0 {
		t.Fatal("the partition did not run into its bound")
	}
	r.until("room for another batch", func() bool { return o.tryAppend(1, 60<<10, core.DurabilitySync) == nil })
}
