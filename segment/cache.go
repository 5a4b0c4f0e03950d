package segment

import "github.com/pulsemq/pulsemq/core"

// cache is the budget of the closed chunks in memory, first in, first out over all
// partitions of the shard. Chunks that the segments hold durably are kept for
// readers until the budget needs them; others are made durable first.
type cache struct {
	store          *Store
	oldest, newest *chunk
	bytes          int64 // of closed chunks and of what open tails hold
	tails          int64 // of bytes, what open tails hold
	tailNext       int   // where evictTails goes on in the active logs
	evicting       bool
	shedAt         *chunk // where shed goes on; nil: at the oldest
	readUntil      int64  // monotonic; up to when somebody is said to read
}

const (
	// evictLookMax bounds how many chunks one eviction looks at.
	evictLookMax = 64

	// evictTailsMax bounds the open tails that one eviction sends to their segments.
	evictTailsMax = 8

	// tailsLeast is what open tails may hold however small the budget is.
	tailsLeast = 8 << 20

	// unreadBytes is how much of the budget is used while nobody reads: enough for who
	// begins at the newest records. Memory that no reader asks for would be touched for
	// nothing, and where the kernel, or a hypervisor below it, has to find and clear each
	// page, that costs a producer more than everything else that is done with its bytes.
	unreadBytes = 64 << 20

	// unreadNanos is after how long without a read nobody is said to read.
	unreadNanos = 60e9

	// unreadLookMax bounds how many chunks are looked at to keep to unreadBytes.
	unreadLookMax = 8

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
		return
	}
	if over := k.bytes - unreadBytes; over > 0 && k.store.mono >= k.readUntil {
		k.shed(over)
	}
}

// read takes note that somebody reads.
func (k *cache) read() { k.readUntil = k.store.mono + unreadNanos }

// shed gives up about n bytes of sealed chunks, and leaves alone what is not in the
// segments yet: there is room for it. It looks at a few each time and goes on where it
// ended, so that chunks which have to wait, such as those of partitions whose first
// segment is being made, do not keep those behind them.
func (k *cache) shed(n int64) {
	c := k.shedAt
	if c == nil {
		c = k.oldest
	}
	for looked := 0; c != nil && n > 0 && looked < unreadLookMax; looked++ {
		newer := c.newer
		if c.state == chunkSealed {
			// What its log has before it is sealed too, and may not have been when it was looked at.
			for l := c.log; c.log != nil; {
				first := l.chunks.at(0)
				n -= first.charged
				k.store.dropFirstChunk(l, first)
			}
		}
		c = newer
	}
	k.shedAt = c
}

// remove forgets a chunk; one that is open was never added.
func (k *cache) remove(c *chunk) {
	k.bytes -= c.charged
	c.charged = 0
	if k.shedAt == c {
		k.shedAt = c.newer
	}
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

// overfull says that chunks which cannot be given up yet, or open tails, hold twice the
// budget. A few open tails are always allowed: what is appended needs one.
func (k *cache) overfull() bool {
	most := 2 * k.store.options.CacheBytes
	return k.bytes-k.tails > most || k.tails > max(most, tailsLeast)
}

// chargeTail counts the memory that a log's open tail holds: that of thousands of
// quiet partitions is most of what they take.
func (k *cache) chargeTail(l *Log, bytes int64) {
	l.tailCharged += bytes
	k.tails += bytes
	k.bytes += bytes
}

// releaseTail gives up the slab in which the log's next chunk would begin.
func (s *Store) releaseTail(l *Log) {
	if l.tailSlab == nil {
		return
	}
	l.tailSlab.Release()
	l.tailSlab = nil
	s.cache.chargeTail(l, -l.tailCharged)
}

// evict gives up about n bytes of sealed chunks, oldest first, and has those that
// are not sealed yet made durable.
func (k *cache) evict(n int64) {
	if k.evicting { // by a chunk that evictTails closes
		return
	}
	k.evicting = true
	defer func() { k.evicting = false }()
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
	if n > 0 && c == nil {
		k.evictTails(n)
	}
}

// evictTails closes open tails and has them made durable, so that they can be given
// up next: one after the other over all logs, few at a time, because each may cost
// a segment. A partition that is busy would open its next tail at once.
func (k *cache) evictTails(n int64) {
	s := k.store
	evicted := 0
	for looked := 0; looked < min(len(s.activeList), evictLookMax) && n > 0 && evicted < evictTailsMax; looked++ {
		if k.tailNext++; k.tailNext >= len(s.activeList) {
			k.tailNext = 0
		}
		l := s.activeList[k.tailNext]
		c := l.chunks.last()
		if l.tailSlab == nil || l.state != logServing || l.opening != 0 || l.pending.count > 0 || c != nil && c.state == chunkOpen && c.frameOpen {
			continue
		}
		if c != nil && c.state == chunkOpen {
			s.chunkClose(c)
			s.requestFlush(l, c.lastIndex)
		}
		n -= int64(len(l.tailSlab.Bytes))
		s.releaseTail(l)
		evicted++
	}
}

// dropFirstChunk takes a log's oldest chunk out of memory.
func (s *Store) dropFirstChunk(l *Log, c *chunk) {
	core.Assert(l.chunks.at(0) == c && c.state == chunkSealed, "chunks leave memory in order, and only when the segment has them")
	l.chunks.popFirst()
	l.issued--
	s.chunkFree(c)
}
