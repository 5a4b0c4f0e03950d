package segment

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// segmentEnded takes leave of a log's last segment: what is written to it is
// durable. Its index goes to a file, and what was reserved behind its end is
// given back.
func (s *Store) segmentEnded(l *Log, g *segment) {
	s.stats.Rolls++
	l.rollWanted = false
	g.ended, g.indexUsed = true, s.mono
	l.stateBytes = max(l.stateBytes, s.options.StateBytes) // a state stands at each roll
	j := s.newSave()
	j.header, j.path, j.end = g.header, g.path, g.position
	if g.indexFrom <= FileHeaderBytes && g.index != nil && !g.indexPieced {
		j.index, j.indexFresh = g.index, g.stem()+IndexExtension+newSuffix
	}
	s.submitSmall(j)
	g.allocated = g.position
}

// segmentSave is the job that settles the files of an ended segment.
type segmentSave struct {
	store      *Store
	header     FileHeader
	path       string
	end        int64
	index      *Index // not changed any more; nil: not all of it is known
	indexFresh string // the name under which its file is written first
	room       []byte // of that file, kept for the next one
	err        error
}

const (
	// savesSpareMax bounds the jobs that are kept to be used again.
	savesSpareMax = 16
	// saveSpareBytesMax is how much memory a job that is kept may hold: the index of 1 GiB
	// in batches of 256 KiB takes 150 KB.
	saveSpareBytesMax = 256 << 10
)

func (s *Store) newSave() *segmentSave {
	n := len(s.savePool)
	if n == 0 {
		return &segmentSave{store: s}
	}
	j := s.savePool[n-1]
	s.savePool[n-1] = nil
	s.savePool = s.savePool[:n-1]
	return j
}

func (s *Store) saveFree(j *segmentSave) {
	if len(s.savePool) < savesSpareMax && cap(j.room) <= saveSpareBytesMax {
		*j = segmentSave{store: s, room: j.room[:0]}
		s.savePool = append(s.savePool, j)
	}
}

// Run does the work on a worker. A failure costs room or a rebuild, nothing else.
func (j *segmentSave) Run() {
	files := j.store.ports.FS
	if j.index != nil {
		j.room = AppendIndexFile(j.room[:0], &j.header, j.index)
		j.err = saveIndex(files, j.indexFresh, j.room)
	}
	f, err := files.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return // it was removed meanwhile
	}
	if err != nil {
		j.err = errors.Join(j.err, err)
		return
	}
	defer f.Close()
	if err := f.Truncate(j.end); err != nil {
		j.err = errors.Join(j.err, err)
	}
}

// Done logs what went wrong.
func (j *segmentSave) Done() {
	if j.err != nil {
		j.store.log.Warn("the files of an ended segment could not be settled", "segment", strings.TrimSuffix(j.path, LogExtension), "error", j.err)
	}
	j.store.saveFree(j)
}

// submitSmall hands a job to the workers, or keeps it for a later Tick. None may be
// forgotten: each has somebody waiting for its end. What asks for them bounds
// them: a log has one state and one deletion, a segment one save and one removal,
// look-ups are bounded by the requests behind them.
func (s *Store) submitSmall(j core.Job) {
	if len(s.jobs) == 0 && s.ports.Workers.Submit(j) {
		return
	}
	s.jobs = append(s.jobs, j)
}

func (s *Store) submitJobs() {
	n := 0
	for n < len(s.jobs) && s.ports.Workers.Submit(s.jobs[n]) {
		n++
	}
	if n > 0 {
		rest := copy(s.jobs, s.jobs[n:])
		clear(s.jobs[rest:])
		s.jobs = s.jobs[:rest]
	}
}

// removeFile unlinks a file that nothing uses any more.
func (s *Store) removeFile(name string) { s.submitSmall(&fileRemove{store: s, names: []string{name}}) }

// removeSegment takes a segment's files away, once no read uses them.
func (s *Store) removeSegment(g *segment) {
	g.removing = true
	s.segmentUnused(g)
}

// segmentUnused removes a segment that waited for its last reader.
func (s *Store) segmentUnused(g *segment) {
	if !g.removing || g.readers > 0 || g.users > 0 || g.indexJob != nil || g.removed {
		return
	}
	if g.file != 0 && !s.files.close(g) {
		s.kickRemoval = append(s.kickRemoval, g)
		return
	}
	g.removed = true
	g.index = nil
	s.trails.forget(g)
	stem := g.stem()
	s.submitSmall(&fileRemove{store: s, names: []string{g.statePath(), stem + IndexExtension, g.path}, dir: g.dir()})
}

// removeSegmentNow is removeSegment at start-up.
func (s *Store) removeSegmentNow(g *segment) error {
	r := fileRemove{store: s, names: []string{g.statePath(), g.stem() + IndexExtension, g.path}, dir: g.dir()}
	r.Run()
	return r.err
}

// fileRemove is the job that unlinks files and syncs their folder.
type fileRemove struct {
	store *Store
	names []string
	dir   string
	err   error
}

// Run unlinks; a missing file is no failure.
func (j *fileRemove) Run() {
	for _, name := range j.names {
		if err := j.store.ports.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.err = errors.Join(j.err, err)
		}
	}
	if j.dir != "" {
		if err := j.store.ports.FS.SyncDir(j.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.err = errors.Join(j.err, err)
		}
	}
}

// Done logs what went wrong.
func (j *fileRemove) Done() {
	if j.err != nil {
		j.store.log.Warn("files could not be removed", "files", j.names, "error", j.err)
	}
}
