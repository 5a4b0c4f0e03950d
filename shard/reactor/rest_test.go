package reactor

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// handClock goes on when it is told to.
type handClock struct{ now int64 }

func (c *handClock) Now() int64       { return 1_700_000_000e9 + c.now }
func (c *handClock) Monotonic() int64 { return c.now }

// A shard without work sleeps longer and longer: each sleep costs more than the turn
// behind it.
func TestShardWithoutWorkSleepsLong(t *testing.T) {
	clock := &handClock{now: 1}
	node, err := StartStepwise(StepOptions{
		Options: Options{Config: testConfig(1, 1), Disks: memDisks{mem.New()}, Clock: clock, Log: slog.New(slog.DiscardHandler)},
		Random:  rand.NewChaCha8([32]byte{1}), Kicked: func(core.ShardID) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Abandon()
	sleeps := func(span time.Duration) (count int) {
		for end := clock.now + int64(span); clock.now < end; {
			for node.RunJob() {
			}
			sleep, _, err := node.Turn(0)
			if err != nil {
				t.Fatal(err)
			}
			if sleep > 0 {
				count++
			}
			clock.now += max(sleep, 1000)
		}
		return count
	}
	sleeps(80 * time.Second) // what the start has written goes to its segments after a minute
	if !node.Ready() {
		t.Fatal("the node is not ready")
	}
	if n := sleeps(100 * time.Second); n > 120 {
		t.Errorf("%d sleeps in 100 s without work", n)
	}
	node.loops[0].workedAt = clock.now
	if n := sleeps(2 * time.Second); n < 900 {
		t.Errorf("%d sleeps in the 2 s behind work", n)
	}
}
