package segment

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// lookupRecordBytesMax bounds what one batch may decompress to in a look-up or a
// compaction. A batch that would be larger is not opened.
const lookupRecordBytesMax = 64 << 20

// TimeHit is the answer of a look-up by time.
type TimeHit struct {
	Offset    core.Offset
	Timestamp int64
	Epoch     core.LeaderEpoch // of the record's batch
	// Inexact says that the batch could not be opened (damaged records, or more than
	// the limit): Offset is its first one, so a reader sees too much, never too little.
	Inexact bool
}

// TimeQuery is what a look-up asks for.
type TimeQuery struct {
	// Timestamp asks for the first record, by offset, with at least this timestamp.
	// With Max the record with the greatest timestamp is asked for, and of several
	// the one with the lowest offset, as Kafka answers.
	Timestamp int64
	Max       bool
	// Only records of [First, Limit) count: from the log start to what readers may see.
	First, Limit core.Offset
}

// TimeSource is a part of a log to look through, in order of offsets: either a
// copy of whole record batches, or a place in a segment file.
type TimeSource struct {
	// Batches are copies from memory that the job owns.
	Batches []byte
	// Path names a segment file, to be read from a place where a frame begins up to
	// End (0: the file's end). Header is that of the file.
	Path   string
	Header FileHeader
	From   SealedPoint
	End    int64
	// Past is the first index that does not count in the file; 0 is none.
	Past core.Index
}

// TimeLookup is the worker job of a look-up by time.
type TimeLookup struct {
	Files   core.FS
	Query   TimeQuery
	Sources []TimeSource
	// Ended is called on the shard with Found, Hit and Err set.
	Ended func(*TimeLookup)

	Found bool
	Hit   TimeHit
	Err   error

	finder timeFinder
}

// Run looks through the sources.
func (l *TimeLookup) Run() {
	l.finder.reset(l.Query)
	var s Scanner
	for i := range l.Sources {
		source := &l.Sources[i]
		if source.Path == "" {
			l.finder.batches(source.Batches)
		} else if l.Err = l.file(&s, source); l.Err != nil {
			return
		}
		if l.finder.done {
			break
		}
	}
	l.Found, l.Hit = l.finder.found, l.finder.hit
}

// Done hands the outcome to the owner.
func (l *TimeLookup) Done() { l.Ended(l) }

func (l *TimeLookup) file(s *Scanner, source *TimeSource) error {
	f, err := l.Files.OpenRead(source.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if source.End > 0 {
		size = min(size, source.End)
	}
	if err := s.Open(f, size, &source.Header); err != nil {
		return err
	}
	s.Past = source.Past
	if source.From.Position > 0 {
		s.Seek(source.From)
	}
	for !l.finder.done && s.Next() {
		if s.Frame.Kind == FrameData {
			l.finder.batches(s.Payload)
		}
	}
	return s.Err()
}

// FindTime looks through batches that lie in memory. It decompresses, so it is
// for workers and small tails.
func FindTime(batches []byte, q TimeQuery) (TimeHit, bool) {
	var f timeFinder
	f.reset(q)
	f.batches(batches)
	return f.hit, f.found
}

type timeFinder struct {
	query TimeQuery
	hit   TimeHit
	found bool
	done  bool // nothing that follows can change the answer
	it    proto.RecordIterator
}

func (f *timeFinder) reset(q TimeQuery) { f.query, f.found, f.done = q, false, false }

func (f *timeFinder) batches(b []byte) {
	for len(b) > 0 && !f.done {
		batch, rest, err := proto.NextBatch(b)
		if err != nil {
			return // damaged: the frame's checksum was good, so it was stored like this
		}
		f.batch(batch)
		b = rest
	}
}

// batch opens a batch only when its header says that the answer may be inside.
func (f *timeFinder) batch(b proto.Batch) {
	q := &f.query
	if core.Offset(b.BaseOffset()) >= q.Limit {
		f.done = true
		return
	}
	if b.Count() == 0 || core.Offset(b.NextOffset()) <= q.First {
		return
	}
	if q.Max && f.found && b.MaxTimestamp() <= f.hit.Timestamp || !q.Max && b.MaxTimestamp() < q.Timestamp {
		return
	}
	err := f.it.Reset(b, lookupRecordBytesMax)
	for err == nil && f.it.Next() {
		r := f.it.Record()
		if offset := core.Offset(r.Offset); offset < q.First {
			continue
		} else if offset >= q.Limit {
			f.done = true
			return
		}
		switch {
		case q.Max && (!f.found || r.Timestamp > f.hit.Timestamp):
			f.take(b, core.Offset(r.Offset), r.Timestamp, false)
		case !q.Max && r.Timestamp >= q.Timestamp:
			f.take(b, core.Offset(r.Offset), r.Timestamp, false)
			f.done = true
			return
		}
	}
	if err == nil {
		err = f.it.Err()
	}
	if err != nil && !(q.Max && f.found && f.hit.Timestamp >= b.MaxTimestamp()) {
		f.take(b, max(core.Offset(b.BaseOffset()), q.First), b.MaxTimestamp(), true)
		f.done = !q.Max
	}
}

func (f *timeFinder) take(b proto.Batch, offset core.Offset, timestamp int64, inexact bool) {
	f.found = true
	f.hit = TimeHit{Offset: offset, Timestamp: timestamp, Epoch: core.LeaderEpoch(b.LeaderEpoch()), Inexact: inexact}
}
