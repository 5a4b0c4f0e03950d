package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// batchRig is a log whose frames are not synced unless one asks for it.
func batchRig(t *testing.T, ids ...core.PartitionID) (*rig, []*rigOwner) {
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 1 << 40}
	})
	owners := r.serve(ids...)
	for _, o := range owners {
		o.append(1, 10) // opens the term, which is synced
	}
	r.settle()
	return r, owners
}

func (o *rigOwner) appendAt(level core.Durability, count, size int) {
	o.rig.t.Helper()
	if err := o.tryAppend(count, size, level); err != nil {
		o.rig.t.Fatal(err)
	}
}

// A group that needs a sync waits for those before it: its sync must cover them.
func TestSyncGroupsWaitForUnsyncedOnes(t *testing.T) {
	r, owners := batchRig(t, 16)
	o, j := owners[0], r.store.journal
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "*.jnl", Action: mem.FaultDelay, Delay: 20})
	o.append(1, 10)
	r.turn()
	sequence := j.sequence
	o.appendAt(core.DurabilitySync, 1, 10)
	for range 10 {
		r.turn()
		if j.inFlight != 1 || j.sequence != sequence {
			t.Fatalf("%d groups in flight, the last is %d: one was issued beside %d", j.inFlight, j.sequence, sequence)
		}
	}
	if slow.Hits() != 1 {
		t.Fatal("the group before was not held back")
	}
	r.settle()
	r.until("the ack", func() bool { return o.log.DurableOffset() == o.log.EndOffset() })
}

// While a sync is in flight the next group gathers, also one that needs no sync: it
// would be called synced by a header that was written before it was.
func TestNothingIsIssuedBesideASync(t *testing.T) {
	r, owners := batchRig(t, 16)
	o, j := owners[0], r.store.journal
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 20})
	o.appendAt(core.DurabilitySync, 1, 10)
	r.turn()
	sequence := j.sequence
	for range 10 {
		o.append(1, 10)
		r.turn()
		if j.sequence != sequence {
			t.Fatalf("group %d was issued beside the sync of %d", j.sequence, sequence)
		}
	}
	if slow.Hits() != 1 {
		t.Fatal("the sync was not held back")
	}
	r.until("the writes", func() bool { return o.log.WrittenOffset() == o.log.EndOffset() })
}

// The disk does not wait while the acks of a group are made: what has gathered behind
// it is issued first. That stays after it in the journal, and says that it is synced.
func TestNextGroupIsIssuedBeforeTheAcks(t *testing.T) {
	r, owners := batchRig(t, 16)
	o, j := owners[0], r.store.journal
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 5})
	o.appendAt(core.DurabilitySync, 1, 10)
	r.turn()
	first, end := j.sequence, o.log.EndOffset()
	o.appendAt(core.DurabilitySync, 1, 10)
	heard := false
	o.hear = func() {
		if heard || o.log.DurableOffset() < end {
			return
		}
		if heard = true; j.sequence != first+1 || j.inFlight != 1 || j.synced != first {
			t.Errorf("group %d is durable, %d is the last one issued, %d in flight, up to %d synced", first, j.sequence, j.inFlight, j.synced)
		}
	}
	r.until("the acks", func() bool { return o.log.DurableOffset() == o.log.EndOffset() })
	if !heard {
		t.Error("the first ack was not heard of alone")
	}
}

// The journal goes on in the next file only when the one before is synced: else a
// group there would be acked as durable, and those before it, which it follows,
// would be lost in a power cut.
func TestJournalRollSyncsTheFileBefore(t *testing.T) {
	r, owners := batchRig(t, 16, 17)
	plain, acked := owners[0], owners[1]
	j := r.store.journal
	for rolls := 0; rolls < 3; {
		before := j.current
		plain.append(4, 1000)
		r.turn()
		if j.current == before {
			continue
		}
		rolls++
		acked.appendAt(core.DurabilitySync, 1, 10)
		r.until("the ack", func() bool { return acked.log.DurableOffset() == acked.log.EndOffset() })
		want := []core.Offset{plain.log.DurableOffset(), acked.log.DurableOffset()}
		c := *r
		c.ops, c.fs = nil, r.fs.Crash(1, dropAll)
		c.start()
		if c.store.stats.JournalDamages > 0 {
			t.Fatalf("roll %d: the journal is damaged after a power cut", rolls)
		}
		for k, o := range c.reopen(16, 17) {
			if o.log.EndOffset() < want[k] || len(o.log.Damaged()) > 0 {
				t.Fatalf("roll %d: partition %d ends at %d, %d was durable; damaged %+v", rolls, o.id, o.log.EndOffset(), want[k], o.log.Damaged())
			}
		}
	}
}

// Of two unsynced groups in flight the later one may end first. Replay stops at the
// first gap, so nothing of it counts before the earlier one has ended: a batch that
// was called written survives kill -9.
func TestJournalGroupsCountInOrder(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityBatch })
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 10)
	}
	r.settle()
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "layout-*", Action: mem.FaultDelay, Delay: 50})
	owners[0].append(1, 100)
	r.store.Flush(r.clock.mono)
	owners[1].append(1, 100)
	for range 20 {
		r.turn()
	}
	if slow.Hits() != 1 || r.driver.Pending() != 1 {
		t.Fatalf("%d delays, %d operations pending: one group should have overtaken the other", slow.Hits(), r.driver.Pending())
	}
	if got := owners[1].log.WrittenOffset(); got != 1 {
		t.Errorf("the later group counts as written before the earlier one: offset %d", got)
	}
	for seed := range uint64(8) {
		c := *r
		c.ops = nil
		c.fs = r.fs.Kill(seed)
		c.start()
		for _, o := range owners {
			if got := c.open(o.id).log.EndOffset(); got < o.log.WrittenOffset() {
				t.Fatalf("seed %d: partition %d ends at %d, %d was written", seed, o.id, got, o.log.WrittenOffset())
			}
		}
	}
	r.settle()
	for _, o := range owners {
		if got := o.log.WrittenOffset(); got != 2 {
			t.Errorf("partition %d: written up to %d after both ended", o.id, got)
		}
	}
}
