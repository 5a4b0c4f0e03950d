package segment

import "github.com/pulsemq/pulsemq/core"

const (
	spaceNanos     = 5e9 // between looks at the free space
	spaceFullNanos = 1e9 // while the disk is full
)

// spaceJob asks for the free space on a worker: that may block.
type spaceJob struct {
	store       *Store
	total, free int64
	err         error
}

// Run asks.
func (j *spaceJob) Run() { j.total, j.free, j.err = j.store.ports.FS.Space() }

// Done compares the answer with the watermarks.
func (j *spaceJob) Done() {
	s := j.store
	s.spaceBusy = false
	if j.err != nil {
		s.log.Warn("the free space cannot be told", "error", j.err)
		return
	}
	// On a small disk the watermarks are parts of it.
	low, high := min(s.options.FreeBytesLow, j.total/20), min(s.options.FreeBytesHigh, j.total/10)
	switch {
	case !s.full && j.free < low:
		s.full = true
		s.log.Warn("the disk is full: appends are refused until space returns", "free", j.free, "low", low)
	case s.full && j.free >= high:
		s.full = false
		s.log.Info("space has returned: appends are accepted", "free", j.free, "high", high)
	}
}

// watchSpace looks at the free space from time to time.
func (s *Store) watchSpace() {
	if s.spaceBusy || s.mono < s.spaceAt {
		return
	}
	wait := int64(spaceNanos)
	if s.full {
		wait = spaceFullNanos
	}
	if s.ports.Workers.Submit(&spaceJob{store: s}) {
		s.spaceBusy = true
		s.spaceAt = s.mono + wait
	}
}

// diskFull takes note that an operation met a full disk.
func (s *Store) diskFull(err error) {
	if !s.full {
		s.full = true
		s.log.Warn("the disk is full: appends are refused until space returns", "error", err)
	}
	s.spaceAt = min(s.spaceAt, s.mono+spaceFullNanos)
}

// Full says whether appends are refused for want of space.
func (s *Store) Full() bool { return s.full }

// watchClock compares how far the two clocks went since the start. When they part
// by more than is allowed, retention by age stops until they agree with the ages
// again: nobody knows which of them is right.
func (s *Store) watchClock(wall, mono int64) {
	if s.clockWall == 0 {
		s.clockWall, s.clockMono = wall, mono
	}
	apart := (wall - s.clockWall) - (mono - s.clockMono)
	jumped := apart > s.options.ClockJumpNanos || apart < -s.options.ClockJumpNanos
	if jumped != s.clockJumped {
		s.clockJumped = jumped
		if jumped {
			s.log.Warn("wall clock and monotonic clock have parted: retention by age and rolls by time are stopped", "apart_seconds", apart/1e9)
		} else {
			s.log.Info("the clocks agree again: retention by age goes on")
		}
	}
	s.wall = wall
}

var _ core.Job = (*spaceJob)(nil)
