package shard

import (
	"github.com/pulsemq/pulsemq/proto"
)

// overloadWaitMillis is what OVERLOADED asks a client to wait: some turns of the
// disk, so that a full queue has moved on when it comes back.
const overloadWaitMillis = 20

// Refusals that need no text of their own are made once: an overloaded shard
// must not allocate for each request that it refuses. They are never changed.
var (
	errOverloadedStore = overloaded("the shard's write queues are full")
	errOverloadedFiles = overloaded("no file descriptors are left")
	errOverloadedShare = overloaded("the partition holds its share of the shard's memory")
	errOverloadedTotal = overloaded("the shard's memory for batches is full")
	errOverloadedRead  = overloaded("the shard's memory for answers is full")
	errOverloadedDisk  = overloaded("the shard cannot begin another read of its disk: its memory, its files or its reads are all in use")
	errOverloadedPeer  = overloaded("the connection has too many fetches unanswered on this shard")
	errOverloadedTrim  = overloaded("too many trims of this partition are waiting")
	errOverloadedLook  = overloaded("too many look-ups by time are waiting")
	errOverloadedAdmin = overloaded("too many metadata changes are in flight")
	errOverloadedCheck = overloaded("too many compressed batches of this partition wait to be checked")

	errShuttingDown = &proto.Error{Code: proto.CodeShuttingDown, Text: "the broker is shutting down"}
	errTimedOut     = &proto.Error{Code: proto.CodeTimedOut, Text: "the timeout passed before the topic's durability was reached; the batch may still be stored"}
	// Of what is no produce. A change of the metadata or a trim may have been written.
	errTimedOutRequest = &proto.Error{Code: proto.CodeTimedOut, Text: "the timeout passed before the request was carried out; it may still take effect"}

	errBurialProducer = &proto.Error{Code: proto.CodeUnknownProducer, Text: "the producer id is one of the broker's own: ask for one with INIT_PRODUCER"}

	errStorageFull = &proto.Error{Code: proto.CodeStorageFull, Text: "the disk is full: nothing was stored; delete topics, trim, or add space"}
)

func overloaded(text string) *proto.Error {
	return &proto.Error{Code: proto.CodeOverloaded, Text: text + "; nothing was done, try again after the wait", WaitMs: overloadWaitMillis}
}

// memory counts the payload bytes that the shard holds for others.
type memory struct {
	pending int64 // batches appended or held and not yet acked, or buried and not yet durable
	parcels int64 // answers out, or being read
}

// share is what one partition or connection may hold: an eighth, but at least
// one largest batch, or it could never be served.
func (m *Machine) share() int64 { return max(m.options.MemoryBytes/8, memoryShareMin) }

// memoryShareMin is a largest chunk or batch with its slab.
const memoryShareMin = 2 << 20

// admit says whether a batch may wait for its ack, or why not. Half of the
// memory is for batches on their way in, half for answers on their way out.
func (m *Machine) admit(p *partition, bytes int64) *proto.Error {
	if p.pendingBytes > 0 && p.pendingBytes+bytes > m.share() {
		return errOverloadedShare
	}
	if m.memory.pending > 0 && m.memory.pending+bytes > max(m.options.MemoryBytes/2, memoryShareMin) {
		return errOverloadedTotal
	}
	return nil
}

// readable says whether bytes more may be read now.
func (m *Machine) readable(bytes int64) bool {
	return m.memory.parcels == 0 || m.memory.parcels+bytes <= max(m.options.MemoryBytes/2, memoryShareMin)
}

// readableFor says whether a connection's share has room for bytes more.
func (m *Machine) readableFor(peer *peer, bytes int64) bool {
	return peer.parcelBytes == 0 || peer.parcelBytes+bytes <= m.share()
}
