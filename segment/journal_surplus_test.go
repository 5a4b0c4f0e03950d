package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Each change of the shard count copies what is live to journals with room for twice as much. They come back to their
// size: otherwise the next change finds more that is live, and makes them larger again.
func TestJournalComesBackToItsSize(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)
	size := r.store.folder.journalFiles
	o := r.owners[16]
	shards, most := 1, 0
	for range 12 {
		for range 120 {
			o.append(10, 2000)
			r.settle()
		}
		history := o.history
		shards = 3 - shards
		r.options.folder.Shards, r.options.shard = shards, core.ShardOf(16, shards)
		r.crash(1, mem.CrashOptions{})
		o = r.open(16)
		o.history = history
		r.store.Start()
		most = max(most, len(r.store.journal.live)+len(r.store.journal.free))
		for range 120 {
			o.append(10, 2000)
			r.settle()
			r.tick(1e9)
		}
	}
	history := o.history
	r.crash(1, mem.CrashOptions{})
	o = r.open(16)
	o.history = history
	r.store.Start()
	r.settle()
	j := r.store.journal
	if files := len(j.live) + len(j.free) + len(j.prepare.queue); files > size+1 {
		t.Fatalf("%d journal files, %d live; there should be %d (there were up to %d)", files, len(j.live), size, most)
	}
	o.check(0)
}
