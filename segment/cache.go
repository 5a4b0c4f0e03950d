package segment

import "github.com/pulsemq/pulsemq/core"

// cache is the budget of the chunks in memory, first in, first out over all
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

func (k *cache) add(c *chunk) {
	c.older = k.newest
	if k.newest != nil {
		k.newest.newer = c
	} else {
		k.oldest = c
	}
	k.newest = c
}

// renew makes a log's last chunk the newest of all.
func (k *cache) renew(c *chunk) {
	if k.newest == c {
		return
	}
	charged := c.charged
	k.remove(c)
	k.add(c)
	k.bytes += charged
	c.charged = charged
}

func (k *cache) charge(c *chunk, bytes int64) {
	k.bytes += bytes - c.charged
	c.charged = bytes
	if k.bytes > k.store.options.CacheBytes {
		k.evict(k.bytes - k.store.options.CacheBytes)
	}
}

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
		switch c.state {
		case chunkSealed:
			n -= c.charged
			k.store.dropFirstChunk(c.log, c)
		case chunkOpen:
			// The small tail of a quiet partition. It goes behind all others, so that many of
			// them never hide what can be given up.
			k.renew(c)
		default:
			n -= c.charged
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
