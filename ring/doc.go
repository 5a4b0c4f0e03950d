// Package ring connects two pinned threads: a bounded queue with one producer
// and one consumer (SPSC), and a Waker that ends the consumer's sleep.
//
//	producer                                  consumer
//	   Push, Push, Push ──> [ | | |x|x|x| ] ──> Pop until empty
//	   Kick once per batch ──> eventfd ───────> Announce, look again, park, Retract
//
// Go channels are not used between pinned threads: a hand-over through a channel
// goes through the scheduler of both sides and costs tens of microseconds, a
// ring costs two cache lines.
//
// Every ring is bounded. Push returns false when the ring is full; the producer
// keeps the value and applies its own backpressure.
package ring
