// Package reactor drives shard machines: one pinned thread per shard, with the
// rings, the disk driver and the wakers that a machine knows only as ports.
//
//	          requests (SPSC, one per reactor)          letters (SPSC, one per other shard)
//	reactor ──────────────────────────> Loop <────────────────────────── Loop
//	   ^                                 │ turn: Tick, Receive, Letter, Complete, JobDone, Flush
//	   └── answers (SPSC), one kick ─────┤
//	                                     └──> DiskDriver ──> Park until a completion, a kick or a timer
//
// Start builds a node: it opens the data folder, recovers every shard's store,
// the metadata first, opens the partitions, and returns when the node serves.
// Each shard's store is recovered on the thread that serves it afterwards,
// because a ring of the kernel belongs to the thread that made it.
//
// A loop that has no work spins for a while before it parks, because a parked
// thread takes about 100 µs to come back. How long it spins adapts to whether
// spinning has paid, and its bound depends on how many processors there are: a
// spinning shard on a machine of two takes one of them from the reactor that it
// waits for.
package reactor
