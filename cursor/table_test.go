package cursor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// oracle is the table as a list of everything that was stored.
type stored struct {
	index core.Index
	entry Entry
}

func drawEntry(t *rapid.T) Entry {
	return Entry{
		Kind:      rapid.SampledFrom([]Kind{Commit, Commit, Commit, Own, Seek, Forget}).Draw(t, "kind"),
		Group:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
		Epoch:     rapid.Int64Range(0, 6).Draw(t, "epoch"),
		Offset:    rapid.Int64Range(0, 20).Draw(t, "offset"),
		LastEpoch: rapid.Int32Range(-1, 3).Draw(t, "last"),
		Time:      rapid.Int64Range(0, 1000).Draw(t, "time"),
		Metadata:  rapid.StringN(0, 4, 8).Draw(t, "metadata"),
	}
}

// Whatever is stored, lost and started again: offsets and owners never go back but by a seek,
// and a replay from any snapshot comes to the same table.
func TestCursorModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		var log []stored
		index, durable := core.Index(0), core.Index(0)
		snapshot, snapshotAt := []byte(nil), core.Index(0)
		same := func(t *rapid.T, other *Table, what string) {
			if string(other.AppendSnapshot(nil)) != string(table.AppendSnapshot(nil)) {
				t.Fatalf("%s comes to another table", what)
			}
			if other.Bytes() != table.Bytes() || len(other.AppendSnapshot(nil)) != 6+table.Bytes() {
				t.Fatalf("the table says %d bytes and takes %d", table.Bytes(), len(other.AppendSnapshot(nil))-6)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				e := drawEntry(t)
				var parsed Entry
				if err := Parse(e.Append(AppendHead(nil)), func(p *Entry) error { parsed = *p; return nil }); err != nil {
					t.Fatal(err)
				}
				index++
				before, known := table.Get(e.Group)
				outcome := table.Apply(index, &parsed, true)
				after, _ := table.Get(e.Group)
				if e.Kind != Forget {
					if after.Owner < before.Owner {
						t.Fatalf("the owner fell from %d to %d", before.Owner, after.Owner)
					}
					if e.Kind != Seek && after.Offset < before.Offset {
						t.Fatalf("the offset fell from %d to %d", before.Offset, after.Offset)
					}
					if e.Kind == Commit && e.Epoch != before.Owner && (outcome != Stale || after != before) {
						t.Fatalf("epoch %d commits, %d is the owner: %v, %+v became %+v", e.Epoch, before.Owner, outcome, before, after)
					}
					if known && e.Epoch < before.Owner && (outcome != Stale || after != before) {
						t.Fatalf("epoch %d after %d: %v, %+v became %+v", e.Epoch, before.Owner, outcome, before, after)
					}
					if outcome == Done && e.Kind != Own && after.Offset != e.Offset {
						t.Fatalf("the offset is %d after %d was stored", after.Offset, e.Offset)
					}
				}
				log = append(log, stored{index, parsed})
			},
			"sync": func(t *rapid.T) {
				durable = core.Index(rapid.Uint64Range(uint64(durable), uint64(index)).Draw(t, "durable"))
				table.Durable(durable)
			},
			"lose": func(t *rapid.T) {
				index = durable
				table.Rollback(durable)
				log = log[:durable]
				if snapshotAt > durable {
					snapshot, snapshotAt = nil, 0
				}
			},
			"snapshot": func(*rapid.T) { snapshot, snapshotAt = table.AppendSnapshot(nil), index },
			"start": func(t *rapid.T) {
				var again Table
				if err := again.Restore(snapshot); err != nil {
					t.Fatal(err)
				}
				for i := range log[snapshotAt:] {
					again.Apply(log[snapshotAt:][i].index, &log[snapshotAt:][i].entry, false)
				}
				same(t, &again, "a start")
				same(t, table.Clone(), "a clone")
			},
		})
	})
}

// A zombie's commit does nothing, a late repetition does nothing, and both are told apart.
func TestLateCommits(t *testing.T) {
	var table Table
	for _, c := range []struct {
		e    Entry
		want Outcome
		at   int64
	}{
		{Entry{Kind: Commit, Epoch: 3, Offset: 1}, Stale, -1},
		{Entry{Kind: Own, Epoch: 3}, Done, -1},
		{Entry{Kind: Commit, Epoch: 3, Offset: 10}, Done, 10},
		{Entry{Kind: Commit, Epoch: 3, Offset: 7}, Older, 10},
		{Entry{Kind: Commit, Epoch: 3, Offset: 10}, Older, 10},
		{Entry{Kind: Own, Epoch: 5}, Done, 10},
		{Entry{Kind: Own, Epoch: 4}, Stale, 10},
		{Entry{Kind: Commit, Epoch: 3, Offset: 11}, Stale, 10},
		{Entry{Kind: Commit, Epoch: 6, Offset: 12}, Stale, 10},
		{Entry{Kind: Commit, Epoch: 5, Offset: 9}, Older, 10},
		{Entry{Kind: Seek, Epoch: 5, Offset: 2}, Stale, 10},
		{Entry{Kind: Seek, Epoch: 7, Offset: 2}, Done, 2},
		{Entry{Kind: Commit, Epoch: 7, Offset: 3}, Done, 3},
		{Entry{Kind: Forget}, Done, -1},
		{Entry{Kind: Commit, Epoch: 7, Offset: 4}, Stale, -1},
	} {
		c.e.Group = "g"
		if got := table.Apply(0, &c.e, false); got != c.want {
			t.Errorf("%+v: %v, want %v", c.e, got, c.want)
		}
		if s, _ := table.Get("g"); s.Offset != c.at {
			t.Errorf("%+v: the offset is %d, want %d", c.e, s.Offset, c.at)
		}
	}
}

// Bytes that are no frame, or no snapshot, are refused and leave an empty table.
func FuzzParse(f *testing.F) {
	e := Entry{Kind: Commit, Group: "g", Epoch: 1, Offset: 2, Metadata: "m"}
	f.Add(e.Append(AppendHead(nil)))
	var table Table
	table.Apply(0, &e, false)
	f.Add(table.AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		if err := Parse(b, func(e *Entry) error { again = e.Append(again); return nil }); err == nil {
			if err := Parse(AppendHead(nil), nil); err != nil {
				t.Fatal(err)
			}
			n := 0
			if err := Parse(append(AppendHead(nil), again...), func(*Entry) error { n++; return nil }); err != nil {
				t.Fatalf("what was parsed does not parse: %v", err)
			}
		}
		var table Table
		if err := table.Restore(b); err == nil && len(b) > 0 {
			var other Table
			if err := other.Restore(table.AppendSnapshot(nil)); err != nil || other.Groups() != table.Groups() {
				t.Fatal(fmt.Sprint("a snapshot of a restored table: ", err))
			}
		} else if err != nil && table.Groups() != 0 {
			t.Fatal("a table is left after a snapshot that was refused")
		}
	})
}

// A walk in steps meets every group that stays once, whatever comes and goes between its steps, and the next walk meets
// all again. What the table has once held leaves no memory behind.
func TestWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table Table
	stay, come, there := 0, 0, []int{}
	set := func(format string, i int, kind Kind) {
		table.Apply(1, &Entry{Kind: kind, Group: fmt.Sprintf(format, i), Epoch: 1, Offset: int64(i)}, false)
	}
	for ; stay < 5_000; stay++ {
		set("stays-%d", stay, Seek)
	}
	for walk := range 20 {
		met := map[string]int{}
		for all := false; !all; {
			all = table.Walk(1+r.IntN(50), func(group string, s *State) {
				met[group]++
				if state, ok := table.Get(group); !ok || state != *s {
					t.Fatalf("group %s is met as %+v and is %+v", group, *s, state)
				}
			})
			for range r.IntN(200) {
				if r.IntN(2) == 0 {
					set("comes-%d", come, Seek)
					there = append(there, come)
					come++
				} else if len(there) > 0 {
					k := r.IntN(len(there))
					set("comes-%d", there[k], Forget)
					there = slices.Delete(there, k, k+1)
				}
			}
		}
		for i := range stay {
			if n := met[fmt.Sprintf("stays-%d", i)]; n != 1 {
				t.Fatalf("walk %d has met a group %d times", walk, n)
			}
		}
		for group, n := range met {
			if n != 1 {
				t.Fatalf("walk %d has met %s %d times", walk, group, n)
			}
		}
	}
	for i := range stay {
		set("stays-%d", i, Forget)
	}
	for i := range come {
		set("comes-%d", i, Forget)
	}
	if table.Groups() != 0 || table.Bytes() != 0 || table.peak > 2_000 || cap(table.list) > 2_000 {
		t.Errorf("%d groups are left, %d bytes, memory of %d and %d", table.Groups(), table.Bytes(), table.peak, cap(table.list))
	}
}
