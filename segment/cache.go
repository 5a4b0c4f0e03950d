package segment

import "github.com/pulsemq/pulsemq/core"

// cache is the budget of the chunks in memory, first in, first out over all
// partitions of the shard. Chunks that the segments hold durably are kept for
// readers until the budget needs them; others are made durable first.
type cache struct {
	store          *Store
	oldest, newest *chunk
	bytes          int64

	// Direct chunks once more: their slabs belong to the reactors.
	oldestDirect, newestDirect *chunk
	directBytes                int64 // of those slabs
}

// evictLookMax bounds how many chunks one eviction looks at.
const evictLookMax = 64

func (k *cache) add(c *chunk) {
	c.older = k.newest
	if k.newest != nil {
		k.newest.newer = c
	} else {
		k.oldest = c
	}
	k.newest = c
}

// addDirect adds a chunk, which add knows already, to the list of direct ones.
func (k *cache) addDirect(c *chunk) {
	c.olderDirect = k.newestDirect
	if k.newestDirect != nil {
		k.newestDirect.newerDirect = c
	} else {
		k.oldestDirect = c
	}
	k.newestDirect = c
	k.directBytes += int64(len(c.slab.Bytes))
}

func (k *cache) removeDirect(c *chunk) {
	if c.olderDirect != nil {
		c.olderDirect.newerDirect = c.newerDirect
	} else {
		k.oldestDirect = c.newerDirect
	}
	if c.newerDirect != nil {
		c.newerDirect.olderDirect = c.olderDirect
	} else {
		k.newestDirect = c.olderDirect
	}
	c.olderDirect, c.newerDirect = nil, nil
	k.directBytes -= int64(len(c.slab.Bytes))
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
	if c.direct {
		k.removeDirect(c)
	}
}

// overfull says that chunks which cannot be given up yet hold twice the budget.
func (k *cache) overfull() bool { return k.bytes > 2*k.store.options.CacheBytes }

// evict gives up about n bytes of sealed chunks, oldest first, and has those that
// are not sealed yet made durable.
func (k *cache) evict(n int64) {
	c := k.oldest
	for looked := 0; c != nil && n > 0 && looked < evictLookMax; looked++ {
		newer := c.newer
		switch {
		case c.state == chunkSealed:
			n -= c.charged
			k.store.dropFirstChunk(c.log, c)
		case c.state != chunkOpen:
			n -= c.charged
			k.store.requestFlush(c.log, c.lastIndex)
		}
		c = newer
	}
}

// releaseLookMax bounds how many direct chunks one release looks at.
const releaseLookMax = 1024

// ReleaseSlabs gives up half of the slabs that batches came in, oldest first, and
// has those made durable that are not yet: the reactors, whose memory they are,
// run short. What is not given up now is asked for again.
func (s *Store) ReleaseSlabs() {
	k := &s.cache
	n := (k.directBytes + 1) / 2
	c := k.oldestDirect
	for looked := 0; c != nil && n > 0 && looked < releaseLookMax; looked++ {
		newer := c.newerDirect
		n -= int64(len(c.slab.Bytes))
		if l := c.log; c.state == chunkSealed {
			// What is older in its log leaves with it: chunks leave memory in order.
			for first := l.chunks.at(0); first.state == chunkSealed; first = l.chunks.at(0) {
				s.dropFirstChunk(l, first)
				if first == c {
					break
				}
			}
		} else {
			s.requestFlush(l, c.lastIndex)
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
