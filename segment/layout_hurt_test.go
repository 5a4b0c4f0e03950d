package segment

import (
	"fmt"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A change of the number of shards moves a damaged journal as it is: what is hurt stays damage, by name, what was
// acknowledged behind it stays where it is, and the start goes on. The journal that it is moved to is whole, whatever the
// frames in it are, and must not be taken for proof that nothing is missing.
func TestShardChangeKeepsDamage(t *testing.T) {
	// In a frame's payload and in its header. More than a few bits, or the checksums would restore it.
	for _, at := range []int64{FrameHeaderBytes + 200, 40} {
		for _, starts := range [][]int{{2, 1, 2}, {1, 2, 2, 1}} {
			t.Run(fmt.Sprint(at, starts), func(t *testing.T) { moveDamage(t, at, starts) })
		}
	}
}

func moveDamage(t *testing.T, at int64, starts []int) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	for range 20 {
		o.append(2, 300)
		r.settle()
	}
	end, history := o.log.DurableOffset(), o.history
	replay, err := replayJournal(r.folder, 0, 0, r.store.log)
	if err != nil {
		t.Fatal(err)
	}
	var hurt replayFrame
	for _, f := range replay.partitions[16].frames {
		if f.kind == FrameData && f.synced && f.next() < end-4 {
			hurt = f
		}
	}
	r.patch(JournalPath(r.folder.Layout(), 0, hurt.file), hurt.position+at, []byte{0xA5, 0x5A, 0xC3, 0x3C, 0x99, 0x66, 0xF0, 0x0F})
	for i, shards := range starts {
		r.kill(uint64(i))
		r.options.folder.Shards, r.options.shard = shards, core.ShardOf(16, shards)
		if err := r.tryStart(); err != nil {
			t.Fatalf("start %d with %d shards: %v", i, shards, err)
		}
		if o, err = r.tryOpen(16); err != nil {
			t.Fatalf("start %d with %d shards: %v", i, shards, err)
		}
		r.store.Start()
		r.settle()
		if got := o.log.EndOffset(); got < end {
			t.Fatalf("start %d with %d shards: the log ends at %d, %d was acknowledged", i, shards, got, end)
		}
		damage := o.log.Damaged()
		if len(damage) != 1 || damage[0].Start != hurt.base || damage[0].Next != hurt.next() {
			t.Fatalf("start %d with %d shards: damage %v, hurt is [%d, %d)", i, shards, damage, hurt.base, hurt.next())
		}
		o.history = history
		o.check(hurt.next())
	}
}
