package main

import "time"

// clock is the time of a world. The monotonic time moves from event to event and survives restarts of nodes, as a
// machine's does; the wall clock may jump.
type clock struct {
	monotonic int64
	ahead     int64 // wall clock minus monotonic
}

// epoch is when every world begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano()

func newClock() *clock { return &clock{monotonic: 1e9, ahead: epoch - 1e9} }

// Now is the wall clock.
func (c *clock) Now() int64 { return c.monotonic + c.ahead }

// Monotonic never goes back.
func (c *clock) Monotonic() int64 { return c.monotonic }
