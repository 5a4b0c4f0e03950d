package reactor

import "github.com/pulsemq/pulsemq/core"

// budget is how memory.limit is shared out. The rest is the Go heap's: code,
// metadata, histograms, connections' buffers.
type budget struct {
	ingest int64 // arena of one reactor and one shard, for batches on their way in
	local  int64 // a shard's own arena: tail cache, journal groups, reads
	reads  int64 // another, for reads alone: what they have when tails hold all of local
	cache  int64 // part of local that keeps written frames for readers
	hold   int64 // what a machine lets batches and answers hold
}

const (
	// ingestMin holds two largest slabs, so that one can be filled while one is read.
	ingestMin = 2 * core.SlabBytesMax

	// localMin holds the journal groups in flight, a largest tail slab and a few reads.
	localMin = 8 * core.SlabBytesMax

	// readsMin holds a largest answer that is read while one is sent.
	readsMin = 2 * core.SlabBytesMax
)

// share divides: an eighth of the limit for batches on their way in, the tail
// cache as configured, and an eighth for reads and journal groups.
//
// A quarter of that eighth is for reads alone. The tails of a busy producer take
// what comes free, of whatever size, and a read needs a whole block: beside such a
// producer a reader of old records would be refused for as long as it sends.
//
// The cache keeps a large batch in the slab that it came in, which is the ingest
// arena's. A cache that may hold as much as those arenas would leave no room for
// the next batch, and would never have a reason to give something up: producers
// would be refused for good. So it keeps at most half of them.
func share(c *core.Config) budget {
	shards, pairs := int64(c.Broker.Shards), int64(c.Broker.Shards)*int64(c.Broker.Reactors)
	limit := int64(c.Memory.Limit)
	b := budget{
		ingest: max(ingestMin, limit/8/pairs),
		hold:   max(localMin, limit/4/shards),
	}
	b.cache = min(int64(c.Storage.TailCache)/shards, b.ingest*int64(c.Broker.Reactors)/2)
	b.reads = max(readsMin, limit/32/shards)
	b.local = max(localMin, b.cache+limit/8/shards-b.reads)
	return b
}

// heapShareMin: the Go heap is left at least this part of memory.limit.
const heapShareMin = 4

// HeapBytes is what memory.limit leaves to the Go heap beside the arenas, whose memory
// the collector does not see.
func HeapBytes(c *core.Config) int64 {
	b := share(c)
	shards, pairs := int64(c.Broker.Shards), int64(c.Broker.Shards)*int64(c.Broker.Reactors)
	limit := int64(c.Memory.Limit)
	return max(limit-b.ingest*pairs-(b.local+b.reads)*shards, limit/heapShareMin)
}
