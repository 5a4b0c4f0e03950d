package group

import (
	"fmt"
	"testing"
	"time"
)

// crowd is a group of n members that all read one topic.
func crowd(t testing.TB, members, partitions int) (*Group, *catalog) {
	c := &catalog{order: []string{"a"}}
	c.set("a", 1, partitions)
	g := New("g", Stream, 0, 1)
	for i := range members {
		joinOne(t, g, c, i)
	}
	settle(t, g)
	return g, c
}

func joinOne(t testing.TB, g *Group, c *catalog, i int) *Member {
	m, err := g.Join(&Joining{ID: fmt.Sprintf("m%04d", i), Names: []string{"a"}, Session: int64(time.Minute), Rebalance: int64(time.Minute)}, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func settle(t testing.TB, g *Group) (rounds int) {
	for rounds = 0; !g.Settled(); rounds++ {
		if rounds == 4 {
			t.Fatal("not settled after four rounds of heartbeats")
		}
		for _, m := range g.Members {
			g.Heartbeat(m, m.Version, 0)
		}
	}
	return rounds
}

func holders(g *Group) map[int]string {
	held := make(map[int]string)
	for i, p := range g.Topics[0].Partitions {
		held[i] = p.Holder.ID
	}
	return held
}

func moved(before, after map[int]string) int {
	n := 0
	for i, id := range before {
		if after[i] != id {
			n++
		}
	}
	return n
}

// One that joins gets its share and nothing else moves; one that leaves moves what it had.
func TestOnlyWhatMustMoveMoves(t *testing.T) {
	g, c := crowd(t, 20, 100)
	before := holders(g)
	m := joinOne(t, g, c, 999)
	settle(t, g)
	joined := holders(g)
	if n := moved(before, joined); n != 100/21 {
		t.Errorf("%d partitions moved for one that joined, want %d", n, 100/21)
	}
	g.Leave(m, false, 1, 0)
	settle(t, g)
	if n := moved(joined, holders(g)); n != 100/21 {
		t.Errorf("%d partitions moved for one that left, want %d", n, 100/21)
	}
}

// Loads differ by one at most, and those who are too many idle without a word.
func TestLoadsAreLevelAndExtraMembersIdle(t *testing.T) {
	for _, n := range []struct{ members, partitions int }{{7, 100}, {10, 3}, {1, 1}, {3, 3}} {
		g, _ := crowd(t, n.members, n.partitions)
		load := map[string]int{}
		for _, id := range holders(g) {
			load[id]++
		}
		for _, m := range g.Members {
			if l := load[m.ID]; l < n.partitions/n.members || l > (n.partitions+n.members-1)/n.members {
				t.Errorf("%d members, %d partitions: %s has %d", n.members, n.partitions, m.ID, l)
			}
		}
		epoch := g.Epoch
		for range 5 {
			for _, m := range g.Members {
				g.Heartbeat(m, m.Version, 0)
			}
		}
		if g.Epoch != epoch {
			t.Errorf("%d members, %d partitions: the epoch rose from %d to %d in silence", n.members, n.partitions, epoch, g.Epoch)
		}
	}
}

// A partition is given out only after who had it has said that it stopped, and who keeps its
// partitions is told nothing.
func TestGivenUpBeforeGivenOut(t *testing.T) {
	g, c := crowd(t, 2, 4)
	versions := []int64{g.Members[0].Version, g.Members[1].Version}
	m := joinOne(t, g, c, 999)
	has := 0
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder == m {
			has++
		}
	})
	if has != 0 {
		t.Fatalf("who joined has %d partitions before anybody gave one up", has)
	}
	told := 0
	for i := range versions {
		if g.Members[i].Version != versions[i] {
			told++
			g.Heartbeat(g.Members[i], versions[i], 0) // it has not seen the new one
		}
	}
	if told != 1 || g.Settled() {
		t.Fatalf("%d members were told, want 1; settled: %v", told, g.Settled())
	}
	settle(t, g)
}

// A static member that comes back has what it had, under new epochs, and nobody moves.
func TestStaticMemberReturns(t *testing.T) {
	g, c := crowd(t, 3, 9)
	join := func(id string) *Member {
		m, err := g.Join(&Joining{ID: id, Instance: "s", Names: []string{"a"}, Session: int64(time.Minute), Rebalance: int64(time.Minute)}, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := join("first")
	settle(t, g)
	epoch, before, owner := g.Epoch, holders(g), m.Epoch
	g.Leave(m, true, 1, 0)
	join("second")
	after := holders(g)
	for i, id := range before {
		if id == "first" {
			before[i] = "second"
		}
		if p := g.Topics[0].Partitions[i]; after[i] == "second" && p.Epoch <= owner {
			t.Errorf("partition %d is still under epoch %d, which the old process has", i, p.Epoch)
		}
	}
	if n := moved(before, after); n != 0 || g.Epoch != epoch || !g.Settled() {
		t.Errorf("%d partitions moved, epoch %d after %d, settled: %v", n, g.Epoch, epoch, g.Settled())
	}
}

// 200 members and 1,000 partitions: what one more costs.
func BenchmarkJoinOfOneMore(b *testing.B) {
	g, c := crowd(b, 200, 1000)
	b.ResetTimer()
	for range b.N {
		m := joinOne(b, g, c, 9999)
		for _, o := range g.Members {
			g.Heartbeat(o, o.Version, 0)
		}
		g.AppendRecord(nil)
		g.Leave(m, false, 1, 0)
	}
}
