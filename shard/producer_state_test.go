package shard

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func produced(id core.ProducerID, epoch int16, sequence, span int32) producedBatch {
	return producedBatch{id, epoch, sequence, span}
}

func TestProducerVerdicts(t *testing.T) {
	var table producerTable
	offset := core.Offset(0)
	add := func(b producedBatch) {
		table.append(b, offset, 1)
		offset += core.Offset(b.span)
	}
	for i := range int32(6) { // sequences 0, 10, ... 50; the first is forgotten
		add(produced(1, 2, i*10, 10))
	}
	for _, c := range []struct {
		name    string
		batch   producedBatch
		verdict producerVerdict
		code    proto.Code
		offset  core.Offset
	}{
		{"next", produced(1, 2, 60, 3), producerAppend, 0, 0},
		{"newest again", produced(1, 2, 50, 10), producerDuplicate, 0, 50},
		{"oldest remembered", produced(1, 2, 10, 10), producerDuplicate, 0, 10},
		{"forgotten", produced(1, 2, 0, 10), producerRefuse, proto.CodeDuplicateSequence, 0},
		{"another length", produced(1, 2, 50, 9), producerRefuse, proto.CodeDuplicateSequence, 0},
		{"gap", produced(1, 2, 61, 1), producerRefuse, proto.CodeOutOfOrderSequence, 0},
		{"old epoch", produced(1, 1, 60, 1), producerRefuse, proto.CodeInvalidProducerEpoch, 0},
		{"new epoch", produced(1, 3, 0, 1), producerAppend, 0, 0},
		{"new epoch, not from 0", produced(1, 3, 60, 1), producerRefuse, proto.CodeOutOfOrderSequence, 0},
		{"new producer", produced(2, 0, 0, 1), producerAppend, 0, 0},
		{"unknown producer", produced(2, 0, 60, 1), producerRefuse, proto.CodeUnknownProducer, 0},
	} {
		verdict, at, err := table.check(c.batch)
		if verdict != c.verdict || at != c.offset || (err == nil) != (c.code == 0) || err != nil && err.Code != c.code {
			t.Errorf("%s: %d at %d, %v", c.name, verdict, at, err)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	const last = 1<<31 - 1
	var table producerTable
	table.append(produced(1, 0, last-1, 1), 100, 1)
	table.append(produced(1, 0, last, 5), 101, 1) // last, then 0 to 3
	for _, c := range []struct {
		sequence int32
		span     int32
		verdict  producerVerdict
	}{{4, 1, producerAppend}, {last, 5, producerDuplicate}, {5, 1, producerRefuse}, {3, 1, producerRefuse}} {
		if verdict, _, _ := table.check(produced(1, 0, c.sequence, c.span)); verdict != c.verdict {
			t.Errorf("sequence %d: %d", c.sequence, verdict)
		}
	}
}

func TestProducersAreBounded(t *testing.T) {
	table := producerTable{expiry: 100}
	for i := range core.ProducersPerPartitionMax + 10 {
		table.append(produced(core.ProducerID(i), 0, 0, 1), core.Offset(i), 1)
	}
	if len(table.byID) != core.ProducersPerPartitionMax || table.byID[9] != nil || table.byID[10] == nil {
		t.Errorf("%d producers, the longest silent must go first", len(table.byID))
	}
	table.append(produced(10, 0, 1, 1), 1, 50)             // still active
	table.append(produced(1_000_000, 0, 0, 1), 1, 101+1-1) // 101: nobody has expired yet
	if len(table.byID) != core.ProducersPerPartitionMax {
		t.Errorf("%d producers", len(table.byID))
	}
	table.append(produced(1_000_001, 0, 0, 1), 1, 102)
	if len(table.byID) != 3 || table.byID[10] == nil {
		t.Errorf("%d producers after the others expired", len(table.byID))
	}
}

// A clock that jumps a year, there or back, and a partition that nobody writes to for
// as long, age no producer; one that is silent while others send is forgotten.
func TestClockJumpForgetsNoProducer(t *testing.T) {
	const day = 24 * int64(time.Hour)
	for _, jump := range []int64{365 * day, -365 * day} {
		table := producerTable{expiry: 7 * day}
		now := 1000 * day
		table.note(1, 0)
		table.append(produced(1, 0, 0, 1), 0, now)
		table.note(1, 1)
		table.append(produced(1, 0, 1, 1), 1, now)
		now += jump
		for i := range core.ProducerID(3) {
			table.append(produced(10+i, 0, 0, 1), core.Offset(2+i), now)
		}
		if verdict, at, _ := table.check(produced(1, 0, 0, 1)); verdict != producerDuplicate || at != 0 {
			t.Errorf("after a jump of %d days a retry is no duplicate: %d", jump/day, verdict)
		}
		table.rollback(1)
		table.append(produced(20, 0, 0, 1), 5, now)
		if verdict, _, _ := table.check(produced(1, 0, 0, 1)); verdict != producerDuplicate {
			t.Errorf("after a jump of %d days and a roll back a retry is no duplicate: %d", jump/day, verdict)
		}
		for i := range core.ProducerID(8 * 48) {
			now += int64(time.Hour) / 2
			table.append(produced(100+i, 0, 0, 1), 10+core.Offset(i), now)
		}
		if table.byID[1] != nil {
			t.Error("a producer that was silent for eight days beside others is remembered")
		}
	}
}

// The table against a map of everything that was ever appended: what it accepts
// is new and in order, what it calls a duplicate was stored where it says.
func TestProducerTableModel(t *testing.T) {
	type key struct {
		id       core.ProducerID
		epoch    int16
		sequence int32
	}
	rapid.Check(t, func(t *rapid.T) {
		var table producerTable
		stored := map[key]producerBatch{}
		next := map[core.ProducerID]key{} // the only batch that may be appended in this epoch
		offset, now := core.Offset(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			id := core.ProducerID(rapid.Int64Range(0, 2).Draw(t, "id"))
			b := produced(id, rapid.Int16Range(0, 2).Draw(t, "epoch"), rapid.Int32Range(0, 30).Draw(t, "sequence"), rapid.Int32Range(1, 4).Draw(t, "span"))
			expected, known := next[id]
			if known && rapid.Bool().Draw(t, "continue") {
				b.epoch, b.sequence = expected.epoch, expected.sequence
			}
			k := key{b.id, b.epoch, b.sequence}
			verdict, at, err := table.check(b)
			switch verdict {
			case producerAppend:
				fresh := b.sequence == 0 && (!known || b.epoch > expected.epoch)
				if !fresh && (!known || k != expected) {
					t.Fatalf("accepted %+v, expected %+v", b, expected)
				}
				now++
				table.append(b, offset, now)
				stored[k] = producerBatch{b.sequence, b.span, offset}
				next[id] = key{id, b.epoch, proto.SequenceAdd(b.sequence, b.span)}
				offset += core.Offset(b.span)
			case producerDuplicate:
				if was, ok := stored[k]; !ok || was.offset != at || was.span != b.span {
					t.Fatalf("called %+v a duplicate at %d, stored %+v", b, at, was)
				}
			case producerRefuse:
				if err == nil {
					t.Fatal("refused without an error")
				}
				if known && k == expected {
					t.Fatalf("refused the next batch %+v: %v", b, err)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				state := table.appendState(nil)
				var restored producerTable
				if err := restored.restore(state); err != nil || !bytes.Equal(state, restored.appendState(nil)) {
					t.Fatalf("restored differently: %v", err)
				}
				table = restored
			}
		}
	})
}

// After a rollback the table is what the batches that are left make of it.
func TestProducerRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table producerTable
		var kept []producedBatch
		var offsets []core.Offset
		offset, durable := core.Offset(0), core.Offset(0)
		next := map[core.ProducerID]producedBatch{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0: // a failed write
				to := core.Offset(rapid.IntRange(int(durable), int(offset)).Draw(t, "to"))
				n := len(kept)
				for n > 0 && offsets[n-1] >= to {
					n--
				}
				if n == len(kept) {
					continue
				}
				if floor := rapid.IntRange(0, n).Draw(t, "durable"); floor > 0 {
					durable = max(durable, offsets[floor-1]+core.Offset(kept[floor-1].span))
					table.durable(durable)
				}
				offset = offsets[n]
				table.rollback(offset)
				kept, offsets = kept[:n], offsets[:n]
				next = map[core.ProducerID]producedBatch{}
				for _, b := range kept {
					next[b.id] = b
				}
			default:
				b := produced(core.ProducerID(rapid.Int64Range(0, 2).Draw(t, "id")), 0, 0, rapid.Int32Range(1, 3).Draw(t, "span"))
				if last, known := next[b.id]; known && rapid.IntRange(0, 4).Draw(t, "epoch") > 0 {
					b.epoch, b.sequence = last.epoch, last.sequence+last.span
				} else if known {
					b.epoch = last.epoch + 1
				}
				table.note(b.id, offset)
				table.append(b, offset, int64(offset))
				kept, offsets = append(kept, b), append(offsets, offset)
				next[b.id] = b
				offset += core.Offset(b.span)
			}
			var fresh producerTable
			for i, b := range kept {
				fresh.append(b, offsets[i], int64(offsets[i]))
			}
			if len(fresh.byID) != len(table.byID) {
				t.Fatalf("%d producers, want %d", len(table.byID), len(fresh.byID))
			}
			for id, p := range fresh.byID {
				got := table.byID[id]
				if got == nil || got.count != p.count || got.epoch != p.epoch || got.appended != p.appended ||
					got.batches[:got.count] != nil && !slices.Equal(got.batches[:got.count], p.batches[:p.count]) {
					t.Fatalf("producer %d is %+v, want %+v", id, got, p)
				}
			}
		}
	})
}

// With too many batches at risk the oldest notes go: a producer may be forgotten
// then, but nothing that was rolled back may be called a duplicate.
func TestProducerRollbackBehindTheNotes(t *testing.T) {
	var table producerTable
	for i := range int32(undoMax + 100) {
		id := core.ProducerID(1 + i%2*int32(map[bool]int{true: 1}[i > undoMax]))
		last := table.byID[id]
		sequence := int32(0)
		if last != nil {
			sequence = last.batches[last.count-1].sequenceNext()
		}
		table.note(id, core.Offset(i))
		table.append(produced(id, 0, sequence, 1), core.Offset(i), 1)
	}
	if table.undo.Len() != undoMax || table.undoFloor != 100 {
		t.Fatalf("%d notes from %d on", table.undo.Len(), table.undoFloor)
	}
	table.rollback(50)
	for id, p := range table.byID {
		for _, b := range p.batches[:p.count] {
			if b.offset >= 50 {
				t.Errorf("producer %d remembers offset %d", id, b.offset)
			}
		}
	}
}

func FuzzProducerState(f *testing.F) {
	var table producerTable
	table.append(produced(1, 0, 0, 3), 0, 1)
	table.append(produced(7, 2, 0, 3), 3, 2)
	f.Add(table.appendState(nil))
	f.Fuzz(func(t *testing.T, state []byte) {
		var table producerTable
		if err := table.restore(state); err != nil {
			if len(table.byID) != 0 {
				t.Fatal("a refused state left something")
			}
			return
		}
		if len(state) > 0 && len(table.byID) > 0 && !bytes.Equal(state, table.appendState(nil)) {
			t.Fatal("restored differently")
		}
	})
}
