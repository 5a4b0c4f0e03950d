package core

// Clock is the port to time. A machine reads it once per Tick.
type Clock interface {
	// Now is the wall clock in nanoseconds since the Unix epoch. It may jump.
	Now() int64
	// Monotonic is a nanosecond count that never goes back; only differences mean something.
	Monotonic() int64
}
