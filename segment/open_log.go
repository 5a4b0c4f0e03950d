package segment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

// LogRequest asks for the log of an existing partition, and holds it or why it cannot be served.
type LogRequest struct {
	Identity LogIdentity
	Options  LogOptions
	Owner    LogOwner

	Log *Log
	Err error

	recovery *recovery
	tries    int
}

// OpenLog recovers the log of an existing partition, or makes an empty one. It
// blocks and must be called before Start. An error means that this partition
// cannot be served; others are not concerned.
func (s *Store) OpenLog(id LogIdentity, o LogOptions, owner LogOwner) (*Log, error) {
	q := []LogRequest{{Identity: id, Options: o, Owner: owner}}
	s.OpenLogs(q)
	return q[0].Log, q[0].Err
}

// OpenLogs is OpenLog for several partitions, whose files are read, and then synced,
// together: a start of thousands would otherwise wait for as many, one after the other.
func (s *Store) OpenLogs(list []LogRequest) {
	core.Assert(!s.started, "logs are opened before the store starts")
	for i := range list {
		s.openBegin(&list[i])
	}
	s.options.Together(len(list), func(i int) { list[i].recovery.look() })
	for i := range list {
		s.openRead(&list[i])
	}
	errs := s.syncFiles(list)
	for i := range list {
		q := &list[i]
		if q.recovery == nil {
			continue
		}
		err := error(nil)
		for name := range q.recovery.unsynced {
			err = errors.Join(err, errs[name])
		}
		s.openRest(q, err)
	}
}

// openBegin makes a log whose files have not been looked at.
func (s *Store) openBegin(q *LogRequest) {
	id := q.Identity.Partition
	core.Assert(s.logs[id] == nil, "a log is opened once")
	found := s.replay.partitions[id]
	if found == nil {
		found = &replayed{}
		s.replay.partitions[id] = found
	}
	q.tries++
	q.recovery = &recovery{store: s, log: s.newLog(q.Identity, q.Options, q.Owner), found: found,
		tail: make(map[*segment]bool), scanned: make(map[*segment]int64), unsynced: make(map[string]bool)}
}

// openRead recovers a log, whose files have been looked at, up to where what was accepted
// has to be synced.
func (s *Store) openRead(q *LogRequest) {
	for {
		err := q.recovery.judge()
		if err == nil || !s.openAgain(q, err) {
			return
		}
		s.openBegin(q)
		q.recovery.look()
	}
}

// openRest goes on behind the sync, with its error.
func (s *Store) openRest(q *LogRequest, err error) {
	for {
		if err == nil {
			err = q.recovery.rest()
		}
		if err == nil {
			q.Log = q.recovery.log
			q.recovery.found.opened, q.recovery.found.frames = true, nil
			q.recovery = nil
			s.settleHeld(q.Log)
			return
		}
		if !s.openAgain(q, err) {
			return
		}
		s.openBegin(q)
		q.recovery.look()
		if s.openRead(q); q.recovery == nil {
			return
		}
		err = nil
		for _, name := range slices.Sorted(maps.Keys(q.recovery.unsynced)) {
			err = errors.Join(err, s.syncFile(name))
		}
	}
}

// openAgain gives back what a log has taken that could not be opened, and says whether
// it is tried again. Otherwise the log is refused.
func (s *Store) openAgain(q *LogRequest, err error) bool {
	s.forgetLog(q.recovery.log)
	found := q.recovery.found
	q.recovery = nil
	if q.tries == openTriesMax || !errors.Is(err, syscall.EIO) {
		found.refused = true
		s.refused = append(s.refused, &q.Identity)
		q.Err = fmt.Errorf("%s: %w", q.Identity, err)
		return false
	}
	s.log.Warn("a partition is opened once more: the disk failed", "partition", q.Identity.String(), "error", err)
	return true
}

// openTriesMax is how often a start tries to open a log when the disk fails. An error
// that passes costs nothing then; what stays fails again at once.
const openTriesMax = 3

// forgetLog gives back what a log that could not be opened has taken.
func (s *Store) forgetLog(l *Log) {
	delete(s.logs, l.id.Partition)
	s.scrubber.ids = slices.DeleteFunc(s.scrubber.ids, func(id core.PartitionID) bool { return id == l.id.Partition })
	for l.chunks.len() > 0 {
		s.chunkFree(l.chunks.popFirst())
	}
	s.releaseTail(l)
}

// look reads what the log's files hold. It runs beside that of other logs, on another
// thread than the shard's: of the store it changes nothing.
func (r *recovery) look() {
	r.err = func() error {
		if err := r.store.takeHeld(&r.log.id, r.found); err != nil {
			return err
		}
		if r.found.unknown != nil {
			return r.found.unknown
		}
		return inTurn(r.listSegments, r.findState, r.scanSegments)
	}()
}

// judge finds out what of that the log is.
func (r *recovery) judge() error {
	if r.err != nil {
		return r.err
	}
	return inTurn(r.restore, r.merge, r.handOn, r.endSegments)
}

// rest needs what was read to be synced: it may write behind it, and count it as durable.
func (r *recovery) rest() error { return inTurn(r.loadTail, r.placeHeld, r.finish) }

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// syncFiles makes the files durable from which something was accepted, together.
func (s *Store) syncFiles(list []LogRequest) map[string]error {
	var names []string
	for i := range list {
		if r := list[i].recovery; r != nil {
			names = append(names, slices.Sorted(maps.Keys(r.unsynced))...)
		}
	}
	errs := make([]error, len(names))
	s.options.Together(len(names), func(i int) { errs[i] = s.syncFile(names[i]) })
	byName := make(map[string]error, len(names))
	for i, name := range names {
		byName[name] = errs[i]
	}
	return byName
}

func (s *Store) syncFile(name string) error {
	f, err := s.ports.FS.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
