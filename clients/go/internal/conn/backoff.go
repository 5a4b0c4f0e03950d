package conn

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait after a number of failures in a row: it doubles from Min to Max, and half of it is left to
// chance so that clients that failed together do not come back together.
type Backoff struct {
	Min, Max time.Duration
}

// After is the wait after so many failures, the first being 1.
func (b Backoff) After(failures int) time.Duration {
	d := b.Min
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	return d/2 + rand.N(d/2+1)
}
