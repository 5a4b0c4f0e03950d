package load

import "time"

// Clock is the run's clock: nanoseconds since it was made, never going back.
type Clock func() int64

// NewClock starts a clock.
func NewClock() Clock {
	start := time.Now()
	return func() int64 { return int64(time.Since(start)) }
}
