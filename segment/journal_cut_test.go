package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// Two groups were in flight when the power went: the first is gone, of the second
// only the header is whole. The start cuts both. What is left of the second in the
// file is no damage to any later start.
func TestCutGroupIsNoDamageLater(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityBatch })
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	r.tick(2e9)
	acked := o.log.DurableOffset()
	first, name := r.store.journal.position, r.store.journal.current.path
	o.append(1, 5000)
	r.turn()
	second := r.store.journal.position
	o.append(1, 9000)
	r.turn()
	r.fs = r.fs.Kill(0)
	r.patch(name, first, make([]byte, second-first))
	r.patch(name, second+4096, make([]byte, 4096))
	for round := range 3 {
		r.kill(0)
		o = r.open(16)
		if got := r.store.stats.JournalDamages; got != 0 || len(o.log.Damaged()) > 0 {
			t.Fatalf("start %d: %d damages of the journal, damaged %+v", round, got, o.log.Damaged())
		}
		if r.store.Clean() != (round == 2) {
			t.Fatalf("start %d: clean is %v", round, r.store.Clean())
		}
		if got := o.log.EndOffset(); round == 0 && got != acked {
			t.Fatalf("the log ends at %d, want %d", got, acked)
		}
		r.store.Start()
		o.append(1, 10)
		r.settle()
		if round == 1 {
			r.stop()
		}
	}
}
