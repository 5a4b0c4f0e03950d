package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// lag is what the snapshots of all shards say of a group.
func (n *node) lag(group string) (sum GroupLag) {
	sum.Group = group
	for _, m := range n.machines {
		for _, l := range m.Snapshot().Lags {
			if l.Group == group {
				sum.add(&l)
			}
		}
	}
	return sum
}

func (n *node) wantLag(records int64, age time.Duration) {
	n.t.Helper()
	n.lag("g") // what is not in memory is asked for
	n.settle()
	if got, want := n.lag("g"), (GroupLag{Group: "g", Partitions: 2, Records: records, Nanos: int64(age)}); got != want {
		n.t.Fatalf("the lag is %+v (%v), want %+v (%v)", got, time.Duration(got.Nanos), want, age)
	}
}

// The lag of a group counts what it has not committed, and how long ago the oldest of that was
// stored: also when nobody has looked since, and when the broker was started again.
func TestGroupLag(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 2)
	produce := func(partition int) {
		n.one(n.produceRequest(topic.Partitions[partition].ID, batchSpec{records: 10, value: 5, producer: -1}))
	}
	commit := func(partition int, offset int64) {
		n.own(topic.Partitions[partition].ID, "g", 1)
		n.mustCursor(topic.Partitions[partition].ID, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: offset})
	}
	advance := func(d time.Duration) {
		n.clock.advance(d)
		n.settle()
	}
	produce(0) // 0 to 9
	advance(time.Minute)
	produce(1)
	advance(10 * time.Second)
	n.mustCursor(topic.Partitions[0].ID, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 1}) // reads, and has committed nothing
	commit(1, 10)
	n.wantLag(10, 70*time.Second)
	commit(0, 4)
	n.wantLag(6, 70*time.Second)
	advance(10 * time.Second)
	produce(0) // 10 to 19
	advance(10 * time.Second)
	n.wantLag(16, 90*time.Second)
	commit(0, 12) // behind the older ones
	n.wantLag(8, 10*time.Second)
	advance(time.Second)
	n.wantLag(8, 11*time.Second)

	n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	advance(time.Hour) // so that nothing is in memory any more
	n.wantLag(8, time.Hour+11*time.Second)
	produce(1)
	n.wantLag(18, time.Hour+11*time.Second)
	commit(0, 20)
	advance(5 * time.Second)
	n.wantLag(10, 5*time.Second)
	commit(1, 20)
	n.wantLag(0, 0)
	if n.lag("h") != (GroupLag{Group: "h"}) {
		t.Error("a group that there is not has a lag")
	}
}

// A machine that stops begins to read nothing for a page, nor for a pass that was under way.
func TestLagOfAMachineThatStops(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	n.own(id, "g", 1)
	n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 4})
	n.clock.advance(time.Hour) // so that nothing is in memory any more
	n.settle()
	m := n.machines[0]
	m.Stop()
	n.settle()
	m.Snapshot()
	m.lag.machine = m
	m.lag.expire()
	if m.lag.running || m.lag.looks.reading != 0 || n.disks[0].pending() {
		t.Errorf("a machine that has stopped reads for a page: %d looks", m.lag.looks.reading)
	}
}

// However many groups and partitions there are, one snapshot looks at a bounded number of
// offsets and shows a bounded number of groups; the others are added up, and all are there in
// the end.
func TestLagOfManyGroups(t *testing.T) {
	t.Run("of many partitions", func(t *testing.T) { lagOfManyGroups(t, 500, 3_000, 40) })
	t.Run("of one partition", func(t *testing.T) { lagOfManyGroups(t, 1, 20_000, 1) })
}

func lagOfManyGroups(t *testing.T, partitions, groups, each int) { // each group reads so many partitions
	n := newNode(t, 1)
	topic := n.create("orders", uint32(partitions))
	m := n.machines[0]
	n.one(n.produceRequest(topic.Partitions[7%partitions].ID, batchSpec{records: 10, value: 5, producer: -1}))
	for i := range topic.Partitions {
		m.partitions[topic.Partitions[i].ID].cursorsFor()
		m.partitions[topic.Partitions[i].ID].listCursors()
	}
	for g := range groups {
		for k := range each {
			table := &m.partitions[topic.Partitions[(g+k)%partitions].ID].cursors.table
			table.Apply(1, &cursor.Entry{Kind: cursor.Seek, Group: fmt.Sprintf("g-%05d", g), Epoch: 1, Offset: 0}, false)
		}
	}
	looked := func() (entries int) { // by this pass
		entries = m.lag.others.Partitions
		for _, sum := range m.lag.sums {
			entries += sum.Partitions
		}
		return entries
	}
	s := m.Snapshot()
	if len(s.Lags) != 0 || looked() > lagEntriesNow {
		t.Fatalf("the first snapshot has looked at %d offsets and shows %d groups", looked(), len(s.Lags))
	}
	for turns := 0; m.lag.running; turns++ {
		before := looked()
		n.clock.advance(5 * time.Millisecond)
		n.turn()
		if after := looked(); m.lag.running && after-before > lagEntriesMax || turns > groups*each/lagEntriesMax*2 {
			t.Fatalf("turn %d has looked at %d offsets", turns, after-before)
		}
	}
	most := groups * each / partitions // of one partition
	s = m.Snapshot()
	if len(s.Lags) != GroupsShownMax {
		t.Fatalf("%d groups are shown", len(s.Lags))
	}
	for i, l := range s.Lags {
		if want := (GroupLag{Group: fmt.Sprintf("g-%05d", i), Partitions: each}); l.Group != want.Group || l.Partitions != each {
			t.Fatalf("group %d is shown as %+v", i, l)
		}
	}
	if s.LagOthers.Partitions != (groups-GroupsShownMax)*each || s.LagOthers.Records != int64(most*10-10*shown(s)) {
		t.Errorf("the others are %+v", s.LagOthers)
	}
}

// shown is how many of the shown groups are behind.
func shown(s *Snapshot) (behind int) {
	for _, l := range s.Lags {
		behind += int(l.Records / 10)
	}
	return behind
}

// A pass goes on where it was when a topic is deleted meanwhile, and counts nothing twice.
func TestLagWhileATopicIsDeleted(t *testing.T) {
	n := newNode(t, 1)
	for _, name := range []string{"a", "b"} {
		topic := n.create(name, 20)
		for i := range topic.Partitions {
			n.mustCursor(topic.Partitions[i].ID, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 1})
		}
	}
	m := n.machines[0]
	m.lags()
	m.lag.machine, m.lag.running, m.lag.next, m.lag.byName = m, true, 0, map[string]*GroupLag{}
	m.lag.step(2 * 30) // an offset and its partition
	if m.lag.next != 30 {
		t.Fatalf("the pass is at %d", m.lag.next)
	}
	n.admin(&proto.DeleteTopicRequest{Name: "a"})
	n.settle()
	for m.lag.running {
		m.lag.step(10)
	}
	if got := m.lag.done[0].Partitions; got != 40 { // those of a were counted before they went
		t.Errorf("%d partitions were counted", got)
	}
	if got := n.lag("g").Partitions; got != 20 {
		t.Errorf("%d partitions are left", got)
	}
}

// Marks are bounded, never tell an age above the true one, and say when it may be far below.
func TestLagMarks(t *testing.T) {
	const second = int64(time.Second)
	for _, every := range []int{1, 15, 600} { // seconds between pages; a record comes each second
		var marks lagMarks
		now := int64(0)
		for i := range 20_000 {
			if now = int64(i) * second; i%every == 0 {
				marks.note(core.Offset(i+1), now)
			}
			if i == 10_000 {
				marks.learn(700, 702, 701*second, now)
			}
			if len(marks) > lagMarksMax {
				t.Fatalf("%d marks", len(marks))
			}
		}
		now = 20_000 * second
		marks.note(20_000, now)
		asked := 0
		check := func() {
			for offset := range 20_000 {
				age, doubt := marks.age(core.Offset(offset), now)
				truth := now - int64(offset)*second
				if age > truth || !doubt && truth-age > max(lagDoubt, age/lagDoubtPart)+second {
					t.Fatalf("a page each %d s, offset %d: age %v (doubt: %v), in truth %v", every, offset, time.Duration(age), doubt, time.Duration(truth))
				}
				if doubt {
					asked++
					marks.learn(core.Offset(offset), core.Offset(offset)+1, int64(offset)*second, now)
				}
				if len(marks) > lagMarksMax {
					t.Fatalf("%d marks", len(marks))
				}
			}
		}
		check()
		first := asked
		check()
		if again := asked - first; again > 20_000/50 {
			t.Errorf("a page each %d s: %d looks, and once more %d", every, first, again)
		}
		if age, _ := marks.age(20_000, now); age != 0 {
			t.Errorf("a record that is not there has age %d", age)
		}
		marks.note(10, now+second)
		if age, _ := marks.age(20, now+second); age != 0 || len(marks) > 10 {
			t.Errorf("records that were cut have age %d, and %d marks", age, len(marks))
		}
	}
	var marks lagMarks
	for i := range core.Offset(50) {
		marks.note(i+1, int64(i)*second)
	}
	if marks.trim(40); len(marks) != 11 {
		t.Errorf("%d marks are left", len(marks))
	}
}
