package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Scrub is the worker job that reads a stretch of a sealed segment again, so that
// a disk that forgets is found out while there is still another copy: every frame,
// the checksum of every batch in it, and with the last stretch the segment's index
// and state. It reads at most about BytesMax and says where the next stretch
// begins; how often stretches run is the budget's business.
type Scrub struct {
	Files  core.FS
	Path   string
	Header FileHeader // of the segment
	// Indexed says that the segment has ended, so that its index file should stand for it.
	Indexed bool
	// Anchors are where frames begin, of a segment without an index file; may be empty.
	Anchors []int64
	// From is where to begin: the zero value is the first frame. End is the segment's sealed end.
	From, End SealedPoint
	BytesMax  int64
	// Ended is called on the shard.
	Ended func(*Scrub)

	// Holes are the places that are damaged; below a sealed end every hole is.
	Holes []Hole
	// Next is where the next stretch begins; Finished says that there is none.
	Next     SealedPoint
	Finished bool
	// BytesRead is what the stretch took from the budget.
	BytesRead int64
	// Err says that the file cannot be read as a segment at all: it is missing, its
	// header is bad, or it belongs elsewhere.
	Err error
	// HeaderErr says what was wrong with the segment's header; HeaderMended that it was
	// written again.
	HeaderErr    error
	HeaderMended bool
	// IndexErr and StateErr say what is wrong with the index and the state beside the
	// segment; that there is none is not wrong.
	IndexErr, StateErr error

	scanner Scanner // kept with its window for the next stretch
}

// Run reads the stretch.
func (j *Scrub) Run() {
	j.readFrames()
	if j.Finished && j.Err == nil {
		j.readBeside()
	}
}

// uncached is a file that can be read past the system's cache. What the cache
// still holds says nothing about the disk.
type uncached interface {
	// Uncache drops a range from the cache.
	Uncache(offset, length int64)
}

// readBeside checks the files that were made from the segment.
func (j *Scrub) readBeside() {
	stem := strings.TrimSuffix(j.Path, LogExtension)
	if j.Indexed {
		_, err := LoadIndex(j.Files, stem+IndexExtension, &j.Header, j.End)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrIndexStale) {
			j.IndexErr = err
		}
	}
	owner := j.Header
	if _, err := loadState(j.Files, stem+StateExtension, &owner, j.Header.BaseOffset); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.StateErr = err
	}
}

// readFrames walks the frames of the stretch.
func (j *Scrub) readFrames() {
	f, err := j.Files.OpenRead(j.Path)
	if err != nil {
		j.Err, j.Finished = fmt.Errorf("scrub: %w", err), true
		return
	}
	defer f.Close()
	size, err := f.Size()
	s := &j.scanner
	if err == nil {
		err = s.Open(f, min(size, alignUp(j.End.Position)), &j.Header)
	}
	if errors.Is(err, ErrFileHeader) {
		// Its frames are as good as they were, and the store knows what stood there.
		j.HeaderErr = err
		j.HeaderMended = j.mendHeader() == nil
		s.OpenAs(f, min(size, alignUp(j.End.Position)), &j.Header)
	} else if err != nil {
		j.Err, j.Finished = fmt.Errorf("scrub %s: %w", j.Path, err), true
		return
	}
	j.Next = SealedPoint{Segment: j.Header.Segment, Position: FileHeaderBytes, Index: j.Header.BaseIndex - 1, NextOffset: j.Header.BaseOffset}
	if j.From.Position > 0 {
		j.Next = j.From
		s.Seek(j.From)
	}
	from := j.Next
	s.Past = j.End.Index + 1
	if !j.walk(f, s) || len(j.Holes) == 0 {
		return
	}
	// What a bad frame header costs ends at the next write mark, or sooner where the
	// index says that a frame begins: reads begin there, too.
	var again Scanner
	if anchors := j.anchors(); len(anchors) > 0 {
		again.OpenAs(f, s.window.size, &j.Header)
		read := j.BytesRead
		j.Next, j.Holes, j.Finished = from, nil, false
		again.Seek(from)
		again.Anchors, again.Past = anchors, s.Past
		j.walk(f, &again)
		j.BytesRead += read
	}
}

// mendHeader writes the segment's header again, as a start would.
func (j *Scrub) mendHeader() error {
	f, err := j.Files.Open(j.Path)
	if err != nil {
		return err
	}
	b := make([]byte, FileHeaderBytes)
	j.Header.Put(b)
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// anchors are where frames of the segment begin, by its index.
func (j *Scrub) anchors() []int64 {
	if !j.Indexed {
		return j.Anchors
	}
	var anchors []int64
	if x, err := LoadIndex(j.Files, strings.TrimSuffix(j.Path, LogExtension)+IndexExtension, &j.Header, j.End); err == nil {
		for i := range x.Entries {
			anchors = append(anchors, x.Entries[i].Position)
		}
	}
	return anchors
}

// walk reads frames from j.Next on. True: the stretch was read, to its end or that
// of the segment.
func (j *Scrub) walk(f core.File, s *Scanner) bool {
	start := j.Next.Position
	if u, ok := f.(uncached); ok {
		u.Uncache(start, j.BytesMax+scanWindowBytes)
		defer func() { u.Uncache(start, j.BytesRead+scanWindowBytes) }()
	}
	var batches []Hole
	defer func() { j.Holes = append(j.Holes, batches...) }()
	for s.Next() {
		batches = appendBadBatches(batches, s)
		j.Next.Position = s.Position + FrameHeaderBytes + int64(s.Frame.Bytes)
		if frameIndexed(s.Frame.Kind) {
			j.Next.Index, j.Next.NextOffset = s.Frame.Index, s.Frame.Next()
		}
		// A hole is left open until a frame behind it says what is missing.
		if j.BytesRead = j.Next.Position - start; j.BytesRead >= j.BytesMax && !s.holeOpen {
			j.Holes = s.Holes
			return true
		}
	}
	j.Finished = true
	j.BytesRead = max(j.BytesRead, alignUp(j.End.Position)-start)
	j.Holes = s.Holes
	switch {
	case s.Err() != nil && errors.Is(s.Err(), ErrFrameUnknown):
		j.Err = fmt.Errorf("scrub %s: %w", j.Path, s.Err())
	case j.Next.Index < j.End.Index || s.Torn && s.Tail.Start < alignUp(j.Next.Position):
		// Nothing valid stands behind it, but the segment was sealed further on, or it
		// is the padding of the last write. Bytes behind that are what a failed write
		// left: the segment was ended before them.
		h := s.Tail
		if !s.Torn {
			h = Hole{Start: alignUp(j.Next.Position), End: alignUp(j.End.Position), Cause: ErrWriteMissing, IndexFirst: j.Next.Index + 1, OffsetFirst: j.Next.NextOffset}
			if s.Err() != nil {
				h.Cause = s.Err()
			}
		}
		h.End = max(h.End, h.Start)
		h.IndexNext, h.OffsetNext = max(j.End.Index+1, h.IndexFirst), max(j.End.NextOffset, h.OffsetFirst)
		j.Holes = append(j.Holes, h)
	}
	return j.Err == nil
}

// Done hands the outcome to the owner.
func (j *Scrub) Done() { j.Ended(j) }

// appendBadBatches checks the producers' own checksums inside a frame that is as it
// was written: what was wrong before it got its frame is found only by them.
func appendBadBatches(holes []Hole, s *Scanner) []Hole {
	if s.Frame.Kind != FrameData {
		return holes
	}
	hole := func(at int, base, next core.Offset, err error) {
		start := s.Position + FrameHeaderBytes + int64(at)
		holes = append(holes, Hole{Start: start, End: s.Position + FrameHeaderBytes + int64(s.Frame.Bytes), Cause: err,
			IndexFirst: s.Frame.Index, IndexNext: s.Frame.Index + 1, OffsetFirst: base, OffsetNext: next})
	}
	last := s.Frame.BaseOffset
	if err := eachBatch(s.Payload, func(at int, b proto.Batch) error {
		last = core.Offset(b.NextOffset())
		if err := b.ValidateCRC(); err != nil {
			hole(at, core.Offset(b.BaseOffset()), last, err)
		}
		return nil
	}); err != nil {
		hole(0, last, s.Frame.Next(), err)
	}
	return holes
}

// ScrubBudget spreads scrubbing evenly over time: so many bytes per second, and
// never more saved up than one second's worth or one stretch.
type ScrubBudget struct {
	BytesPerSecond int64
	StretchBytes   int64

	saved int64
	last  int64 // monotonic nanoseconds of the last call; 0 none
}

// Take says how many bytes the next stretch may read now: StretchBytes, or 0 for
// not yet. What a stretch really read is given to Spend.
func (b *ScrubBudget) Take(monotonic int64) int64 {
	if b.last != 0 {
		elapsed := float64(min(max(monotonic-b.last, 0), 1e9)) / 1e9
		b.saved = min(b.saved+int64(elapsed*float64(b.BytesPerSecond)), max(b.BytesPerSecond, b.StretchBytes))
	}
	b.last = monotonic
	if b.saved < b.StretchBytes {
		return 0
	}
	return b.StretchBytes
}

// Spend takes what a stretch read from the budget, which may go below zero.
func (b *ScrubBudget) Spend(n int64) { b.saved -= n }
