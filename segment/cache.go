package segment

import "github.com/pulsemq/pulsemq/core"

// cache is the budget of the closed chunks in memory, first in, first out over all
// partitions of the shard. Chunks that the segments hold durably are kept for
// readers until the budget needs them; others are made durable first.
type cache struct {
	store          *Store
	oldest, newest *chunk
	bytes          int64
}

const (
	// evictLookMax bounds how many chunks one eviction looks at.
	evictLookMax = 64

	// relieveBytes is how much one relief gives up. A block of memory can serve another
	// size only when all of its slabs are home, so it is several blocks.
	relieveBytes = 16 << 20
)

// Relieve gives up frames that are kept for readers, the oldest first, and has
// some of the others made durable so that they can be given up next. It is called
// when memory for batches has run out, which may be before the budget has.
func (s *Store) Relieve() { s.cache.evict(relieveBytes) }

// add takes a chunk that was closed. Open ones are not in the list: those of
// partitions that seldom write would gather at its old end, and evict, which looks
// at few, would never get past them.
func (k *cache) add(c *chunk, bytes int64) {
	c.charged = bytes
	k.bytes += bytes
	c.older = k.newest
	if k.newest != nil {
		k.newest.newer = c
	} else {
		k.oldest = c
	}
	k.newest = c
}

// bound evicts what the budget does not allow. It is asked again each turn: what
// was not durable yet may be by then.
func (k *cache) bound() {
	if over := k.bytes - k.store.options.CacheBytes; over > 0 {
		k.evict(over)
	}
}

// remove forgets a chunk; one that is open was never added.
func (k *cache) remove(c *chunk) {
	k.bytes -= c.charged
	c.charged = 0
	if c.older != nil {
		c.older.newer = c.newer
	} else if k.oldest == c {
		k.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else if k.newest == c {
		k.newest = c.older
	}
	c.older, c.newer = nil, nil
}

// overfull says that chunks which cannot be given up yet hold twice the budget.
func (k *cache) overfull() bool { return k.bytes > 2*k.store.options.CacheBytes }

// evict gives up about n bytes of sealed chunks, oldest first, and has those that
// are not sealed yet made durable.
func (k *cache) evict(n int64) {
	c := k.oldest
	for looked := 0; c != nil && n > 0 && looked < evictLookMax; looked++ {
		newer := c.newer
		n -= c.charged
		if c.state == chunkSealed {
			k.store.dropFirstChunk(c.log, c)
		} else {
			k.store.requestFlush(c.log, c.lastIndex)
		}
		c = newer
	}
}

// dropFirstChunk takes a log's oldest chunk out of memory.
func (s *Store) dropFirstChunk(l *Log, c *chunk) {
	core.Assert(l.chunks.at(0) == c && c.state == chunkSealed, "chunks leave memory in order, and only when the segment has them")
	l.chunks.popFirst()
	l.issued--
	s.chunkFree(c)
}
