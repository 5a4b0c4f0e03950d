package load

import (
	"testing"
	"time"
)

func TestAllowanceIsDueWhenItShouldHaveBeenRead(t *testing.T) {
	tally := NewTally()
	flat := NewAllowance(5, 0)
	if due := flat.Due(77, tally, 3); due != 77 {
		t.Errorf("flat out is due at %d, and now is 77", due)
	}
	a := NewAllowance(int64(time.Second), 1000)
	for _, c := range []struct {
		records, requests int64
		inFlight          int
		want              time.Duration
	}{
		{0, 0, 0, time.Second}, // the first one at once
		{500, 5, 0, 1500 * time.Millisecond},
		{500, 5, 2, 1700 * time.Millisecond}, // two more of a hundred each are on their way
		{4000, 5, 0, 5 * time.Second},
	} {
		tally.Records.Store(c.records)
		tally.Requests = c.requests
		// It does not depend on now: what is late has been due before, and its wait counts.
		if due := a.Due(int64(time.Hour), tally, c.inFlight); due != int64(c.want) {
			t.Errorf("%+v: due at %v", c, time.Duration(due))
		}
	}
}
