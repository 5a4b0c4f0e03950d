package cursor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/queue"
)

func queueEntry(group string, owner, time int64, ops ...queue.Op) Entry {
	body, behind := queue.Head{Owner: owner, Time: time}.Append(nil), int64(0)
	for i := range ops {
		body = ops[i].Append(body, behind)
		behind = ops[i].Next
	}
	return Entry{Kind: Queue, Group: group, Queue: body}
}

func drawOp(t *rapid.T) queue.Op {
	base := rapid.Int64Range(0, 30).Draw(t, "base")
	op := queue.Op{
		Kind: rapid.SampledFrom([]queue.OpKind{queue.Begin, queue.Lease, queue.Settle, queue.Settle, queue.Retry, queue.Die, queue.Bury}).Draw(t, "op"),
		Base: base, Next: base + rapid.Int64Range(1, 8).Draw(t, "records"),
	}
	switch op.Kind {
	case queue.Begin:
		op.Next, op.Identity = op.Base, 7
	case queue.Lease:
		op.Attempts = 1
	case queue.Retry:
		op.Attempts, op.Time = 1, rapid.Int64Range(0, 2).Draw(t, "until")
	case queue.Die, queue.Bury:
		op.Reason, op.Text = queue.Nacked, rapid.StringN(0, 3, 6).Draw(t, "text")
	}
	return op
}

// Whatever is stored of queue groups, and set, and forgotten in between: a replay from any snapshot comes to the same table
// and the same windows.
func TestQueueTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		var log []Entry
		snapshot, windows, snapshotAt := table.AppendSnapshot(nil), table.AppendQueues(nil), 0
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				group, owner := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"), rapid.Int64Range(-1, 4).Draw(t, "owner")
				var e Entry
				switch rapid.IntRange(0, 12).Draw(t, "kind") {
				case 0:
					e = Entry{Kind: Seek, Group: group, Epoch: owner, Offset: rapid.Int64Range(0, 20).Draw(t, "offset")}
				case 1:
					e = Entry{Kind: Forget, Group: group}
				case 2:
					e = Entry{Kind: Commit, Group: group, Epoch: owner, Offset: 50}
				case 3:
					e = Entry{Kind: Own, Group: group, Epoch: owner}
				default:
					var ops []queue.Op
					for range rapid.IntRange(1, 3).Draw(t, "ops") {
						ops = append(ops, drawOp(t))
					}
					e = queueEntry(group, owner, 5, ops...)
				}
				var parsed Entry
				if err := Parse(e.Append(AppendHead(nil)), func(p *Entry) error { parsed = *p; return nil }); err != nil {
					t.Fatal(err)
				}
				before, _ := table.Get(group)
				had := table.Window(group) != nil
				outcome := table.Apply(1, &parsed, false)
				after, _ := table.Get(group)
				if outcome == Unreadable || outcome == Stale && before != after {
					t.Fatalf("%v: %+v became %+v", outcome, before, after)
				}
				if had && (e.Kind == Commit || e.Kind == Own) && outcome != Stale {
					t.Fatalf("a queue group's offset was committed: %v", outcome)
				}
				if e.Kind == Queue && after.Owner != before.Owner {
					t.Fatalf("a queue entry makes %d the owner", after.Owner)
				}
				log = append(log, parsed)
			},
			"snapshot": func(*rapid.T) {
				snapshot, windows, snapshotAt = table.AppendSnapshot(nil), table.AppendQueues(nil), len(log)
			},
			"": func(t *rapid.T) {
				var again Table
				if err := again.Restore(snapshot); err != nil {
					t.Fatal(err)
				}
				if err := again.RestoreQueues(windows); err != nil {
					t.Fatal(err)
				}
				for i := range log[snapshotAt:] {
					again.Apply(1, &log[snapshotAt:][i], false)
				}
				for what, other := range map[string]*Table{"a start": &again, "a clone": table.Clone()} {
					if string(other.AppendSnapshot(nil)) != string(table.AppendSnapshot(nil)) || string(other.AppendQueues(nil)) != string(table.AppendQueues(nil)) {
						t.Fatalf("%s comes to another table", what)
					}
					if other.Queues() != table.Queues() || len(table.AppendQueues(nil)) > 6+table.QueueBytes() {
						t.Fatalf("%s: %d queues of %d, %d bytes of %d", what, other.Queues(), table.Queues(), len(table.AppendQueues(nil)), 6+table.QueueBytes())
					}
				}
				table.All(func(group string, s *State) {
					if w := table.Window(group); w != nil && w.Low() != s.Offset {
						t.Fatalf("%s stands at %d, its window begins at %d", group, s.Offset, w.Low())
					}
				})
			},
		})
	})
}

// What is under way for a window that was set to another offset does nothing to the next one, wherever it lies in the log.
func TestSeekVoidsWhatIsUnderWay(t *testing.T) {
	var table Table
	apply := func(want Outcome, e Entry) {
		t.Helper()
		if got := table.Apply(1, &e, false); got != want {
			t.Errorf("%+v: %v, want %v", e, got, want)
		}
	}
	settle := queue.Op{Kind: queue.Settle, Base: 0, Next: 9}
	apply(Stale, queueEntry("g", -1, 1, settle))
	apply(Done, queueEntry("g", 3, 1, queue.Op{Kind: queue.Begin, Base: 4, Next: 4}))
	apply(Done, queueEntry("g", -1, 2, queue.Op{Kind: queue.Lease, Base: 4, Next: 6, Attempts: 1}))
	apply(Done, Entry{Kind: Seek, Group: "g", Epoch: 5, Offset: 2})
	apply(Stale, queueEntry("g", -1, 3, settle))
	if s, _ := table.Get("g"); s.Offset != 2 || s.Owner != 5 || table.Window("g").Records() != 0 {
		t.Fatalf("%+v, %d records", s, table.Window("g").Records())
	}
	apply(Done, queueEntry("g", 5, 4, settle))
	if s, _ := table.Get("g"); s.Offset != 9 || s.Time != 4 {
		t.Fatalf("%+v", s)
	}
	apply(Done, Entry{Kind: Forget, Group: "g"})
	apply(Stale, queueEntry("g", 5, 4, settle))
	// A group that is set before it begins, begins there.
	apply(Done, Entry{Kind: Seek, Group: "g", Epoch: 7, Offset: 1})
	apply(Stale, queueEntry("g", 6, 4, queue.Op{Kind: queue.Begin, Base: 4, Next: 4}))
	apply(Done, queueEntry("g", 7, 4, queue.Op{Kind: queue.Begin, Base: 4, Next: 4}))
	if s, _ := table.Get("g"); s.Offset != 1 || table.Queues() != 1 {
		t.Fatalf("%+v", s)
	}
	apply(Unreadable, Entry{Kind: Queue, Group: "g", Queue: []byte{1}})
}

// What members say of dead records has one bound for all groups of a partition.
func TestTextRoom(t *testing.T) {
	var table Table
	text := make([]byte, core.SettleReasonBytesMax)
	for g := range 4 {
		group := fmt.Sprint(g)
		e := queueEntry(group, -1, 1, queue.Op{Kind: queue.Begin})
		table.Apply(1, &e, false)
		e = queueEntry(group, -1, 1, queue.Op{Kind: queue.Bury, Next: 300, Reason: queue.Rejected, Text: string(text)})
		table.Apply(1, &e, false)
	}
	if n := table.textRoom(); n != 0 {
		t.Errorf("there is room for %d bytes", n)
	}
	if n := len(table.AppendQueues(nil)); n > table.QueueBytes()+6 || n > core.QueueBytesMax {
		t.Errorf("a snapshot of %d bytes, %d are reckoned", n, table.QueueBytes())
	}
}

func FuzzRestoreQueues(f *testing.F) {
	var table Table
	e := queueEntry("g", -1, 1, queue.Op{Kind: queue.Begin}, queue.Op{Kind: queue.Bury, Base: 1, Next: 3, Reason: queue.Rejected})
	table.Apply(0, &e, false)
	state := table.AppendSnapshot(nil)
	f.Add(table.AppendQueues(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var table Table
		if err := table.Restore(state); err != nil {
			t.Fatal(err)
		}
		if err := table.RestoreQueues(b); err != nil {
			if table.Groups() != 0 || table.Queues() != 0 {
				t.Fatal("a table is left after a snapshot that was refused")
			}
			return
		}
		again := table.Clone()
		if string(again.AppendQueues(nil)) != string(table.AppendQueues(nil)) {
			t.Fatal("a clone is another table")
		}
	})
}
