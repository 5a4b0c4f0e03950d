package segment

import (
	"errors"
	"io/fs"

	"github.com/pulsemq/pulsemq/core"
)

// extentReturn gives back what segments of resting logs have reserved behind their
// end: thousands of idle partitions would keep an extent each, and the next start
// would have to read all of it to see that nothing stands there. One job at a
// time does it for many segments. While it runs nothing is written to them.
//
// The new size is not synced: a crash that undoes it brings back zeros.
type extentReturn struct {
	store    *Store
	gathered []*segment // for the next job
	busy     bool
	segments []*segment // of the job
	paths    []string
	ends     []int64
	err      error
}

// extentsReturnMax bounds the segments of one job.
const extentsReturnMax = 512

// returnExtent has a segment's reserved rest given back; true when there is none.
// The log must have nothing in flight.
func (s *Store) returnExtent(g *segment) bool {
	if g.returning {
		return false
	}
	if g.allocated <= g.position {
		return true
	}
	e := &s.extents
	if !e.busy && len(e.gathered) < extentsReturnMax {
		g.returning = true
		e.gathered = append(e.gathered, g)
	}
	return false
}

// submitExtents hands what was gathered to a worker.
func (s *Store) submitExtents() {
	e := &s.extents
	if e.busy || len(e.gathered) == 0 {
		return
	}
	e.store, e.busy, e.err = s, true, nil
	e.segments, e.gathered = e.gathered, e.segments[:0]
	e.paths, e.ends = e.paths[:0], e.ends[:0]
	for _, g := range e.segments {
		e.paths = append(e.paths, g.path)
		e.ends = append(e.ends, g.position)
	}
	s.submitSmall(e)
}

// Run shortens the files.
func (e *extentReturn) Run() {
	for i, name := range e.paths {
		f, err := e.store.ports.FS.Open(name)
		if err == nil {
			err = errors.Join(f.Truncate(e.ends[i]), f.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.err = err
		}
	}
}

// Done lets the logs write again. What could not be given back is not tried again
// before the next start: it costs room, nothing else.
func (e *extentReturn) Done() {
	e.busy = false
	if e.err != nil {
		e.store.log.Warn("what was reserved behind the end of a segment could not be given back", "error", e.err)
	}
	for i, g := range e.segments {
		g.returning = false
		g.allocated = g.position
		g.idleExtent = true
		e.store.kick(g.log)
		e.segments[i] = nil
	}
	e.segments = e.segments[:0]
}

// extentBytes is how much the segment grows beyond what is written: as much as it
// holds, up to a bound, so that thousands of small partitions do not reserve a disk
// that they never fill, and a large one changes its file's size seldom. It is little
// while its partition seldom writes, nothing when its file may not become so large.
func (g *segment) extentBytes() int64 {
	if g.log.extentLeast {
		return 0
	}
	if g.idleExtent {
		g.idleExtent = false
		return core.SegmentExtentIdleBytes
	}
	return min(max(alignUp(g.position), core.SegmentExtentIdleBytes), core.SegmentExtentBytes)
}

// returnExtents gives back what is reserved at the end of a clean stop; true when
// nothing is left.
func (s *Store) returnExtents() bool {
	done := true
	for _, l := range s.activeList {
		if g := l.active(); g != nil && l.state == logServing && !s.returnExtent(g) {
			done = false
		}
	}
	s.submitExtents()
	return done
}
