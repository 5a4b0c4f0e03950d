package segment

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// Stop begins a clean stop: appends are refused, everything is flushed and
// synced, and the journal's last group says so. Keep driving the store until
// Stopped.
func (s *Store) Stop() {
	s.stopping = true
}

// Stopped says whether the clean mark is durable.
func (s *Store) Stopped() bool { return s.stopped }

// stopStep goes on with the stop; it is called once per turn.
func (s *Store) stopStep() {
	if s.stopped || s.journal.err != nil {
		return
	}
	idle := len(s.placeList) == 0 && len(s.failedList) == 0 && len(s.jobs) == 0 && len(s.dropping) == 0
	// A log that is not in the list holds nothing in memory. A walk over the map would
	// hand the work to the disk in another order in every run.
	for _, l := range s.activeList {
		if l.state != logDropped && !s.stopLog(l) {
			idle = false
		}
	}
	s.stopStuck()
	j := s.journal
	if !idle || j.inFlight > 0 || j.syncing || j.held != nil || j.closing != nil || !s.returnExtents() {
		return
	}
	j.closing = s.closeGroup
}

// stopStuck gives frames up for which the journal has had no room for a while,
// because the disk is full or failing: they were not acked as durable, and the stop
// has to end.
func (s *Store) stopStuck() {
	j := s.journal
	if len(s.placeList) == 0 || j.inFlight > 0 || j.syncing || j.held != nil {
		s.stopStuckAt = s.mono + stopStuckNanos
		return
	}
	if s.stopStuckAt == 0 {
		s.stopStuckAt = s.mono + stopStuckNanos
	}
	if s.mono < s.stopStuckAt {
		return
	}
	for i, l := range s.placeList {
		if l.state == logServing && l.placed < l.index {
			s.fail(l, errStopNoRoom)
		}
		l.inPlaceList = false
		s.placeList[i] = nil
	}
	s.placeList = s.placeList[:0]
}

// stopStuckNanos is how long a stop waits for room in the journal.
const stopStuckNanos = 1e9

var errStopNoRoom = fmt.Errorf("the journal has no room, and the store is stopping: %w", core.ErrDiskFull)

// closeGroup fills the last group: the clean mark, and what is known durable and
// sealed of the logs in use, so that the next start need not find out.
func (s *Store) closeGroup(g *journalGroup) {
	g.closes, g.sync = true, true
	if len(s.refused) == 0 { // a log that could not be opened has yet to be recovered, with a term of its own
		g.flags = GroupClean
	}
	var entries []byte
	for _, l := range s.activeList {
		if l.state != logServing || l.index == 0 {
			continue
		}
		if g.used+FrameHeaderBytes+len(entries)+checkpointEntryBytes > int(s.journal.current.bytes-s.journal.position) ||
			g.used+FrameHeaderBytes+len(entries)+checkpointEntryBytes > int(s.journal.groupBytesMax()) {
			break
		}
		c := l.checkpoint()
		entries = AppendCheckpoint(entries, &c)
		s.journal.touch(l, 0, 0)
	}
	if len(entries) > 0 {
		s.journal.addRecord(g, nil, FrameCheckpoint, 0, entries)
	}
}

// stopLog sees to it that nothing of a log is at risk; true when nothing is.
func (s *Store) stopLog(l *Log) bool {
	if l.state != logServing {
		return false
	}
	if l.writer != nil || l.inGroups > 0 {
		return false
	}
	if l.pending.count > 0 {
		// What waits for a disk that has failed gets one more try: it is stored, or it is
		// rolled back and answered. The clean mark says that no offset is in doubt.
		if l.retryAt > 0 {
			l.retryAt = 0
			s.kick(l)
		}
		s.requestSync(l)
		return false
	}
	// A tail that the journal holds stays there, unless reading it at the next start
	// would take long.
	if l.dirtyBytes >= copyForwardBytesMax && l.retryAt <= s.mono && !s.full {
		s.requestFlush(l, l.index)
		return false
	}
	if l.stateBytes >= stopStateBytesMin && !l.stopState && !s.full {
		l.stopState = true
		s.takeSnapshot(l)
	}
	return !l.stateBusy
}

// stopStateBytesMin is how many bytes of frames behind the last state are worth a
// new one at the stop.
const stopStateBytesMin = 1 << 20
