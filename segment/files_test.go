package segment

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Without descriptors nothing fails and nothing is taken back: idle files are given up, writes and reads are tried again
// later, and the files come back with the descriptors.
func TestNoDescriptorsLeft(t *testing.T) {
	for _, kind := range []core.DiskOpKind{core.DiskOpen, core.DiskCreate} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.store.OpenFiles, o.store.CacheBytes = 16, 1 })
			var ids []core.PartitionID
			for id := range core.PartitionID(16) {
				ids = append(ids, 16+id)
			}
			owners := r.serve(ids...)
			for _, o := range owners[:12] {
				o.append(1, 100<<10)
				r.settle()
			}
			if r.store.files.open != 12 {
				t.Fatalf("%d files are open", r.store.files.open)
			}
			none := fmt.Errorf("%w: %w", core.ErrDiskFiles, syscall.EMFILE)
			fault := r.fs.Inject(&mem.Fault{Kind: kind, Path: "topics/*.log", Err: none, Count: -1})
			if kind == core.DiskOpen {
				r.store.files.most = 0
				r.store.files.bound()
				r.settle()
			}
			for _, o := range owners { // what waits is bounded: the last ones are refused
				if err := o.tryAppend(1, 100<<10, core.DurabilitySync); err != nil && !errors.Is(err, ErrStoreBusy) {
					t.Fatal(err)
				}
				r.settle()
			}
			for range 20 {
				r.tick(100e6)
			}
			if fault.Hits() == 0 {
				t.Fatal("nothing was to be opened")
			}
			if kind == core.DiskCreate && r.store.files.open > openFilesMin {
				t.Fatalf("%d files are still open", r.store.files.open)
			}
			r.fs.ClearFaults()
			for range 10 {
				r.tick(100e6)
			}
			for _, o := range owners {
				if len(o.rolled) > 0 {
					t.Fatalf("a log was rolled back: %v", o.rollErr)
				}
				if o.log.DurableOffset() != o.log.EndOffset() {
					t.Fatalf("durable up to %d of %d", o.log.DurableOffset(), o.log.EndOffset())
				}
				o.check(0)
			}
			if r.store.stats.Failures > 0 {
				t.Fatalf("%d failures", r.store.stats.Failures)
			}
			for range 20 {
				for _, o := range owners {
					o.append(1, 100<<10)
					r.settle()
				}
			}
			if r.store.files.most != 16 {
				t.Fatalf("the bound is %d", r.store.files.most)
			}
		})
	}
}
