package group

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// queueCrowd is a queue group of n members that all read one topic.
func queueCrowd(t testing.TB, members, partitions, sharesMax int) (*Group, *catalog) {
	c := &catalog{order: []string{"a"}}
	c.set("a", 1, partitions)
	g := New("q", Queue, 0, 1)
	g.SharesMax = sharesMax
	for i := range members {
		joinOne(t, g, c, i)
	}
	return g, c
}

// shares are the places of each member's.
func shares(g *Group) map[*Member]map[place]bool {
	all := make(map[*Member]map[place]bool, len(g.Members))
	for _, m := range g.Members {
		all[m] = map[place]bool{}
	}
	for _, t := range g.Topics {
		for i := range t.Partitions {
			for _, m := range t.Partitions[i].Shared {
				all[m][place{t.Name, t.ID, i}] = true
			}
		}
	}
	return all
}

// While it fits everybody has everything, and who comes or goes disturbs nobody.
func TestQueueMembersShareEverything(t *testing.T) {
	g, c := queueCrowd(t, 5, 12, 1000)
	versions := map[*Member]int64{}
	for _, m := range g.Members {
		versions[m] = m.Version
	}
	late := joinOne(t, g, c, 99)
	g.Leave(g.Members[0], false, 1, 0)
	for m, has := range shares(g) {
		if len(has) != 12 {
			t.Errorf("%s has %d partitions of 12", m.ID, len(has))
		}
		if m != late && m.Version != versions[m] {
			t.Errorf("%s is told of an assignment that is what it had", m.ID)
		}
	}
}

// Beyond the bound each partition goes to as many as fit, and those who join take only their part.
func TestQueueSharesAreBounded(t *testing.T) {
	g, c := queueCrowd(t, 20, 10, 100)
	before := shares(g)
	for m, has := range before {
		if len(has) != 5 {
			t.Errorf("%s has %d partitions, want 100 places / 20 members", m.ID, len(has))
		}
	}
	late := joinOne(t, g, c, 99)
	lost := 0
	for m, has := range shares(g) {
		if m == late {
			if len(has) != 4 {
				t.Errorf("who joins has %d partitions, want 100/21", len(has))
			}
			continue
		}
		for at := range before[m] {
			if !has[at] {
				lost++
			}
		}
	}
	if lost != 4 {
		t.Errorf("%d places moved for one that joined, want the 4 that it has", lost)
	}
	g, _ = queueCrowd(t, 4, 10, 5)
	for i, p := range g.Topics[0].Partitions {
		if len(p.Shared) != 1 {
			t.Errorf("partition %d is shared by %d, want one when not even that fits", i, len(p.Shared))
		}
	}
}

// queueWorld is a queue group and what its members know.
type queueWorld struct {
	t       *rapid.T
	group   *Group
	catalog catalog
	now     int64
	serial  int
	topics  byte
	fenced  int64                     // the last fence
	known   map[string]map[place]bool // by member: what it was told
	version map[string]int64          // by member: with which version
}

func (w *queueWorld) join(t *rapid.T) {
	w.serial++
	j := &Joining{ID: fmt.Sprintf("m%03d", (w.serial*7919)%1000), Instance: rapid.SampledFrom([]string{"", "", "s1", "s2"}).Draw(t, "instance"),
		Session: 10 * int64(time.Second), Rebalance: 10 * int64(time.Second)}
	switch rapid.IntRange(0, 3).Draw(t, "wants") {
	case 0:
		j.Names = []string{"a"}
	case 1:
		j.Pattern = "[ab]"
	default:
		j.Names = []string{"a", "b", "c"}
	}
	if w.group.Member(j.ID) != nil {
		return
	}
	m, err := w.group.Join(j, &w.catalog, w.now)
	if err != nil {
		t.Fatal(err)
	}
	if m.Epoch <= w.fenced {
		t.Fatalf("%s joins under epoch %d, and %d has been fenced", m.ID, m.Epoch, w.fenced)
	}
	w.tell(m)
}

// tell is a heartbeat's or a join's answer.
func (w *queueWorld) tell(m *Member) {
	w.known[m.ID], w.version[m.ID] = shares(w.group)[m], m.Version
}

func (w *queueWorld) check() {
	g := w.group
	if !g.Settled() {
		w.t.Fatal("a queue group waits for somebody")
	}
	all := shares(g)
	wanted := 0
	for _, topic := range g.Topics {
		if len(g.readers(topic)) > 0 {
			wanted += len(topic.Partitions)
		}
	}
	most, alike := max(1, g.SharesMax/max(1, wanted)), true
	for _, topic := range g.Topics {
		readers := g.readers(topic)
		alike = alike && len(readers) == len(g.Members)
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			if p.Holder != nil || p.Target != nil {
				w.t.Fatalf("%s/%d of a queue group has an owner", topic.Name, i)
			}
			if len(p.Shared) != min(most, len(readers)) {
				w.t.Fatalf("%s/%d is shared by %d of %d readers, want %d", topic.Name, i, len(p.Shared), len(readers), most)
			}
			seen := map[*Member]bool{}
			for _, m := range p.Shared {
				if seen[m] || g.Member(m.ID) != m || !m.wants(topic) {
					w.t.Fatalf("%s/%d is shared by %s, twice, or who is gone, or does not read it", topic.Name, i, m.ID)
				}
				seen[m] = true
			}
		}
	}
	least, largest := 1<<30, 0
	for m, has := range all {
		least, largest = min(least, len(has)), max(largest, len(has))
		if m.Version == w.version[m.ID] && !maps.Equal(has, w.known[m.ID]) {
			w.t.Fatalf("%s is not told that it has %v now, not %v", m.ID, has, w.known[m.ID])
		}
	}
	if alike && largest-least > 1 {
		w.t.Fatalf("loads go from %d to %d", least, largest)
	}
	b := g.AppendRecord(nil)
	if weight := g.Weight(); len(b) > weight {
		w.t.Fatalf("a record of %d bytes weighs %d", len(b), weight)
	}
	again, err := ParseRecord(g.Name, b, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if string(again.AppendRecord(nil)) != string(b) {
		w.t.Fatal("the record reads back differently")
	}
}

// Whatever members and topics do: partitions are shared by as many readers as may, evenly, and
// whoever has something else than it knows hears of it.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &queueWorld{t: t, group: New("q", Queue, 5, 1), known: map[string]map[place]bool{}, version: map[string]int64{}}
		w.group.SharesMax = rapid.SampledFrom([]int{4, 12, 30, 1000}).Draw(t, "shares")
		w.catalog.order = []string{"a", "b", "c"}
		w.catalog.set("a", 1, 4)
		w.topics = 1
		member := func(t *rapid.T) *Member {
			if len(w.group.Members) == 0 {
				t.Skip("nobody is there")
			}
			return rapid.SampledFrom(w.group.Members).Draw(t, "member")
		}
		t.Repeat(map[string]func(*rapid.T){
			"":     func(t *rapid.T) { w.t = t; w.check() },
			"join": func(t *rapid.T) { w.join(t) },
			"beat": func(t *rapid.T) {
				m := member(t)
				w.group.Refresh(&w.catalog, w.now)
				w.group.Heartbeat(m, w.version[m.ID], w.now)
				w.tell(m)
			},
			"leave": func(t *rapid.T) { w.group.Leave(member(t), rapid.Bool().Draw(t, "returning"), 1, w.now) },
			"time": func(t *rapid.T) {
				w.now += int64(rapid.IntRange(0, 6).Draw(t, "seconds")) * int64(time.Second)
				w.group.Expire(1, w.now)
			},
			"topics": func(t *rapid.T) {
				name := rapid.SampledFrom(w.catalog.order).Draw(t, "topic")
				switch topic := w.catalog.topics[name]; {
				case topic == nil:
					w.topics++
					w.catalog.set(name, w.topics, rapid.IntRange(1, 6).Draw(t, "partitions"))
				case rapid.IntRange(0, 3).Draw(t, "delete") == 0:
					w.catalog.epoch++
					delete(w.catalog.topics, name)
				default:
					w.catalog.set(name, topic.ID[0], len(topic.Partitions)+1)
				}
			},
			"crash": func(t *rapid.T) {
				again, err := ParseRecord("q", w.group.AppendRecord(nil), w.now)
				if err != nil {
					t.Fatal(err)
				}
				again.SharesMax = w.group.SharesMax
				w.group = again
			},
			"fence": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "fence") == 0 {
					w.fenced = w.group.Fence(1)
				}
			},
		})
	})
}

// The largest group is shared out without a word about who has what, or in the room that its weight says.
func TestQueueRecordHoldsTheLargestGroup(t *testing.T) {
	for _, n := range []struct{ members, partitions int }{{1000, 32}, {1000, 400}, {200, 10_000}} {
		g, _ := queueCrowd(t, n.members, n.partitions, 1<<15)
		if b := g.AppendRecord(nil); len(b) > g.Weight() || g.Weight() > g.WeightMax {
			t.Errorf("%d members of %d partitions: a record of %d bytes weighs %d, and allowed are %d", n.members, n.partitions, len(b), g.Weight(), g.WeightMax)
		}
	}
}

func BenchmarkQueueJoinOfTheThousandth(b *testing.B) {
	g, c := queueCrowd(b, 999, 100, 1<<15)
	for b.Loop() {
		g.Leave(joinOne(b, g, c, 9999), false, 1, 0)
	}
}
