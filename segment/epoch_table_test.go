package segment

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"pgregory.net/rapid"
)

func testEpochs() *EpochTable {
	t := &EpochTable{}
	t.Add(2, 1, 0)
	t.Add(3, 11, 100)
	t.Add(7, 12, 100) // a term that wrote nothing but its opening entry lies between
	t.Add(9, 40, 250)
	return t
}

func TestEpochTableEnd(t *testing.T) {
	table := testEpochs()
	for _, c := range []struct {
		term  core.Term
		found core.Term
		end   core.Offset
		ok    bool
	}{
		{1, 0, 0, false}, {2, 2, 100, true}, {3, 3, 100, true}, {4, 3, 100, true}, {7, 7, 250, true},
		{8, 7, 250, true}, {9, 9, 300, true}, {12, 9, 300, true},
	} {
		if found, end, ok := table.End(c.term, 300); found != c.found || end != c.end || ok != c.ok {
			t.Errorf("term %d: %d %d %v, want %+v", c.term, found, end, ok, c)
		}
	}
	for offset, want := range map[core.Offset]core.Term{0: 2, 99: 2, 100: 7, 249: 7, 250: 9, 1000: 9} {
		if got, ok := table.TermAt(offset); got != want || !ok {
			t.Errorf("offset %d: term %d, want %d", offset, got, want)
		}
	}
}

func TestEpochTableTruncateAndTrim(t *testing.T) {
	table := testEpochs()
	table.Truncate(12)
	if last, ok := table.Last(); !ok || last.Term != 3 || len(table.Starts) != 2 {
		t.Fatalf("%+v", table)
	}
	table = testEpochs()
	table.Trim(99)
	if len(table.Starts) != 4 {
		t.Fatalf("%+v", table)
	}
	table.Trim(100)
	if len(table.Starts) != 2 || table.Starts[0].Term != 7 {
		t.Fatalf("%+v", table)
	}
	table.Trim(1000)
	if last, _ := table.Last(); len(table.Starts) != 1 || last.Term != 9 {
		t.Fatalf("%+v", table)
	}
	if table.Add(9, 90, 900) || table.Add(5, 91, 900) {
		t.Fatal("a known or older term is no new epoch")
	}
}

func TestEpochTableIsBounded(t *testing.T) {
	table := &EpochTable{}
	for i := range 3 * epochTableMax {
		table.Add(core.Term(i+1), core.Index(i+1), core.Offset(i))
	}
	if len(table.Starts) != epochTableMax || table.Starts[0].Term != 1 {
		t.Fatalf("%d entries from term %d", len(table.Starts), table.Starts[0].Term)
	}
	if last, _ := table.Last(); last.Term != 3*epochTableMax {
		t.Fatal(last)
	}
}

// TestEpochTableAgainstFrames compares with a list of the term of every frame.
func TestEpochTableAgainstFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &EpochTable{}
		var terms []core.Term // of each offset
		term, index := core.Term(0), core.Index(0)
		for range rapid.IntRange(0, 30).Draw(t, "terms") {
			term += core.Term(rapid.IntRange(1, 3).Draw(t, "step"))
			for range rapid.IntRange(1, 4).Draw(t, "frames") {
				index++
				table.Add(term, index, core.Offset(len(terms)))
				for range rapid.IntRange(0, 3).Draw(t, "span") {
					terms = append(terms, term)
				}
			}
		}
		for offset, want := range terms {
			if got, ok := table.TermAt(core.Offset(offset)); !ok || got != want {
				t.Fatalf("offset %d: %d, want %d", offset, got, want)
			}
		}
		asked := core.Term(rapid.IntRange(0, int(term)+2).Draw(t, "asked"))
		found, end, ok := table.End(asked, core.Offset(len(terms)))
		want := core.Offset(0) // the first offset of a greater term
		for int(want) < len(terms) && terms[want] <= asked {
			want++
		}
		if ok && (found > asked || end != want) {
			t.Fatalf("term %d: ends at %d, want %d", asked, end, want)
		}
		b := AppendEpochTable(nil, table)
		back, rest, err := ParseEpochTable(append(b, 1, 2))
		if err != nil || !bytes.Equal(rest, []byte{1, 2}) || len(back.Starts) != len(table.Starts) ||
			len(back.Starts) > 0 && !reflect.DeepEqual(back.Starts, table.Starts) {
			t.Fatal(err, back, rest)
		}
	})
}

func TestEpochTableRefusesNonsense(t *testing.T) {
	good := AppendEpochTable(nil, testEpochs())
	for at := range good {
		if _, _, err := ParseEpochTable(good[:at]); err == nil {
			t.Fatalf("truncation at %d", at)
		}
	}
	table := testEpochs()
	table.Starts[1], table.Starts[2] = table.Starts[2], table.Starts[1]
	if _, _, err := ParseEpochTable(AppendEpochTable(nil, table)); err == nil {
		t.Fatal("out of order")
	}
	if _, _, err := ParseEpochTable([]byte{0xff, 0xff, 0xff, 0xff}); err == nil {
		t.Fatal("count")
	}
}
