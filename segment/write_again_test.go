package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A sync failed and the process ended. The next start still reads what was written
// from the system's cache, and its own sync succeeds without bringing it to the disk:
// what it serves, and acknowledges again, has to survive a power cut all the same.
func TestFailedSyncIsNotTrustedByTheNextStart(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		path string
	}{"journal": {100, "*.jnl"}, "segment": {100 << 10, "topics/*.log"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			o := r.serve(16)[0]
			o.append(1, 100)
			r.settle()
			o.append(1, c.size)
			r.settle()
			acked := o.log.DurableOffset()
			failed := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: c.path})
			o.append(1, c.size)
			for range 1000 {
				if failed.Hits() > 0 {
					break
				}
				r.turn()
			}
			if failed.Hits() == 0 {
				t.Fatal("no sync failed")
			}
			r.kill(0)
			o = r.open(16)
			r.store.Start()
			r.settle()
			shown := o.log.DurableOffset()
			if shown <= acked {
				t.Fatalf("the start shows %d records, %d were acknowledged: what was written is not in the cache", shown, acked)
			}
			r.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			o = r.open(16)
			if got := o.log.DurableOffset(); got < shown || len(o.log.Damaged()) > 0 {
				t.Errorf("after the power cut %d records with damage %v, %d were shown", got, o.log.Damaged(), shown)
			}
		})
	}
}
