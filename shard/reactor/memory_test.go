package reactor

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// Frames that the cache keeps lie in the arenas that batches come in through, so
// it may never hold all of them: nothing would be taken in any more.
func TestCacheLeavesRoomForBatches(t *testing.T) {
	for _, limit := range []core.Size{256 * core.MiB, 512 * core.MiB, 2 * core.GiB, 64 * core.GiB} {
		for _, threads := range []int{1, 2, 16} {
			c := &core.Config{}
			c.Broker.Shards, c.Broker.Reactors = threads, threads
			c.Memory.Limit, c.Storage.TailCache = limit, limit/2
			b := share(c)
			if arenas := b.ingest * int64(threads); b.cache > arenas/2 {
				t.Errorf("limit %v, %d threads: a cache of %d bytes leaves less than half of the arenas' %d", limit, threads, b.cache, arenas)
			}
			if b.cache <= 0 {
				t.Errorf("limit %v, %d threads: no cache", limit, threads)
			}
		}
	}
}

// What the arenas may take and what the Go heap may take are together no more than
// memory.limit, unless that would leave the heap next to nothing.
func TestHeapAndArenasShareTheLimit(t *testing.T) {
	for _, limit := range []core.Size{256 * core.MiB, 512 * core.MiB, 2 * core.GiB, 64 * core.GiB} {
		for _, threads := range []int{1, 2, 16} {
			c := &core.Config{}
			c.Broker.Shards, c.Broker.Reactors = threads, threads
			c.Memory.Limit, c.Storage.TailCache = limit, limit/16
			b, heap := share(c), HeapBytes(c)
			arenas := b.ingest*int64(threads*threads) + (b.local+b.reads)*int64(threads)
			if least := int64(limit) / heapShareMin; heap < least || heap > least && arenas+heap > int64(limit) {
				t.Errorf("limit %v, %d threads: arenas of %d bytes and a heap of %d", limit, threads, arenas, heap)
			}
		}
	}
}
