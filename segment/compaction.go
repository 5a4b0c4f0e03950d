package segment

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// compactDirtyPercent is how much of a log's sealed bytes must be new to
	// compaction before a pass is worth rewriting the rest.
	compactDirtyPercent = 50
	// compactMapBytes bounds the memory for the keys of a pass; a shard runs one at a time.
	compactMapBytes = 32 << 20
)

// compactor runs the compactions of a store's logs, one at a time: a pass on a
// worker, then its outputs swapped in one after the other, each durable before
// the next.
type compactor struct {
	next    int // where the round over the active logs goes on
	running bool
	log     *Log
	job     *Compaction
	waiting bool // no worker had room for the job
	stop    atomic.Bool
	swaps   []*CompactOutput // of the pass that has ended, still to be swapped in
}

// compactTick starts a pass when there is none and a log has enough for one.
func (s *Store) compactTick() {
	c := &s.compactor
	c.stop.Store(s.stopping)
	if c.waiting {
		c.waiting = !s.ports.Workers.Submit(c.job)
		return
	}
	if c.running || s.stopping || s.full {
		return
	}
	for n := min(len(s.activeList), tickLogsMax); n > 0; n-- {
		if c.next++; c.next >= len(s.activeList) {
			c.next = 0
		}
		l := s.activeList[c.next]
		if l.options.Compact && l.state == logServing && s.mono >= l.compactAt && s.compactStart(l) {
			return
		}
	}
}

// compactable are the segments that a pass may touch: sealed, below the points
// of two valid states, so that no recovery replays what compaction changed.
func (l *Log) compactable() []CompactSegment {
	states, n := 0, 0
	for i := len(l.segments) - 1; i >= 0; i-- {
		if g := l.segments[i]; g.statePoint != 0 && g.stateVerified {
			if states++; states == 2 {
				n = i
				break
			}
		}
	}
	var segments []CompactSegment
	for _, g := range l.segments[:n] {
		if g.lastIndex > l.sealed.Index || g.removing {
			break
		}
		segments = append(segments, CompactSegment{Header: g.header, End: g.end()})
	}
	return segments
}

// compactStart begins a pass over a log when it is worth it.
func (s *Store) compactStart(l *Log) bool {
	segments := l.compactable()
	dirty, all := DirtyBytes(segments)
	points := cleanPoints(segments)
	droppable := points.Droppable(s.wall, TombstoneRetentionDefault)
	worth := dirty > 0 && dirty*100 >= all*compactDirtyPercent || droppable > l.compactDropped && !s.clockJumped
	if !worth {
		return false
	}
	c := &s.compactor
	l.compactAt = s.mono + s.options.CompactNanos
	l.compactDropped = droppable
	c.running, c.log = true, l
	c.job = &Compaction{
		Files: s.ports.FS, Clock: s.ports.Clock, Dir: l.id.dir(), Segments: segments, NumberNext: l.nextSegment,
		Salt: s.folder.salt(), LogStart: l.start, SegmentBytes: l.options.SegmentBytes, MapBytes: compactMapBytes,
		TombstoneRetention: TombstoneRetentionDefault, Stopped: c.stop.Load, Ended: s.compactEnded,
	}
	l.nextSegment += core.SegmentNumber(len(segments))
	c.waiting = !s.ports.Workers.Submit(c.job)
	return true
}

// compactEnded takes a pass's outputs over.
func (s *Store) compactEnded(job *Compaction) {
	c := &s.compactor
	l := c.log
	s.stats.Compactions++
	s.stats.CompactRead += uint64(job.Stats.BytesRead)
	s.stats.CompactWritten += uint64(job.Stats.BytesWritten)
	if job.Err == nil {
		s.stats.CompactRemoved += uint64(job.Stats.RecordsRead - job.Stats.RecordsKept)
	}
	if job.Err != nil && !errors.Is(job.Err, ErrCompactionStopped) { // a stop of the broker is no failure
		s.stats.CompactFailures++
		s.log.Warn("a compaction failed; nothing has changed", "log", l.id.String(), "error", job.Err)
	}
	for _, number := range job.Irregular {
		s.log.Warn("compaction leaves a damaged segment alone, and keeps tombstones", "log", l.id.String(), "segment", number)
	}
	c.swaps = job.Outputs
	s.compactSwap()
}

// compactSwap begins the swap of the next output, or ends the pass.
func (s *Store) compactSwap() {
	c := &s.compactor
	l := c.log
	if len(c.swaps) > 0 && l.state != logDropped && !s.stopping && l.replaced(c.swaps[0]) != nil {
		s.submitSmall(&compactSwap{store: s, output: c.swaps[0]})
		return
	}
	// What is left is not swapped in: the log is gone, or retention was faster.
	s.compactDiscard(c.swaps)
	c.swaps, c.job, c.log, c.running = nil, nil, nil, false
}

func (s *Store) compactDiscard(outputs []*CompactOutput) {
	for _, o := range outputs {
		s.submitSmall(&fileRemove{store: s, names: []string{o.Path() + newSuffix, indexPath(o)}})
	}
}

func indexPath(o *CompactOutput) string {
	return strings.TrimSuffix(o.Path(), LogExtension) + IndexExtension
}

// replaced finds the segments that an output stands for; nil when the log does
// not have all of them any more.
func (l *Log) replaced(o *CompactOutput) []*segment {
	first := slices.IndexFunc(l.segments, func(g *segment) bool { return g.header.Segment == o.Replaces[0].Header.Segment })
	if first < 0 || first+len(o.Replaces) > len(l.segments) {
		return nil
	}
	run := l.segments[first : first+len(o.Replaces)]
	for i, g := range run {
		if g.header.Segment != o.Replaces[i].Header.Segment || g.removing {
			return nil
		}
	}
	return run
}

// compactSwap is the job that gives an output its name, durably.
type compactSwap struct {
	store  *Store
	output *CompactOutput
	err    error
}

// Run renames the file and syncs its folder.
func (j *compactSwap) Run() {
	j.err = j.output.Swap(j.store.ports.FS)
}

// Done puts the output in the place of what it replaces.
func (j *compactSwap) Done() {
	s, o := j.store, j.output
	c := &s.compactor
	l := c.log
	run := l.replaced(o)
	if j.err != nil || l.state == logDropped || run == nil {
		// A rename whose folder could not be synced may or may not last: recovery
		// sorts it out by the headers. This process goes on with what it knows.
		if j.err != nil {
			s.log.Warn("a compacted segment could not be swapped in", "log", l.id.String(), "error", j.err)
		}
		if j.err == nil && l.state != logDropped {
			s.submitSmall(&fileRemove{store: s, names: []string{o.Path(), indexPath(o)}, dir: o.Dir})
		}
		s.compactDiscard(c.swaps[1:])
		c.swaps = nil
		s.compactSwap()
		return
	}
	g := l.newSegment(o.Header.Segment, o.Header.BaseOffset, o.Header.BaseIndex, o.Header.Salt)
	g.header = o.Header
	g.position, g.allocated, g.lastIndex, g.next = o.End.Position, o.End.Position, o.End.Index, o.End.NextOffset
	g.index, g.indexUsed = o.Index, s.mono
	g.appendLast = o.Index.AppendTimeLast
	for l.chunks.len() > 0 && l.chunks.at(0).state == chunkSealed && l.chunks.at(0).lastIndex <= o.End.Index {
		s.dropFirstChunk(l, l.chunks.at(0))
	}
	old := slices.Clone(run)
	at := slices.Index(l.segments, old[0])
	l.segments = slices.Replace(l.segments, at, at+len(old), g)
	for _, r := range old {
		s.removeSegment(r)
	}
	c.swaps = c.swaps[1:]
	s.compactSwap()
}
