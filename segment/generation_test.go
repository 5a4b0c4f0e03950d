package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// gapRig is a log on whose disk a frame is missing while a later one is there: the
// first was on its way to the segment when the power was cut, the second stood
// synced in the journal. Neither was acked.
func gapRig(t *testing.T) (*rig, *rigOwner) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100<<10)
	r.settle()
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 1000})
	o.append(1, 100<<10)
	r.turn()
	synced := r.store.journal.synced
	o.append(5, 100)
	r.until("the journal's sync", func() bool { return r.store.journal.synced > synced })
	if slow.Hits() != 1 || o.log.DurableOffset() != 1 {
		t.Fatalf("%d writes held back, durable %d", slow.Hits(), o.log.DurableOffset())
	}
	history := o.history
	r.crash(1, dropAll)
	o = r.open(16)
	o.history = history[:1]
	return r, o
}

// Above the durable point a log is cut at its first gap, and the valid frames
// beyond it with it; that is counted, and is no damage.
func TestFramesBeyondAGapAreCut(t *testing.T) {
	r, o := gapRig(t)
	if o.log.EndOffset() != 1 {
		t.Fatalf("the log ends at %d, 1 was acked", o.log.EndOffset())
	}
	if d := o.log.Damaged(); len(d) > 0 {
		t.Fatalf("called damaged: %+v", d)
	}
	if r.store.stats.TailsCut != 1 {
		t.Fatalf("%d cut tails counted", r.store.stats.TailsCut)
	}
	r.store.Start()
	o.append(1, 10)
	r.settle()
	o.check(0)
}

// What a start cut stays cut: the frames that come after have the same indexes and
// a higher generation, and the old ones are discarded at every later start.
func TestGenerationRisesAtAnUncleanStart(t *testing.T) {
	r, o := gapRig(t)
	generation := o.log.Generation()
	r.store.Start()
	o.append(2, 77)
	r.settle()
	want, sum := o.history, o.sum
	if o.log.DurableOffset() != 3 || generation < 2 {
		t.Fatalf("durable %d, generation %d", o.log.DurableOffset(), generation)
	}
	for seed := range uint64(5) {
		c := r.branch(r.fs.Crash(seed, mem.CrashOptions{}))
		o := c.reopen(16)[0]
		if o.log.EndOffset() != 3 || o.sum != sum {
			t.Fatalf("seed %d: the log ends at %d with the wrong batches, want 3", seed, o.log.EndOffset())
		}
		o.history = want
		o.check(0)
	}
}
