package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"pgregory.net/rapid"
)

// model is what a partition must hold: every batch that was appended and neither
// rolled back nor lost in a crash, in order.
type model struct {
	batches []rigBatch
	start   core.Offset // the log start that was acked
	asked   core.Offset // the highest that was asked for
	durable core.Offset // what was acked as durable
	epoch   core.Term
}

// modelStats says what the last runs went through, so that the test notices when
// it stops reaching a part of the engine.
var modelStats Stats

// TestModel runs random work, crashes and restarts against lists of batches.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runModel(t)
	})
	t.Logf("%+v", modelStats)
}

func runModel(t *rapid.T) {
	levels := []core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone}
	level := rapid.SampledFrom(levels).Draw(t, "level")
	reorder := rapid.Bool().Draw(t, "reorder")
	seed := rapid.Uint64().Draw(t, "seed")
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: level, SegmentBytes: 256 << 10, FlushNanos: 50e6, FlushBytes: 128 << 10}
		o.store.CacheBytes = 512 << 10
		o.store.StateBytes = 100 << 10
		o.store.IdleNanos = 3e9
		o.store.OpenFiles = 3
		o.driver = mem.DriverOptions{Reorder: reorder, Seed: seed}
	})
	ids := []core.PartitionID{16, 17, 18}
	r.serve(ids...)
	models := map[core.PartitionID]*model{}
	for _, id := range ids {
		models[id] = &model{}
	}
	note := func() { // what was acked until now
		for id, m := range models {
			o := r.owners[id]
			m.durable = max(m.durable, o.log.DurableOffset())
			m.start = o.log.StartOffset()
			if len(o.rolled) > 0 {
				t.Fatalf("rolled back without a fault: %v", o.rollErr)
			}
		}
	}
	reopen := func(power bool) {
		for _, id := range ids {
			m, o := models[id], r.open(id)
			if o.log.EndOffset() < m.durable {
				t.Fatalf("partition %d ends at %d after the crash, %d was durable", id, o.log.EndOffset(), m.durable)
			}
			for len(m.batches) > 0 && m.batches[len(m.batches)-1].base >= o.log.EndOffset() {
				m.batches = m.batches[:len(m.batches)-1]
			}
			sum, end := uint64(0), core.Offset(0)
			if n := len(m.batches); n > 0 {
				sum, end = m.batches[n-1].sum, m.batches[n-1].next
			}
			if end != o.log.EndOffset() {
				t.Fatalf("partition %d ends at %d, its batches at %d", id, o.log.EndOffset(), end)
			}
			if o.sum != sum {
				t.Fatalf("partition %d: the derived state differs after the restart (restored %v)", id, o.restored)
			}
			if o.log.StartOffset() < m.start || o.log.StartOffset() > m.asked {
				t.Fatalf("partition %d starts at %d, acked %d, asked %d", id, o.log.StartOffset(), m.start, m.asked)
			}
			if len(o.log.Damaged()) > 0 {
				t.Fatalf("partition %d is called damaged: %+v", id, o.log.Damaged())
			}
			if power && len(m.batches) > 0 && o.log.Term() <= m.epoch {
				t.Fatalf("partition %d: term %d after the crash, %d before", id, o.log.Term(), m.epoch)
			}
			m.durable = o.log.DurableOffset()
			o.history = append([]rigBatch(nil), m.batches...)
			o.batches = len(m.batches)
		}
		r.store.Start()
	}
	steps := rapid.IntRange(1, 60).Draw(t, "steps")
	for range steps {
		id := rapid.SampledFrom(ids).Draw(t, "id")
		o, m := r.owners[id], models[id]
		switch action := rapid.IntRange(0, 19).Draw(t, "action"); {
		case action < 7:
			for range rapid.IntRange(1, 20).Draw(t, "batches") {
				if o.tryAppend(rapid.IntRange(1, 4).Draw(t, "records"), rapid.IntRange(0, 2000).Draw(t, "size"), level) != nil {
					break
				}
			}
		case action < 9:
			_ = o.tryAppend(1, rapid.IntRange(64<<10, 200<<10).Draw(t, "large"), level)
		case action < 12:
			r.turn()
		case action == 12:
			r.settle()
		case action == 13:
			r.tick(rapid.Int64Range(1e6, 2e9).Draw(t, "nanos"))
		case action == 14:
			if n := len(o.history); n > 0 {
				at := o.history[rapid.IntRange(0, n-1).Draw(t, "trim")].next
				if err := r.store.Trim(o.log, at); err == nil {
					m.asked = max(m.asked, at)
				} else if !errors.Is(err, ErrStoreBusy) {
					t.Fatal(err)
				}
			}
		case action == 15:
			r.settle()
			from := o.log.StartOffset()
			if n := len(o.history); n > 0 {
				from = max(from, o.history[rapid.IntRange(0, n-1).Draw(t, "from")].base)
			}
			o.check(from)
		case action == 16:
			r.tick(4e9) // idle
		default:
			note()
			for _, id := range ids {
				models[id].batches = append([]rigBatch(nil), r.owners[id].history...)
				if l := r.owners[id].log; !l.openNeeded && l.opening == 0 { // before that nothing of the term was acked or shown
					models[id].epoch = l.Term()
				}
			}
			switch action {
			case 17:
				r.crash(rapid.Uint64().Draw(t, "crash"), mem.CrashOptions{})
				reopen(true)
			case 18:
				r.kill(rapid.Uint64().Draw(t, "kill"))
				reopen(true)
			case 19:
				r.stop()
				note()
				for _, id := range ids {
					if d := r.owners[id].log.DurableOffset(); d != r.owners[id].log.EndOffset() {
						t.Fatalf("partition %d: durable %d of %d after a clean stop", id, d, r.owners[id].log.EndOffset())
					}
				}
				if rapid.Bool().Draw(t, "power") {
					r.crash(rapid.Uint64().Draw(t, "crash"), mem.CrashOptions{})
				} else {
					r.kill(0)
				}
				if !r.store.Clean() {
					t.Fatal("the start after a clean stop is called unclean")
				}
				reopen(false)
			}
		}
	}
	r.settle()
	note()
	for _, id := range ids {
		r.owners[id].check(r.owners[id].log.StartOffset())
	}
	if err := r.store.Err(); err != nil {
		t.Fatal(err)
	}
	r.verify()
	modelStats.JournalRecycles += r.store.stats.JournalRecycles
	modelStats.Rolls += r.store.stats.Rolls
	modelStats.StatesWritten += r.store.stats.StatesWritten
	modelStats.DirectFrames += r.store.stats.DirectFrames
	modelStats.ReadsDisk += r.store.stats.ReadsDisk
	modelStats.JournalCopied += r.store.stats.JournalCopied
	modelStats.TailsCut += r.store.stats.TailsCut
}
