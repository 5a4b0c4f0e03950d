package segment

import (
	"bytes"
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
