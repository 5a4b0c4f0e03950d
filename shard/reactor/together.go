package reactor

import (
	"sync"
	"sync/atomic"
)

// togetherMax is how many logs a shard reads, and how many files it syncs, at a time while
// it starts. Reads that wait for the disk leave the processors to others, and syncs that
// are in flight together share the work of the file system's journal and the flush of the
// disk.
const togetherMax = 16

// together calls do with 0 to n-1, togetherMax at a time, and returns when all have returned.
func together(n int, do func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(togetherMax, n) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	running.Wait()
}
