// Package shard is the state machine that owns a node's partitions: produce,
// fetch, push, look-ups, trims, and on one shard the metadata.
//
// A Machine is a value that reacts. Its loop (shard/reactor, or a simulator)
// calls it on one thread:
//
//	Receive   a request from a reactor
//	Letter    a letter from another shard
//	Complete  an ended disk operation; JobDone an ended job
//	Tick      the time: time-outs, retention, flush intervals
//	Flush     the end of a turn: gathers writes into one journal group, answers
//
// It has no goroutines, channels, locks, wall clock or sockets. The same calls
// in the same order with the same clock give the same answers in the same order:
// no order of a map ever reaches an output.
//
// # The way of a batch
//
//	Receive ─> produce.go: checks ─> producer_state.go: sequence ─> segment.Store.Append
//	                                                                    │ Flush: journal group
//	answer <─ ack.go: the partition's queue <─ Advanced: written, durable <─┘
//
// Acks of one partition are answered in the order of their offsets, when the
// log says that the topic's durability is reached there. A duplicate takes the
// place in that queue that its original has or had, so it is never answered
// before the original is safe.
//
// # The way of a read
//
//	Receive ─> fetch.go ─> segment.Store.Read ─> parcel.go ─> answer, More
//	             │  ^                               │
//	        wheel.go, partition.waiters        RequestReturn: the next chunk
//
// A fetch without enough data hangs on its partition and on one timer wheel of
// the shard. The next chunk of an answer is read when the reactor has handed the
// previous one to the socket and returned its parcel.
// A subscription (subscription.go) holds its partitions with unread data in a
// round-robin queue; a partition without data is in no queue at all.
//
// # Bounds
//
// Every queue has a bound in limits.go, and beyond it a request is answered
// OVERLOADED with a wait (overload.go). Answers that do not fit a reactor's ring
// are kept and offered again at the next turn; the windows of the connections
// bound how many there can be.
package shard
