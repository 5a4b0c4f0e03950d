package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"pgregory.net/rapid"
)

// TestCleanPointsNeverDropEarly keeps the whole history beside the short one.
func TestCleanPointsNeverDropEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const retention = 600
		var c CleanPoints
		var all []CleanPoint
		now, next := int64(1000), core.Offset(0)
		for range rapid.IntRange(1, 80).Draw(t, "passes") {
			now += int64(rapid.IntRange(0, 300).Draw(t, "later"))
			next += core.Offset(rapid.IntRange(0, 10).Draw(t, "more"))
			if next == 0 {
				continue
			}
			c = c.Add(next, now, retention)
			all = append(all, CleanPoint{next, now})
			if c.Next() != next {
				t.Fatalf("clean up to %d, want %d: %v", c.Next(), next, c)
			}
			want := core.Offset(0)
			late := core.Offset(0) // what was clean a third of the retention earlier
			for _, p := range all {
				if now-p.Time >= retention {
					want = max(want, p.Next)
				}
				if now-p.Time >= retention+retention/3+300 {
					late = max(late, p.Next)
				}
			}
			if got := c.Droppable(now, retention); got > want || got < late {
				t.Fatalf("droppable below %d, want [%d, %d]: %v", got, late, want, c)
			}
			for i := 1; i < c.used(); i++ {
				if c[i].Next <= c[i-1].Next || c[i].Time < c[i-1].Time {
					t.Fatalf("out of order: %v", c)
				}
			}
		}
	})
}
