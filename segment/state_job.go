package segment

import (
	"context"
	"log/slog"

	"github.com/pulsemq/pulsemq/core"
)

// stateJob is a log's derived state on its way to a .state file: it is taken at the end
// of a chunk, waits there until the segment holds that chunk durably, and is written by
// a worker. A log has one at a time.
//
// There is one for every Options.StateBytes of a log, so jobs and the memory of their
// files are used again.
type stateJob struct {
	StateWrite
	store  *Store
	log    *Log
	within *segment // in which the state's point lies
}

const (
	// statesSpareMax bounds the jobs that are kept to be used again. Partitions that
	// fill up evenly write their states at about the same time.
	statesSpareMax = 256
	// stateSpareBytesMax is how much memory a job that is kept may hold: the file, the
	// same again to compare, and the owner's part of it. The state of a few producers
	// takes less than 10 KB.
	stateSpareBytesMax = 32 << 10
)

// newState takes a job for a log.
func (s *Store) newState(l *Log) *stateJob {
	n := len(s.statePool)
	if n == 0 {
		return &stateJob{store: s, log: l}
	}
	j := s.statePool[n-1]
	s.statePool[n-1] = nil
	s.statePool = s.statePool[:n-1]
	j.log = l
	return j
}

// stateFree gives back a job that nobody uses any more.
func (s *Store) stateFree(j *stateJob) {
	if len(s.statePool) >= statesSpareMax || cap(j.room)+cap(j.State.Owner)+cap(j.State.Epochs.Starts)*epochStartBytes > stateSpareBytesMax {
		return
	}
	j.log, j.within = nil, nil
	j.StateWrite = StateWrite{room: j.room[:0], State: State{Owner: j.State.Owner[:0], Epochs: EpochTable{Starts: j.State.Epochs.Starts[:0]}}}
	s.statePool = append(s.statePool, j)
}

// takeSnapshot asks the owner for its state at the log's end. It becomes a .state
// file once the segment holds that point durably.
func (s *Store) takeSnapshot(l *Log) {
	c := l.chunks.last()
	if c == nil || l.stateBusy || l.state != logServing || l.opening != 0 || l.openNeeded || c.state == chunkSealed && c.segment != l.active() {
		return
	}
	if c.state == chunkOpen {
		s.chunkClose(c)
	}
	c.snapshot = s.newState(l)
	c.snapshot.State.Owner = l.owner.Snapshot(c.snapshot.State.Owner[:0])
	c.snapshot.State.Term, c.snapshot.State.Generation = l.term, l.generation
	l.stateBusy = true
	l.stateBytes = 0
	if c.state == chunkSealed {
		s.writeState(l, c)
		return
	}
	s.requestFlush(l, c.lastIndex)
}

// dropSnapshot forgets a state that was not handed to a worker.
func (s *Store) dropSnapshot(c *chunk) {
	if c.snapshot != nil {
		s.stateFree(c.snapshot)
		c.snapshot = nil
	}
}

// sealedMoved goes on with what waited for frames to be durable in the segment.
func (s *Store) sealedMoved(l *Log) {
	for i := l.issued - 1; i >= 0; i-- {
		if c := l.chunks.at(i); c.snapshot != nil && c.state == chunkSealed {
			s.writeState(l, c)
			break
		}
	}
}

// writeState has a worker make a snapshot durable.
func (s *Store) writeState(l *Log, c *chunk) {
	j, g := c.snapshot, c.segment
	c.snapshot = nil
	j.within = g
	j.Files, j.Fresh, j.Segment = s.ports.FS, g.stateFresh(), g.header
	x := &j.State
	x.Index, x.Segment, x.Position = c.lastIndex, g.header.Segment, c.position+int64(c.bytes())
	x.NextOffset, x.LogStart = c.next, min(l.startAt(c.lastIndex), c.next)
	x.Epochs.Starts = append(x.Epochs.Starts[:0], l.epochs.Starts...)
	x.Epochs.Truncate(c.lastIndex + 1)
	s.submitSmall(j)
}

// Done takes the outcome over on the shard.
func (j *stateJob) Done() {
	s, l := j.store, j.log
	defer s.stateFree(j)
	l.stateBusy = false
	if l.state == logDropped {
		return
	}
	if j.Err != nil {
		level := slog.LevelWarn
		if l.stateFailing {
			level = slog.LevelDebug // told already: on a full disk it is tried every second
		}
		l.stateFailing = true
		s.log.Log(context.Background(), level, "a state file could not be written; it is tried again", "log", l.id.String(), "error", j.Err)
		l.stateBytes = s.options.StateBytes
		l.stateRetryAt = s.mono + writerRetryNanos
		return
	}
	s.stats.StatesWritten++
	l.stateFailing = false
	l.stateIndex = j.State.Index
	j.within.statePoint, j.within.stateVerified = j.State.Index, true
	l.forgetBlemish(j.Path())
}

var _ core.Job = (*stateJob)(nil)
