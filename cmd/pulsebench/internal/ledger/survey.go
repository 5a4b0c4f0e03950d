package ledger

import (
	"fmt"
	"sync"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

// surveyCounterMax bounds the counters that a survey keeps account of, and so its memory. No run sends as many batches.
const surveyCounterMax = 1 << 34

// Survey is an account of a log that nobody knows the contents of: it can tell what is there twice or out of order, and
// which offsets are missing, but not what else should be there.
type Survey struct {
	Unordered bool // what was sent may be found in any order

	mu      sync.Mutex
	streams map[surveyKey]*surveyStream

	duplicated, reordered uint64 // records
	damage                damage
}

type surveyKey struct {
	run      payload.Run
	producer uint32
}

type surveyStream struct {
	seen bits
	next map[uint32]uint64 // by partition: one more than the highest counter found there
}

// NewSurvey makes an empty one.
func NewSurvey() *Survey { return &Survey{streams: make(map[surveyKey]*surveyStream)} }

// Find writes down a mark, of any run.
func (v *Survey) Find(mark payload.Mark, at Place) bool {
	if mark.Counter > surveyCounterMax {
		v.Damage(at, fmt.Sprintf("counter %d is no run's", mark.Counter))
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	key := surveyKey{mark.Run, mark.Producer}
	s := v.streams[key]
	if s == nil {
		s = &surveyStream{next: make(map[uint32]uint64)}
		v.streams[key] = s
	}
	if !s.seen.add(mark.Counter) {
		v.duplicated += uint64(mark.Records)
		return true
	}
	if mark.Counter < s.next[at.Partition] && !v.Unordered {
		v.reordered += uint64(mark.Records)
	} else {
		s.next[at.Partition] = max(s.next[at.Partition], mark.Counter+1)
	}
	return true
}

// Damage writes down a batch that cannot be what was sent.
func (v *Survey) Damage(at Place, problem string) { v.damage.add(at, problem) }

// Hole writes down offsets that are missing in front of a batch.
func (v *Survey) Hole(at Place, offsets int64) { v.damage.hole(at, offsets) }

// Again writes down offsets that were read once more, from a place on.
func (v *Survey) Again(at Place, offsets int64) { v.damage.repeat(at, offsets) }

// Damages says where what is damaged or missing lies, up to a bound.
func (v *Survey) Damages() []string { return v.damage.list() }

// Verdict is what was found. An offset without a record is a record lost.
func (v *Survey) Verdict() Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	verdict := v.damage.verdict()
	verdict.Lost, verdict.Reordered = verdict.Holes, v.reordered
	verdict.Duplicated += v.duplicated
	return verdict
}
