package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A journal file whose header and first group are both lost still tells of the
// groups behind them: they are not forgotten as if the file were new.
func TestJournalHeaderAndFirstGroupLost(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	for range 20 {
		o.append(2, 300)
		r.settle()
	}
	end, history := o.log.DurableOffset(), o.history
	name := r.store.journal.live[0].path
	r.patch(name, 754, make([]byte, core.DiskAlignment))
	r.kill(1)
	o = r.open(16)
	o.history = history
	r.store.Start()
	if got := o.log.EndOffset(); got < end {
		t.Fatalf("the log ends at %d, %d was acknowledged", got, end)
	}
	if r.store.stats.JournalDamages == 0 {
		t.Error("the damage is not told")
	}
}

// A free journal file holds nothing that anybody needs, and whatever length it is
// found with is made whole again.
func TestFreeJournalFileOfOddLength(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)
	r.settle()
	name := r.store.journal.free[len(r.store.journal.free)-1].path
	f, err := r.fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(10_971); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r.kill(1)
	o := r.open(16)
	r.store.Start()
	for range 20 {
		o.append(1, 100)
		r.settle()
	}
	if n := len(r.readAll(name)); n != JournalFileBytesMin {
		t.Fatalf("%s has %d bytes, want %d", name, n, JournalFileBytesMin)
	}
}
