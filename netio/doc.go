// Package netio is the broker's edge: clients' connections on one side, rings to
// the shards on the other, and the admin HTTP port beside them.
//
//	             one event loop of gnet, one thread
//	           ┌─────────────────────────────────────────────┐
//	client ──> │ gnetConn ──> Session ──> Reactor ──> Link ──┼─> shard
//	client <── │ gnetConn <── Session <── Reactor <── Link <─┼── shard
//	           └─────────────────────────────────────────────┘
//	             socket       protocol    slots,      rings, arena,
//	                          pure        backlog     wakers
//
// Session and Reactor are values that react, like the shard's machine: bytes,
// answers and ticks go in, writes to a core.Conn and requests in rings come out.
// They have no goroutine, socket, lock or clock of their own, so that the
// simulator drives them too. Everything about gnet is in gnet.go and wake.go.
//
// # A batch on its way in
//
// PRODUCE is parsed from the fields that come before its batch: topic id and
// partition say which shard's arena the slab comes from before the batch has
// arrived. The batch is then copied once, in pieces as small as the cache likes,
// and checksummed on the way; the rest of a large one is read from the socket
// straight into the slab. What is refused (unknown topic, too large, no slab) is
// read and thrown away, so that the next frame is found.
//
// # An answer on its way out
//
// Answers come back in a ring, many per wake-up, and each connection is written
// to once per turn: answers without records first, then one chunk of those with
// records. The next chunk follows when the socket has taken the last. Parcels
// return to their shard after the write.
//
// # What is bounded, and what happens at the bound
//
//	unanswered requests of a connection   window      WINDOW_EXCEEDED, closed
//	windows of all connections            budget      smaller windows, then TOO_MANY_CONNECTIONS
//	batches between reactor and shard     arena       OVERLOADED
//	requests for a shard                  ring and backlog  OVERLOADED
//	parts of a scattered request          64 in flight      the rest waits
//	output of a connection                send buffer       nothing more is read for it, then SLOW_CONSUMER
//	pushed records                        credit      the rest waits
//	a connection without HELLO            time        HANDSHAKE_REQUIRED, closed
//	connections, also per address         count       TOO_MANY_CONNECTIONS
package netio
