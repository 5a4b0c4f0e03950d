package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A journal that a start is not given for a moment is not a torn one: nothing is cut and nothing written over, and the
// next start finds everything that was acknowledged.
func TestStartRefusesAJournalThatItCannotRead(t *testing.T) {
	refused := 0
	for n := range 36 {
		skip, count := n%3, 2+n/3
		r := newRig(t, nil)
		o := r.serve(16)[0]
		for i := range 6 {
			o.append(1+i%3, 300)
			r.settle()
		}
		history, end := o.history, o.log.DurableOffset()
		r.fs = r.fs.Kill(1)
		// What a read did not give is asked for again block by block, so that many blocks are not given.
		r.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "*.jnl", Skip: skip, Count: count})
		err := r.tryStart()
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Fatalf("read %d: %v", skip, err)
		}
		if err == nil { // or it is the partition that says so, when its frames are read
			o, err = r.tryOpen(16)
		}
		if err != nil {
			refused++
			r.fs = r.fs.Kill(1)
			r.start()
			o = r.open(16)
		}
		o.history = history
		r.store.Start()
		o.append(1, 300) // which may not write over what was not given
		r.settle()
		if got := o.log.EndOffset(); got != end+1 || len(o.log.Damaged()) > 0 {
			t.Fatalf("read %d: the log ends at %d with damage %v, %d was acknowledged before the last record", skip, got, o.log.Damaged(), end)
		}
		o.check(0)
	}
	if refused == 0 {
		t.Fatal("no read that failed was noticed")
	}
}
