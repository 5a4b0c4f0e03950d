package main

import (
	"flag"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("sim.seed", 1, "of the first run")
	mostRuns  = flag.Int("sim.runs", 40, "how many runs")
)

// testTime is after how long TestRuns begins no more runs, on a machine that is busy with other things.
const testTime = 15 * time.Second

func TestRuns(t *testing.T) {
	began := time.Now()
	for i := range *mostRuns {
		if *mostRuns == 40 && time.Since(began) > testTime {
			t.Logf("%d runs in %v", i, time.Since(began))
			break
		}
		check(t, *firstSeed+uint64(i))
	}
}

func check(t *testing.T, seed uint64) {
	t.Helper()
	if o := simulate(seed, options{}); o.failed != nil {
		t.Fatalf("%s\nseed %d: %v\nrepeat it: go run ./tools/sim -seed %d -v", o.trace, seed, o.failed, seed)
	}
}

// The same seed gives the same run, to the last event.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 6; seed++ {
		once, again := simulate(seed, options{}), simulate(seed, options{})
		if once.digest != again.digest || once.counts != again.counts {
			t.Errorf("seed %d: the traces are %x and %x, after %+v and %+v", seed, once.digest, again.digest, once.counts, again.counts)
		}
	}
}

// The seeds that found something, with what it was. The world of a seed changes when the simulator does, so each bug
// has a test of its own beside its code as well.
var kept = []struct {
	seed   uint64
	found  string
	queued bool // with -queues
}{
	{6, "a FETCH that a shutdown had refused was answered once more", false},
	{529, "an EIO while the number of shards changed cost the journal what could not be read", false},
	{101010, "recycling freed the journal's frames of a partition that a start could not open", false},
	{200357, "the same, with the first records of a log", false},
	{101681, "the ledger took for durable what a kill had lost before", false},
	{300096, "a producer that came after the last fault never stopped", false},
	{1005409, "a fetch that read while the durability was raised showed what had not reached it", false},
	{1104466, "what a group had committed stood above the high watermark, which a raised durability had taken back", false},
	{907151, "the header of an empty segment, which a killed process had not synced, was built on, and a power cut took it", false},
	{903014, "a client that had not read for a while took an old answer for news of the next life", false},
	{804659, "the ledger took for durable in an epoch what a power cut had lost", false},
	{800193, "a batch without a producer id, sent before its connection was reset, was overtaken by one of the next connection", false},
	{70480, "a FETCH of which a chunk was sent went on in a log that was cut since", true},
}

func TestKeptSeeds(t *testing.T) {
	for _, k := range kept {
		if o := simulate(k.seed, options{queued: k.queued}); o.failed != nil {
			t.Errorf("seed %d, which found that %s: %v", k.seed, k.found, o.failed)
		}
	}
}
