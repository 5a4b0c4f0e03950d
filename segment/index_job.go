package segment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// indexWaiter is told when a segment's index has been loaded, or why not.
type indexWaiter interface {
	indexLoaded(err error)
}

// indexJob loads or rebuilds the index of one segment on a worker.
type indexJob struct {
	store   *Store
	segment *segment
	header  FileHeader
	stem    string
	sealed  SealedPoint
	active  bool  // the part below upTo of a segment that is still written
	upTo    int64 // position

	index   *Index
	holes   []Hole
	rebuilt bool
	unsaved error // the index is good and its file could not be written
	err     error
	waiters []indexWaiter
}

// indexed says whether the segment's index reaches down to an offset.
func (g *segment) indexed(offset core.Offset) bool {
	if g.index == nil {
		return false
	}
	if g.indexFrom <= FileHeaderBytes {
		return true
	}
	return len(g.index.Entries) > 0 && g.index.Entries[0].Offset <= offset
}

// indexWhole says whether the index of all of the segment is at hand.
func (g *segment) indexWhole() bool { return g.index != nil && g.indexFrom <= FileHeaderBytes }

// loadIndex begins to load a segment's index; false when the workers are busy.
func (s *Store) loadIndex(g *segment, w indexWaiter) bool {
	if g.indexJob != nil {
		g.indexJob.waiters = append(g.indexJob.waiters, w)
		return true
	}
	j := s.newIndexJob(g, w)
	if !s.ports.Workers.Submit(j) {
		return false
	}
	g.indexJob = j
	return true
}

// awaitIndex loads a segment's index for a reader, who waits for a worker rather than
// being refused: under a busy producer the jobs that ended segments and states leave
// take every place that comes free, and whoever comes back later finds none again.
// So this one is before those. There are as many as there may be reads.
func (s *Store) awaitIndex(g *segment, w indexWaiter) {
	if s.loadIndex(g, w) {
		return
	}
	g.indexJob = s.newIndexJob(g, w)
	s.jobs = slices.Insert(s.jobs, 0, core.Job(g.indexJob))
}

func (s *Store) newIndexJob(g *segment, w indexWaiter) *indexJob {
	j := &indexJob{store: s, segment: g, header: g.header, stem: g.stem(), sealed: g.end(), waiters: []indexWaiter{w}}
	if g == g.log.active() {
		j.active, j.upTo = true, g.position
		if g.index != nil {
			j.upTo = g.indexFrom
		}
	}
	return j
}

// Run does the work on a worker.
func (j *indexJob) Run() {
	var sc Scanner
	if !j.active {
		j.index, j.rebuilt, j.err = OpenIndex(j.store.ports.FS, j.stem, &j.header, j.sealed, &sc)
		j.holes = sc.Holes
		if j.index != nil {
			j.unsaved, j.err = j.err, nil // costs the next start a rebuild, no more
		}
		return
	}
	f, err := j.store.ports.FS.OpenRead(j.stem + LogExtension)
	if err != nil {
		j.err = err
		return
	}
	defer f.Close()
	j.rebuilt = true
	if j.err = sc.Open(f, j.upTo, &j.header); j.err == nil {
		sc.Past = j.sealed.Index + 1
		j.index = NewIndex(j.header.BaseOffset, j.header.BaseIndex)
		j.err = RebuildIndex(&sc, j.index)
	}
	j.err = unreadable(j.err)
}

// errUnreadable says that a segment's bytes could not be read, so that nobody knows
// where its records are. It is not that the file could not be opened, which passes.
var errUnreadable = errors.New("the segment cannot be read")

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnreadable, err)
}

// Done takes the index over on the shard.
func (j *indexJob) Done() {
	g, s := j.segment, j.store
	g.indexJob = nil
	if err := errors.Join(j.err, j.unsaved); err != nil {
		s.log.Warn("an index could not be loaded or written", "segment", j.stem, "error", err)
	}
	if j.err == nil {
		if j.rebuilt {
			s.stats.IndexesRebuilt++
		}
		if j.active && g.index != nil {
			g.index.prepend(j.index)
			g.indexPieced = true
		} else if g.index == nil {
			g.index = j.index
		}
		g.indexFrom = FileHeaderBytes
		g.indexUsed = s.mono
		g.learnIndex()
		if g.log.state != logDropped {
			s.activate(g.log) // a log at rest gives it up again when nobody has used it for a while
		}
		s.noteHoles(g.log, g.path, j.holes, damageOfSegment)
	}
	for _, w := range j.waiters {
		w.indexLoaded(j.err)
	}
}

// prepend puts the index of a segment's beginning before that of its rest.
func (x *Index) prepend(before *Index) {
	for i := range x.Entries {
		x.Entries[i].MaxTimestamp = max(x.Entries[i].MaxTimestamp, before.MaxTimestamp)
	}
	if before.MaxTimestamp >= x.MaxTimestamp {
		x.MaxTimestamp, x.MaxTimestampOffset = before.MaxTimestamp, before.MaxTimestampOffset
	}
	x.AppendTimeLast = max(x.AppendTimeLast, before.AppendTimeLast)
	x.CursorBytes += before.CursorBytes
	x.Entries = append(before.Entries, x.Entries...)
	if len(x.Entries) > 0 && x.lastEntry == 0 {
		x.lastEntry = before.lastEntry
	}
}
