package segment

import (
	"errors"
	"io/fs"
	"path"

	"github.com/pulsemq/pulsemq/core"
)

// DropLog deletes a partition. Its frames are released without being flushed, its
// files are unlinked on a worker, and done is called when the folder has been
// synced. The caller has made the deletion durable before: after a crash, what is
// left of the partition belongs to an id with a recorded deletion.
func (s *Store) DropLog(l *Log, done func()) {
	core.Assert(l.state != logDropped, "a log is dropped once")
	l.state = logDropped
	l.dropped = done
	l.largeBytes, l.placeSync = 0, false // nothing of it is placed any more
	delete(s.logs, l.id.Partition)
	s.dropping = append(s.dropping, l)
	s.stepDrops()
}

// stepDrops removes logs of which nothing is in flight any more.
func (s *Store) stepDrops() {
	kept := s.dropping[:0]
	for _, l := range s.dropping {
		if !s.dropStep(l) {
			kept = append(kept, l)
		}
	}
	clear(s.dropping[len(kept):])
	s.dropping = kept
}

func (s *Store) dropStep(l *Log) bool {
	if l.writer != nil || l.inGroups > 0 || l.stateBusy && l.chunkWithSnapshot() == nil {
		return false
	}
	for _, g := range l.segments {
		if g.users > 0 || g.readers > 0 || g.indexJob != nil || g.opening {
			return false
		}
		if g.file != 0 && !s.files.close(g) {
			return false
		}
	}
	for l.chunks.len() > 0 {
		c := l.chunks.popFirst()
		s.chunkFree(c)
	}
	s.releaseTail(l)
	l.chunks, l.pending, l.segments = chunkDeque{}, pendingRing{}, nil
	s.submitSmall(&folderRemove{store: s, dir: l.id.dir(), done: l.dropped})
	return true
}

func (l *Log) chunkWithSnapshot() *chunk {
	for i := range l.chunks.len() {
		if c := l.chunks.at(i); c.snapshot != nil {
			return c
		}
	}
	return nil
}

// folderRemove is the job that removes a partition's folder.
type folderRemove struct {
	store *Store
	dir   string
	done  func()
	err   error
}

// Run removes and syncs. The topic's folder goes with its last partition.
func (j *folderRemove) Run() {
	files := j.store.ports.FS
	if j.err = files.RemoveAll(j.dir); j.err != nil {
		return
	}
	topic := path.Dir(j.dir)
	if err := files.SyncDir(topic); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			j.err = err
		}
		return
	}
	if left, err := files.List(topic); err == nil && len(left) == 0 {
		if files.Remove(topic) == nil {
			j.err = files.SyncDir(TopicsDir)
		}
	}
}

// Done tells that the files are gone.
func (j *folderRemove) Done() {
	if j.err != nil {
		j.store.log.Warn("a deleted partition's folder could not be removed; the next start tries again", "folder", j.dir, "error", j.err)
	}
	if j.done != nil {
		j.done()
	}
}
