package pulsemq

import (
	"errors"
	"testing"
)

// A member commits from where its reader goes on: not what was lost behind that, whose offsets other records get, and
// what is left out counts as processed once it was told.
func TestGroupSkip(t *testing.T) {
	key := partKey{"t", 0}
	for name, c := range map[string]struct {
		next      int64
		stopped   bool
		processed int64
		committed int64
		handed    int64 // 0 nothing
	}{
		"the log has lost its end": {next: 80, processed: 80, committed: 80},
		"the log was trimmed":      {next: 120, processed: 100, committed: 90, handed: 120},
		"it has stopped":           {next: 80, stopped: true, processed: 100, committed: 90},
	} {
		t.Run(name, func(t *testing.T) {
			g := &GroupConsumer{owned: map[partKey]*groupPart{key: {processed: 100, committed: 90}}, handed: map[partKey]handedOut{}}
			g.skip(&PartitionError{Topic: "t", Next: c.next, Stopped: c.stopped, Err: errors.New("cause")})
			if p := g.owned[key]; p.processed != c.processed || p.committed != c.committed || g.handed[key].offset != c.handed {
				t.Errorf("%+v, handed %+v", p, g.handed)
			}
			g.skip(&PartitionError{Topic: "other", Next: 1}) // it may be given up meanwhile
		})
	}
}
