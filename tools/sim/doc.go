// Sim runs whole brokers inside one goroutine, from a seed: the real shards, storage engine, rings, slabs and
// connection logic, on a disk in memory that forgets what was not synced, a net that delays, cuts and resets, and a clock
// that moves from event to event. Clients that are state machines too send, fetch, subscribe and change topics;
// faults come in between; a ledger outside the broker knows what was promised. It is what make sim runs.
//
//	plan ──> world ──> nodes   disk/mem, reactor.Stepwise, netio.Reactor
//	           │  └──> net     bytes in pieces, delays, resets
//	           │  └──> clients producers, consumers, admin
//	         events, clock, trace          ledger: what was acknowledged and shown
//
// The same seed gives the same trace, to the last event. A run that fails says what was wrong, what happened last, and
// how to repeat it.
package main
