package ledger

import (
	"sync"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

// surveyCounterMax bounds the counters that a survey keeps account of, and so its memory. No run sends as many batches.
const surveyCounterMax = 1 << 34

// Survey is an account of a log that nobody knows the contents of: it can tell what is there twice or out of order, and
// which offsets are missing, but not what else should be there.
type Survey struct {
	mu      sync.Mutex
	streams map[surveyKey]*surveyStream

	duplicated, reordered uint64 // records
	damaged, holes        atomic.Uint64
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
		v.Damage()
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
	if mark.Counter < s.next[at.Partition] {
		v.reordered += uint64(mark.Records)
	} else {
		s.next[at.Partition] = mark.Counter + 1
	}
	return true
}

// Damage writes down a batch that cannot be what was sent.
func (v *Survey) Damage() { v.damaged.Add(1) }

// Hole writes down offsets that no record has.
func (v *Survey) Hole(offsets int64) { v.holes.Add(uint64(offsets)) }

// Verdict is what was found. An offset without a record is a record lost.
func (v *Survey) Verdict() Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Verdict{Lost: v.holes.Load(), Duplicated: v.duplicated, Reordered: v.reordered, Damaged: v.damaged.Load(), Holes: v.holes.Load()}
}
