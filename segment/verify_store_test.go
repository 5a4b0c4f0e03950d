package segment

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"pgregory.net/rapid"
)

// TestVerifyWhatCrashesLeave runs a store, ends it in any manner, and verifies
// the folder before and after the next start: a crash leaves torn tails, never damage.
func TestVerifyWhatCrashesLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.SampledFrom([]core.Durability{core.DurabilitySync, core.DurabilityBatch, core.DurabilityNone}).Draw(t, "level")
		r := newRig(t, func(o *rigOptions) {
			o.log = LogOptions{Durability: level, SegmentBytes: 128 << 10, FlushNanos: 50e6, FlushBytes: 64 << 10}
			o.store.StateBytes = 50 << 10
			o.driver = mem.DriverOptions{Reorder: rapid.Bool().Draw(t, "reorder"), Seed: rapid.Uint64().Draw(t, "seed")}
		})
		ids := []core.PartitionID{16, 17}
		r.serve(ids...)
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				o := r.owners[rapid.SampledFrom(ids).Draw(t, "id")]
				switch rapid.IntRange(0, 7).Draw(t, "action") {
				case 0, 1, 2:
					for range rapid.IntRange(1, 30).Draw(t, "batches") {
						if o.tryAppend(1, rapid.IntRange(0, 3000).Draw(t, "size"), level) != nil {
							break
						}
					}
				case 3:
					_ = o.tryAppend(1, rapid.IntRange(64<<10, 100<<10).Draw(t, "large"), level)
				case 4:
					r.turn()
				case 5:
					r.settle()
				case 6:
					r.tick(rapid.Int64Range(1e6, 2e9).Draw(t, "nanos"))
				case 7:
					if n := len(o.history); n > 0 {
						_ = r.store.Trim(o.log, o.history[rapid.IntRange(0, n-1).Draw(t, "trim")].next)
					}
				}
			}
			seed := rapid.Uint64().Draw(t, "crash")
			switch rapid.IntRange(0, 2).Draw(t, "end") {
			case 0:
				r.fs = r.fs.Crash(seed, mem.CrashOptions{})
			case 1:
				r.fs = r.fs.Kill(seed)
			case 2:
				r.stop()
				r.fs = r.fs.Kill(seed)
			}
			sound := func(when string) {
				var out bytes.Buffer
				sum, err := Verify(r.fs, NewReport(&out, false))
				if err != nil || !sum.Sound() {
					t.Fatalf("%s: %v\n%s", when, err, out.String())
				}
			}
			sound("before the start")
			r.start()
			for _, id := range ids {
				r.open(id)
			}
			sound("after the start")
			r.store.Start()
		}
	})
}

// What only the journal holds is counted, and a hole in the journal is told by the
// partitions and offsets that it took.
func TestVerifyTellsWhatTheJournalLost(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for range 3 {
		for _, o := range owners {
			o.append(2, 100)
			r.settle()
		}
	}
	r.stop()
	report := func() (VerifySummary, string) {
		var out bytes.Buffer
		sum, err := Verify(r.fs, NewReport(&out, false))
		if err != nil {
			t.Fatal(err)
		}
		return sum, out.String()
	}
	sum, text := report()
	if sum.Partitions != 2 || sum.Unwritten != 2 && sum.Segments == 0 || sum.JournalFrames != 6 || !sum.Sound() {
		t.Fatal(text)
	}
	name := JournalPath(1, 0, 1)
	b, err := readFile(r.fs, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var s JournalScanner
	if err := s.Open(bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
	at, base, next := int64(0), core.Offset(0), core.Offset(0)
	for s.Next() {
		_ = EachFrame(s.Body, func(_ int, h *FrameHeader, _ []byte, _ error) error {
			if h.Kind == FrameData && h.Partition == 17 && h.BaseOffset == 2 {
				at, base, next = s.Position+GroupHeaderBytes+FrameHeaderBytes+20, h.BaseOffset, h.Next()
			}
			return nil
		})
	}
	r.flip(name, at)
	sum, text = report()
	for _, part := range []string{"groups of sequence [", "; partition id 17; indexes [", fmt.Sprintf("; offsets [%d, %d)\n", base, next)} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	if sum.Sound() || strings.Contains(text, "partition id 16") {
		t.Error(text)
	}
	dumped := &bytes.Buffer{}
	if err := Dump(r.fs, name, NewReport(dumped, false)); err != nil || !strings.Contains(dumped.String(), fmt.Sprintf("; offsets [%d, %d)\n", base, next)) {
		t.Errorf("%v\n%s", err, dumped)
	}
}
