package reactor

import "time"

const (
	// spinLong is the longest spin where there are processors to spare: twice what a
	// parked thread takes to come back.
	spinLong = 200 * time.Microsecond

	// spinShort is the longest spin where the reactors need the processors.
	spinShort = 10 * time.Microsecond

	// spinFloor is below what a spin is not worth its clock readings.
	spinFloor = 2 * time.Microsecond
)

// spinMax is the bound of a spin on a machine: a thread may spin long only when
// every pinned thread has a processor and one is left for the rest.
func spinMax(cpus, pinned int) time.Duration {
	if cpus > pinned {
		return spinLong
	}
	return spinShort
}

// spinner says how long to spin before the next park. It doubles when a spin
// found work, or when a park was so short that spinning would have; it halves
// when a spin was in vain.
type spinner struct {
	limit   int64 // nanoseconds
	current int64 // 0, or between spinFloor and limit
}

func newSpinner(limit time.Duration) spinner {
	return spinner{limit: int64(limit), current: int64(limit)}
}

func (s *spinner) paid() { s.current = min(s.limit, max(int64(spinFloor), 2*s.current)) }

func (s *spinner) vain() {
	if s.current /= 2; s.current < int64(spinFloor) {
		s.current = 0
	}
}

// parked learns from how long a park took.
func (s *spinner) parked(nanos int64) {
	if nanos < s.limit {
		s.paid()
	}
}
