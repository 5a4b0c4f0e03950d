package group

import (
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// A member that lives and does not give up what it was told to is removed after its rebalance time-out, also when it is
// told to give up more meanwhile.
func TestMoveBy(t *testing.T) {
	topics := &catalog{epoch: 1, topics: map[string]*core.Topic{}}
	topics.set("t", 1, 6)
	g := New("g", Stream, 0, 1)
	second := int64(time.Second)
	join := func(id string, now int64) *Member {
		m, err := g.Join(&Joining{ID: id, Session: 100 * second, Rebalance: 20 * second, Names: []string{"t"}}, topics, now)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := join("a", 0)
	applied := a.Version
	join("b", 0)
	if a.MoveBy != 20*second {
		t.Fatalf("a has to give up by %d", a.MoveBy)
	}
	join("c", 15*second)
	g.Heartbeat(a, applied, 16*second)
	if gone := g.Expire(1, 19*second); len(gone) != 0 {
		t.Fatal("removed before its time")
	}
	if at, ok := g.Deadline(); !ok || at != 20*second {
		t.Fatalf("the next deadline is %d", at)
	}
	if gone := g.Expire(1, 20*second); len(gone) != 1 || gone[0] != a {
		t.Fatalf("removed: %v", gone)
	}
	if len(g.Members) != 2 || !g.Settled() {
		t.Errorf("%d members, settled %v", len(g.Members), g.Settled())
	}
}
