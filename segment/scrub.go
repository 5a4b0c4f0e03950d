package segment

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// Scrub is the worker job that reads a stretch of a sealed segment again, so that
// a disk that forgets is found out while there is still another copy. It reads
// at most about BytesMax and says where the next stretch begins; how often
// stretches run is the budget's business.
type Scrub struct {
	Files  core.FS
	Path   string
	Header FileHeader // of the segment
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
}

// Run reads the stretch.
func (j *Scrub) Run() {
	f, err := j.Files.OpenRead(j.Path)
	if err != nil {
		j.Err, j.Finished = fmt.Errorf("scrub: %w", err), true
		return
	}
	defer f.Close()
	size, err := f.Size()
	var s Scanner
	if err == nil {
		err = s.Open(f, min(size, alignUp(j.End.Position)), &j.Header)
	}
	if err != nil {
		j.Err, j.Finished = fmt.Errorf("scrub %s: %w", j.Path, err), true
		return
	}
	j.Next = SealedPoint{Segment: j.Header.Segment, Position: FileHeaderBytes, Index: j.Header.BaseIndex - 1, NextOffset: j.Header.BaseOffset}
	if j.From.Position > 0 {
		j.Next = j.From
		s.Seek(j.From)
	}
	start := j.Next.Position
	for s.Next() {
		j.Next.Position = s.Position + FrameHeaderBytes + int64(s.Frame.Bytes)
		if frameIndexed(s.Frame.Kind) {
			j.Next.Index, j.Next.NextOffset = s.Frame.Index, s.Frame.Next()
		}
		// A hole is left open until a frame behind it says what is missing.
		if j.BytesRead = j.Next.Position - start; j.BytesRead >= j.BytesMax && !s.holeOpen {
			j.Holes = s.Holes
			return
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
}

// Done hands the outcome to the owner.
func (j *Scrub) Done() { j.Ended(j) }

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
		elapsed := min(max(monotonic-b.last, 0), 1e9)
		b.saved = min(b.saved+elapsed*b.BytesPerSecond/1e9, max(b.BytesPerSecond, b.StretchBytes))
	}
	b.last = monotonic
	if b.saved < b.StretchBytes {
		return 0
	}
	return b.StretchBytes
}

// Spend takes what a stretch read from the budget, which may go below zero.
func (b *ScrubBudget) Spend(n int64) { b.saved -= n }
