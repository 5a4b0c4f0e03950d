package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// The lag of a group counts what it has not committed, and how old that is.
func TestGroupLag(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 2)
	produce := func(partition int) {
		n.one(n.produceRequest(topic.Partitions[partition].ID, batchSpec{records: 10, value: 5, producer: -1}))
	}
	commit := func(partition int, offset int64) {
		n.mustCursor(topic.Partitions[partition].ID, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: offset})
	}
	want := func(records int64, age time.Duration) {
		t.Helper()
		lags := n.machines[0].Snapshot().Lags
		if len(lags) != 1 || lags[0] != (GroupLag{Group: "g", Partitions: 2, Records: records, Nanos: int64(age)}) {
			t.Fatalf("the lag is %+v, want %d records and %v", lags, records, age)
		}
	}
	advance := func() {
		n.clock.advance(10 * time.Second)
		n.settle()
	}
	produce(0)
	produce(1)
	commit(0, 4)
	commit(1, 10)
	want(6, 0)
	advance()
	want(6, 10*time.Second)
	produce(0)
	want(16, 10*time.Second)
	advance()
	commit(0, 12) // behind the older ones
	want(8, 10*time.Second)
	commit(0, 20)
	want(0, 0)
}

// One picture looks at a bounded number of offsets; all are there in the end.
func TestLagIsAddedUpInSteps(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 4)
	for i := range topic.Partitions {
		for k := range 100 {
			p := n.machines[0].partitions[topic.Partitions[i].ID]
			p.cursorsFor()
			p.listCursors()
			r := mail.Request{Kind: mail.RequestCursor, Partition: p.id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorCommit, Group: fmt.Sprint("g-", k), Owner: 1}}
			n.send(&r)
		}
		n.settle()
	}
	n.answers()
	if lags := n.machines[0].Snapshot().Lags; len(lags) != 100 || lags[99].Partitions != 4 {
		t.Fatalf("%d groups", len(lags))
	}
}

// Marks are bounded, and tell an age that is never above the true one.
func TestLagMarks(t *testing.T) {
	var marks lagMarks
	for i := range 1000 {
		marks.note(core.Offset(i+1), int64(i)) // the record at offset i came at time i
		if len(marks) > lagMarksMax {
			t.Fatalf("%d marks", len(marks))
		}
	}
	for offset := range 1000 {
		age := marks.age(core.Offset(offset), 1000)
		if truth := int64(1000 - offset); age > truth || age < truth/8-1 {
			t.Fatalf("offset %d: age %d, in truth %d", offset, age, truth)
		}
	}
	if age := marks.age(1000, 2000); age != 0 {
		t.Errorf("a record that is not there has age %d", age)
	}
	marks.note(10, 1001)
	if age := marks.age(20, 2000); age != 0 {
		t.Errorf("a record that was cut has age %d", age)
	}
}
