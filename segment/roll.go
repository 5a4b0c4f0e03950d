package segment

import (
	"errors"
	"io/fs"

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
	s.submitSmall(&segmentSave{store: s, segment: g, header: g.header, stem: g.stem(), end: g.position, index: g.index, whole: g.indexFrom <= FileHeaderBytes && g.index != nil && !g.indexPieced})
	g.allocated = g.position
}

// segmentSave is the job that settles the files of an ended segment.
type segmentSave struct {
	store   *Store
	segment *segment
	header  FileHeader
	stem    string
	end     int64
	index   *Index // not changed any more
	whole   bool
	err     error
}

// Run does the work on a worker. A failure costs room or a rebuild, nothing else.
func (j *segmentSave) Run() {
	files := j.store.ports.FS
	if j.whole {
		j.err = SaveIndex(files, j.stem+IndexExtension, &j.header, j.index)
	}
	f, err := files.Open(j.stem + LogExtension)
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
		j.store.log.Warn("the files of an ended segment could not be settled", "segment", j.stem, "error", j.err)
	}
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
	s.submitSmall(&fileRemove{store: s, names: []string{stem + StateExtension, stem + IndexExtension, stem + LogExtension}, dir: g.dir()})
}

// removeSegmentNow is removeSegment at start-up.
func (s *Store) removeSegmentNow(g *segment) error {
	r := fileRemove{store: s, names: []string{g.stem() + StateExtension, g.stem() + IndexExtension, g.stem() + LogExtension}, dir: g.dir()}
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
