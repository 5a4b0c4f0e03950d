package ledger

import (
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

func TestSurveyFindsWhatCanBeFound(t *testing.T) {
	v := NewSurvey()
	find := func(run payload.Run, counter uint64, partition uint32) {
		v.Find(payload.Mark{Run: run, Records: 10, Counter: counter}, Place{Partition: partition})
	}
	for counter := range uint64(10) {
		find(1, counter, uint32(counter%2))
		find(2, counter, 0)
	}
	if !v.Verdict().Clean() {
		t.Errorf("a clean log is %v", v.Verdict())
	}
	find(1, 20, 0)
	find(1, 18, 0) // behind 20
	find(1, 19, 1) // in another partition: no order to break
	find(2, 3, 0)  // again
	v.Hole(Place{Partition: 1, BaseOffset: 17}, 7)
	v.Damage(Place{Partition: 2, BaseOffset: 30}, "a bit fell over")
	find(1, surveyCounterMax+1, 0)
	if got, want := v.Verdict(), (Verdict{Lost: 7, Holes: 7, Reordered: 10, Duplicated: 10, Damaged: 2}); got != want {
		t.Errorf("the verdict is %+v, want %+v", got, want)
	}
	places := v.Damages()
	if len(places) != 3 || places[0] != "partition 1: no record at offsets 10 to 16" || places[1] != "partition 2, offset 30: a bit fell over" {
		t.Errorf("the places are %q", places)
	}
}
