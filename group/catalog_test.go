package group

import (
	"testing"
	"time"
)

// A view that is older than the one that topics were taken from takes nothing away, and who joins with it gets what it
// asks for from the next one that is not.
func TestOlderViewTakesNothingAway(t *testing.T) {
	now := int64(time.Hour)
	topics := &catalog{order: []string{"a", "b"}}
	topics.set("a", 1, 2)
	older := topics.clone()
	topics.set("b", 2, 2)
	g := New("g", Stream, 0, 1)
	join := func(id string, view *catalog, names ...string) *Member {
		m, err := g.Join(&Joining{ID: id, Session: int64(time.Minute), Rebalance: int64(time.Minute), Names: names}, view, now)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := join("first", topics, "a", "b")
	version := first.Version
	now += 2 * lookNanos
	if g.Refresh(&older, now); first.Version != version || len(g.Topics) != 2 {
		t.Fatalf("a heartbeat with an older view leaves %d topics", len(g.Topics))
	}
	topics.set("c", 3, 1)
	second := join("second", &older, "b", "c")
	if len(g.Topics) != 2 {
		t.Fatalf("a join with an older view leaves %d topics", len(g.Topics))
	}
	settle(t, g)
	if g.Refresh(topics, now); len(g.Topics) != 3 || g.Topics[2].Partitions[0].Target != second {
		t.Errorf("who has joined with an older view does not get the topic that it asks for: %d topics", len(g.Topics))
	}
	epoch := g.Last
	if g.Refresh(topics, now); g.Last != epoch {
		t.Error("the group looks again although nothing has changed")
	}
}
