package segment

import "github.com/pulsemq/pulsemq/core"

// CleanPoint says that at Time (wall clock, nanoseconds) a compaction had been
// made durable after which no record below Next had an older one of its key
// below it. A reader that started later never saw those older records. So a
// tombstone below Next may go when tombstones are kept for less time than has
// passed since: nobody who read on meanwhile can have missed it.
//
// The point counts from the compaction and not from the tombstone's own age: a
// reader may meet the old value until the moment it is compacted away.
type CleanPoint struct {
	Next core.Offset
	Time int64
}

// CleanPoints is the history of a partition's compactions, oldest first, unused
// ones zero. Next and Time rise. The last used one is how far the log is clean.
type CleanPoints [8]CleanPoint

func (c *CleanPoints) used() int {
	n := 0
	for n < len(c) && c[n].Time != 0 {
		n++
	}
	return n
}

// Next is the offset up to which the log is clean.
func (c *CleanPoints) Next() core.Offset {
	if n := c.used(); n > 0 {
		return c[n-1].Next
	}
	return 0
}

// Droppable is the offset below which tombstones have been kept long enough.
func (c *CleanPoints) Droppable(now, retention int64) core.Offset {
	next := core.Offset(0)
	for _, p := range c[:c.used()] {
		if now-p.Time >= retention {
			next = p.Next
		}
	}
	return next
}

// Add returns the history with one more compaction. Points younger than the
// retention stand at least a sixth of it apart: a point too close to the one
// before the last takes the last one's place. That keeps a tombstone at most
// that much longer, never shorter.
func (c CleanPoints) Add(next core.Offset, now, retention int64) CleanPoints {
	n := c.used()
	if n > 0 {
		last := c[n-1]
		// A clock that went back must not make points look older than they are.
		now = max(now, last.Time)
		next = max(next, last.Next)
		if next == last.Next {
			return c
		}
	}
	// Of those old enough, only the newest says anything.
	for n > 1 && now-c[1].Time >= retention {
		copy(c[:], c[1:n])
		c[n-1] = CleanPoint{}
		n--
	}
	switch {
	case n > 1 && now-c[n-2].Time < retention/6, n == len(c):
		c[n-1] = CleanPoint{next, now}
	default:
		c[n] = CleanPoint{next, now}
	}
	return c
}
