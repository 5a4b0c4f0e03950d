package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// surface is everything that an operator or a caller gets to hear of: what was
// logged, and the errors that were answered.
type surface struct{ text strings.Builder }

func (s *surface) Enabled(context.Context, slog.Level) bool { return true }
func (s *surface) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *surface) WithGroup(string) slog.Handler            { return s }

func (s *surface) Handle(_ context.Context, r slog.Record) error {
	fmt.Fprintf(&s.text, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&s.text, " %v", a); return true })
	s.text.WriteByte('\n')
	return nil
}

// answered takes an error that somebody was given.
func (s *surface) answered(err error) {
	if err != nil {
		fmt.Fprintln(&s.text, "answered", err)
	}
}

// requireSurfaced requires each rule that hit something and did not merely delay it
// to have come to light, and returns how many did.
func (s *surface) requireSurfaced(t *testing.T, faults []*mem.Fault) (surfaced int) {
	t.Helper()
	for i, f := range faults {
		if f.Hits() == 0 || f.Action == mem.FaultDelay {
			continue
		}
		said := s.text.String()
		// A disk that is known to be full is not reported full again.
		full := errors.Is(f.Err, syscall.ENOSPC) && strings.Contains(said, "the disk is full")
		if !full && !strings.Contains(said, fmt.Sprintf("injected fault #%d:", i)) {
			t.Errorf("%s of %s failed by rule %d and nobody was told", f.Kind, f.Path, i)
			continue
		}
		surfaced++
	}
	return surfaced
}

// Whatever fails on the disk comes to light, in an answer or in the log; nothing
// acked is lost by it; and the log accepts appends again when the faults are over.
func TestEveryInjectedFaultSurfaces(t *testing.T) {
	total := 0
	for seed := range uint64(40) {
		total += runSurface(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if total < 60 {
		t.Fatalf("only %d faults were injected", total)
	}
}

func runSurface(t *testing.T, seed uint64) int {
	heard := &surface{}
	r := newRig(t, func(o *rigOptions) {
		o.said = slog.New(heard)
		o.log.SegmentBytes = 128 << 10
		o.store.StateBytes = 64 << 10
		o.store.IdleNanos = 2e9
		o.store.ScrubBytesPerSecond = -1
		o.log.RetentionBytes = 400 << 10
	})
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	o.append(1, 66<<10)
	r.settle()
	faults := mem.RandomFaults(seed, mem.FaultMix{
		Count: 6, SkipMax: 3, Paths: []string{"topics/*.log", "topics*"}, DelayMax: 30,
		// A close gives up its descriptor whatever it answers, after everything was synced.
		Kinds: []core.DiskOpKind{
			core.DiskWrite, core.DiskSync, core.DiskAllocate, core.DiskTruncate, core.DiskCreate, core.DiskOpen,
			core.DiskRename, core.DiskRemove, core.DiskSyncDir,
		},
		Actions: []mem.FaultAction{mem.FaultFail, mem.FaultTear, mem.FaultDelay},
	})
	for _, f := range faults {
		r.fs.Inject(f)
	}
	dice := rand.New(rand.NewPCG(seed, 5))
	for range 60 {
		switch dice.IntN(6) {
		case 0, 1:
			heard.answered(o.tryAppend(1+dice.IntN(3), dice.IntN(3000), core.DurabilitySync))
		case 2:
			heard.answered(o.tryAppend(1, 64<<10+dice.IntN(60<<10), core.DurabilitySync))
		case 3:
			r.settle()
		case 4:
			r.tick(1 + dice.Int64N(3e9))
		case 5:
			_, err := o.read(o.log.StartOffset(), o.log.DurableOffset(), 256<<10)
			heard.answered(err)
		}
		heard.answered(o.rollErr)
	}
	for range 6 {
		r.tick(2e9)
	}
	heard.answered(r.store.Err())
	surfaced := heard.requireSurfaced(t, faults)
	r.fs.ClearFaults()
	r.tick(2e9)
	r.until("an append after the faults", func() bool { return o.tryAppend(1, 10, core.DurabilitySync) == nil })
	r.settle()
	start := o.log.StartOffset()
	history := o.history
	check := func(o *rigOwner) {
		t.Helper()
		o.history = nil
		for _, b := range history {
			if b.next > start {
				o.history = append(o.history, b)
			}
		}
		if o.log.DurableOffset() != o.log.EndOffset() || len(o.log.Damaged()) > 0 {
			t.Errorf("durable %d of %d, damaged %+v", o.log.DurableOffset(), o.log.EndOffset(), o.log.Damaged())
			return
		}
		got, err := o.read(start, o.log.EndOffset(), 256<<10)
		var want []byte
		for _, b := range o.history {
			want = append(want, b.bytes...)
		}
		if err != nil || string(got) != string(want) {
			t.Errorf("reading from %d on: %d bytes, want %d; %v", start, len(got), len(want), err)
		}
	}
	check(o)
	sum := o.sum
	r.crash(seed, dropAll)
	o = r.open(16)
	if o.sum != sum || o.log.StartOffset() != start {
		t.Errorf("after a power cut the state differs, or the log starts at %d instead of %d", o.log.StartOffset(), start)
	}
	r.store.Start()
	check(o)
	return surfaced
}

// A journal that fails says so by its own error, which ends the process: nothing
// that fails there goes unheard either, from the making of the files on.
func TestEveryInjectedJournalFaultSurfaces(t *testing.T) {
	total := 0
	for seed := range uint64(40) {
		heard := &surface{}
		r := newRig(t, func(o *rigOptions) { o.said = slog.New(heard) })
		faults := mem.RandomFaults(seed, mem.FaultMix{
			Count: 1, SkipMax: 9, Paths: []string{"*.jnl"}, // one: the first ends the process
			Kinds:   []core.DiskOpKind{core.DiskWrite, core.DiskSync, core.DiskAllocate, core.DiskOpen},
			Actions: []mem.FaultAction{mem.FaultFail, mem.FaultTear},
		})
		for _, f := range faults {
			r.fs.Inject(f)
		}
		o := r.serve(16)[0]
		for i := 0; i < 120 && r.store.Err() == nil; i++ {
			heard.answered(o.tryAppend(2, 3000, core.DurabilitySync))
			r.turn()
			if i%50 == 0 {
				r.clock.advance(1e9)
				r.store.Tick(r.clock.mono)
			}
		}
		for range 20 { // what was in flight ends
			r.turn()
		}
		durable := o.log.DurableOffset()
		heard.answered(r.store.Err())
		if err := r.store.Err(); err != nil && !errors.Is(err, ErrJournalFailed) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		total += heard.requireSurfaced(t, faults)
		r.fs.ClearFaults()
		r.crash(seed, dropAll)
		if got := r.open(16); got.log.EndOffset() < durable {
			t.Errorf("the log ends at %d, %d was acked", got.log.EndOffset(), durable)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if total < 20 {
		t.Fatalf("only %d faults were injected", total)
	}
}
