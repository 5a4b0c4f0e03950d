package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A journal that cannot be read for a moment while the number of shards changes must not be moved without what could
// not be read: the old one is removed after that.
func TestShardChangeKeepsWhatItCannotRead(t *testing.T) {
	refused := 0
	for skip := range 24 {
		r := newRig(t, nil)
		o := r.serve(16)[0]
		for i := range 12 {
			o.append(1+i%3, 300)
			r.settle()
		}
		history, end := o.history, o.log.DurableOffset()
		if skip%2 == 0 {
			r.stop()
		}
		r.fs = r.fs.Kill(1)
		// Twice: what a read did not give is asked for again block by block.
		fault := r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "*.jnl", Skip: skip, Count: 2})
		r.options.folder.Shards, r.options.shard = 2, core.ShardOf(16, 2)
		if err := r.tryStart(); err != nil {
			if !errors.Is(err, ErrUnreadable) && fault.Hits() == 0 {
				t.Fatalf("read %d: %v", skip, err)
			}
			refused++
			r.fs = r.fs.Kill(1)
			r.start()
		}
		o, err := r.tryOpen(16)
		if err != nil { // the read that failed was this one: it is told, and nothing has been touched
			refused++
			r.fs = r.fs.Kill(1)
			r.start()
			o = r.open(16)
		}
		o.history = history
		r.store.Start()
		r.settle()
		if got := o.log.EndOffset(); got != end || len(o.log.Damaged()) > 0 {
			t.Fatalf("read %d: the log ends at %d with damage %v, %d was acknowledged", skip, got, o.log.Damaged(), end)
		}
		o.check(0)
	}
	if refused == 0 {
		t.Fatal("no read that failed was noticed")
	}
}
