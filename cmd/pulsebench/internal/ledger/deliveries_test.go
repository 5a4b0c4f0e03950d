package ledger

import (
	"slices"
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

func TestWhatWasNotDeliveredIsFound(t *testing.T) {
	d := NewDeliveries([]int64{10, 0, 0})
	for _, at := range []Place{{0, 14}, {0, 10}, {0, 11}, {1, 3}, {2, 0}} {
		if !d.Knows(at) || !d.Deliver(at) {
			t.Errorf("%v is delivered for the first time", at)
		}
	}
	if d.Deliver(Place{0, 11}) {
		t.Error("what comes once more is taken for new")
	}
	if d.Knows(Place{0, 9}) || d.Knows(Place{3, 0}) {
		t.Error("what cannot be there is known")
	}
	var holes [][3]int64
	d.Holes([]int64{16, 4, 1}, func(behind Place, offsets int64) {
		holes = append(holes, [3]int64{int64(behind.Partition), behind.BaseOffset, offsets})
	})
	if want := [][3]int64{{0, 14, 2}, {0, 16, 1}, {1, 3, 3}}; !slices.Equal(holes, want) {
		t.Errorf("the holes are %v, want %v", holes, want)
	}
}

func TestOrderIsLeftToThoseThatHaveOne(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		l, survey := New(Shape{Run: 1, Producers: 1, Partitions: 1, RecordsPerMark: 1, Unordered: unordered}), NewSurvey()
		survey.Unordered = unordered
		for range 3 {
			at := Place{0, int64(l.Stream(0).Send())}
			l.Stream(0).Ack(uint64(at.BaseOffset), at)
		}
		for _, counter := range []uint64{1, 0, 2, 2} {
			mark := payload.Mark{Run: 1, Counter: counter, Records: 1}
			l.Find(mark, Place{0, int64(counter)})
			survey.Find(mark, Place{0, int64(counter)})
		}
		want := Verdict{Duplicated: 1, Reordered: 1}
		if unordered {
			want.Reordered = 0
		}
		if l.Verdict() != want || survey.Verdict() != want {
			t.Errorf("without order %v: %v and %v, want %v", unordered, l.Verdict(), survey.Verdict(), want)
		}
	}
}
