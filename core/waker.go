package core

// Waker ends the sleep of one thread, the sleeper, from any other. It is the
// port through which a DiskDriver and the rings' producers wake a shard's loop.
//
// The sleeper's order is the whole protocol, because a wake-up must not fall
// between its last look and its sleep:
//
//	w.Announce()
//	if there is no work in any queue {  // the second look, after announcing
//		driver.Park(timeout)
//	}
//	w.Retract()
//
// A producer publishes its work first and calls Kick after that.
type Waker interface {
	// Kick wakes the sleeper when it has announced its sleep; otherwise it costs
	// one load. Any thread may call it.
	Kick()
	// Announce says that the sleeper is about to sleep.
	Announce()
	// Retract says that the sleeper is awake, and takes back kicks that arrived.
	Retract()
	// FD is readable when a kick has arrived since the last Retract.
	FD() int
}
