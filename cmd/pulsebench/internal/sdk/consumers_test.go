package sdk

import (
	"testing"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
)

// records are those of some offsets of partition 0.
func records(offsets ...int64) (some []pulsemq.Record) {
	for _, offset := range offsets {
		some = append(some, pulsemq.Record{Offset: offset})
	}
	return some
}

// A partition that goes to another member goes on where the one before stopped: what is left out is lost, and what comes
// again is there twice.
func TestOffsetsLeftOutAndReadAgainAreCounted(t *testing.T) {
	survey := ledger.NewSurvey()
	c := &Consumers{spec: ConsumersSpec{Account: survey, Records: 9}, places: make([]place, 1)}
	one, other := &consumer{tally: load.NewTally()}, &consumer{tally: load.NewTally()}
	for _, part := range []struct {
		of   *consumer
		some []pulsemq.Record
	}{
		{one, records(0, 1, 2)},
		{other, records(2, 3)},    // 2 once more
		{one, records(1, 2)},      // both
		{other, records(5, 6, 8)}, // 4 and 7 are missing
		{other, records(9, 10)},
	} {
		if err := c.take(part.of, part.some, 0); err != nil {
			t.Fatal(err)
		}
	}
	if v := survey.Verdict(); v.Duplicated != 3 || v.Lost != 2 {
		t.Errorf("%v, want 2 lost and 3 duplicated", v)
	}
	if !c.enough() || c.read.Load() != 9 {
		t.Errorf("%d of %d records were read", c.read.Load(), c.spec.Records)
	}
	if err := c.take(one, []pulsemq.Record{{Partition: 1}}, 0); err == nil {
		t.Error("a partition that was not there before is read")
	}
}
