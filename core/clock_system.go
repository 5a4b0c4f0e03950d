package core

import "time"

// SystemClock is the machine's own clock.
type SystemClock struct{ start time.Time }

// NewSystemClock returns a clock whose monotonic count begins now. The count
// begins with 1, so that 0 can stand for "never".
func NewSystemClock() *SystemClock { return &SystemClock{start: time.Now()} }

// Now is the wall clock in nanoseconds since the Unix epoch.
func (c *SystemClock) Now() int64 { return time.Now().UnixNano() }

// Monotonic is the nanoseconds since the clock was made, plus one.
func (c *SystemClock) Monotonic() int64 { return int64(time.Since(c.start)) + 1 }
