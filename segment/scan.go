package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// scanWindowBytes is how much a scanner reads at a time.
	scanWindowBytes = 1 << 20

	// framePayloadBytesMax bounds a frame's payload: a frame leaves from one slab.
	framePayloadBytesMax = core.SlabBytesMax

	// scanUnreadableMax is after how many unreadable blocks a scan gives up: each
	// may take the device's own time-out.
	scanUnreadableMax = 256
)

var (
	// ErrFileForeign reports a file of another data folder, partition or segment.
	ErrFileForeign = errors.New("file belongs elsewhere")
	// ErrFrameForeign reports a valid frame of another partition inside a segment.
	ErrFrameForeign = errors.New("frame: belongs to another partition")
	// ErrFrameBytes reports a header that claims more bytes than any frame has.
	ErrFrameBytes = errors.New("frame: longer than any frame may be")
	// ErrPadding reports bytes that are not zero between a write's end and the next 4 KiB boundary.
	ErrPadding = errors.New("padding is not zero")
	// ErrWriteMissing reports zeros where a write is missing, with a later one in place.
	ErrWriteMissing = errors.New("zeros where a write is missing")
	// ErrUnreadable reports a block that the device did not give.
	ErrUnreadable = errors.New("block cannot be read")
)

// Hole is a place of a segment that holds no valid frame although something
// was, or should have been, written there.
type Hole struct {
	Start, End int64 // positions in the file, [Start, End)
	Cause      error // why the first bytes of the hole were refused

	// [IndexFirst, IndexNext) and [OffsetFirst, OffsetNext) are the frames and
	// offsets that stood there, told by the frames around it. Both are empty when
	// only a mark or padding is hurt. In a Tail, IndexNext and OffsetNext are what the hole's own
	// readable headers tell: a lower bound.
	IndexFirst, IndexNext   core.Index
	OffsetFirst, OffsetNext core.Offset
}

func (h Hole) String() string {
	return fmt.Sprintf("positions [%d, %d): %v; indexes [%d, %d), offsets [%d, %d)",
		h.Start, h.End, h.Cause, h.IndexFirst, h.IndexNext, h.OffsetFirst, h.OffsetNext)
}

// Scanner walks the frames of one segment file from a position to its end. It
// reports what is there and what is not; which hole is damage and which is a
// torn tail is for recovery to say, because that takes the durable index over
// all files of the partition.
//
//	for sc.Next() { use sc.Frame, sc.Payload, sc.Position }
//	if sc.Err() != nil { ... }
//
// A scanner may be opened again for the next file and keeps its window.
type Scanner struct {
	// Header is the file's.
	Header FileHeader

	// Frame, Payload and Position describe the frame found by the last Next.
	// Payload is a view into the scanner's window, good until the next call.
	Frame    FrameHeader
	Payload  []byte
	Position int64

	// Holes are those with a valid frame behind them, in order.
	Holes []Hole

	// End is the 4 KiB boundary behind the last valid frame; good after Next returned false.
	End int64

	// Torn says that behind End there are bytes other than zeros, and Tail describes
	// them. A tail whose Cause is ErrUnreadable must not be cut: nobody knows what it holds.
	Torn bool
	Tail Hole

	// Durable is the highest index that a write mark called durable.
	Durable core.Index

	// Anchors are positions, ascending, at which frames are known to begin: those of a
	// verified index. Open forgets them.
	Anchors []int64

	// Past is the first index that does not count in the file, where the scan ends; 0 is none.
	Past core.Index

	window   scanWindow
	err      error
	at       int64       // next position to look at
	index    core.Index  // of the last frame accepted
	next     core.Offset // after it
	indexed  bool        // index and next are known
	hole     Hole        // open while holeOpen; its End is -1 until something valid follows
	holeOpen bool
	done     bool
}

// Open begins a scan behind the file header. want, if not nil, says what the file
// must be: incarnation, topic, partition, number and segment are compared.
func (s *Scanner) Open(r io.ReaderAt, size int64, want *FileHeader) error {
	s.reset(r, size)
	s.window.sparse() // often a scan goes on far behind the header
	b := s.window.view(0, FileHeaderBytes)
	h, err := ParseFileHeader(b)
	if err != nil {
		return s.fail(err)
	}
	if h.Kind != FileSegment {
		return s.fail(fmt.Errorf("%w: kind %d where a segment (%d) is expected", ErrFileForeign, h.Kind, FileSegment))
	}
	if want != nil {
		if err := checkOwner(&h, want); err != nil {
			return s.fail(err)
		}
	}
	s.begin(&h)
	return nil
}

// OpenAs begins a scan of a file whose own header is damaged and known from elsewhere.
func (s *Scanner) OpenAs(r io.ReaderAt, size int64, h *FileHeader) {
	s.reset(r, size)
	s.begin(h)
}

func (s *Scanner) begin(h *FileHeader) {
	s.Header = *h
	s.at, s.End = FileHeaderBytes, FileHeaderBytes
	if h.BaseIndex > 0 {
		s.index, s.next, s.indexed = h.BaseIndex-1, h.BaseOffset, true
	}
}

// Seek continues the scan at a sealed point of this segment, or at another
// place where a frame or a write is known to begin.
func (s *Scanner) Seek(p SealedPoint) {
	core.Assert(p.Position >= FileHeaderBytes, "a scan starts behind the file header")
	s.at = p.Position
	s.End = alignUp(p.Position)
	s.index, s.next, s.indexed = p.Index, p.NextOffset, true
	s.holeOpen, s.done = false, false
}

func (s *Scanner) reset(r io.ReaderAt, size int64) {
	w := s.window
	w.reset(r, size)
	*s = Scanner{window: w, Holes: s.Holes[:0]}
}

func (s *Scanner) fail(err error) error {
	s.err, s.done = err, true
	return err
}

// Err is what ended the scan before the end of the file: an unknown frame
// (ErrFrameUnknown), or a device that gives nothing.
func (s *Scanner) Err() error { return s.err }

// Next finds the next valid frame, write marks included.
func (s *Scanner) Next() bool {
	for !s.done {
		switch h, payload, err := s.parse(s.at); {
		case err == nil && s.Past > 0 && frameIndexed(h.Kind) && h.Index >= s.Past:
			s.done = true
		case err == nil:
			s.found(h, payload)
			return true
		case errors.Is(err, ErrFrameUnknown):
			s.fail(fmt.Errorf("%w: version or kind %d, flags %#x, index %d at position %d", ErrFrameUnknown, h.Kind, h.Flags, h.Index, s.at))
		case errors.Is(err, errScanPadding):
			s.at = alignUp(s.at)
		case errors.Is(err, errScanZeros):
			s.resync(ErrWriteMissing, s.at)
		case errors.Is(err, ErrFramePayload):
			// The header is good, so its length is: only this frame is lost, if
			// something that makes sense follows it.
			behind := s.at + FrameHeaderBytes + int64(h.Bytes)
			s.open(err, behind)
			s.hole.IndexNext = max(s.hole.IndexNext, h.Index+1)
			s.hole.OffsetNext = max(s.hole.OffsetNext, h.Next())
			if _, _, e := s.parse(behind); e == nil || errors.Is(e, errScanPadding) || errors.Is(e, ErrFramePayload) || errors.Is(e, ErrFrameUnknown) {
				s.at = behind
			} else {
				s.resync(err, s.at)
			}
		case s.markLost():
			s.open(err, s.at+FrameHeaderBytes)
			s.at += FrameHeaderBytes
		default:
			s.resync(err, s.at)
		}
		if s.window.unreadable > scanUnreadableMax {
			s.fail(fmt.Errorf("%w: more than %d blocks, last: %w", ErrUnreadable, scanUnreadableMax, s.window.err))
		}
	}
	return false
}

var (
	errScanPadding = errors.New("zeros up to the boundary")
	errScanZeros   = errors.New("a block of zeros, or the end")
)

// parse looks at one position. Besides the frame errors it tells padding within
// a block (errScanPadding) from a block that starts with zeros (errScanZeros).
func (s *Scanner) parse(at int64) (FrameHeader, []byte, error) {
	if at >= s.window.size {
		return FrameHeader{}, nil, errScanZeros
	}
	rest := s.window.view(at, int(alignUp(at+1)-at)) // up to the end of the block
	if allZero(rest) {
		if at%core.DiskAlignment == 0 {
			return FrameHeader{}, nil, errScanZeros
		}
		return FrameHeader{}, nil, errScanPadding
	}
	h, err := ParseFrameHeader(s.window.view(at, FrameHeaderBytes))
	if err == nil || errors.Is(err, ErrFrameUnknown) {
		if h.Partition != s.Header.Partition {
			return h, nil, ErrFrameForeign
		}
	}
	if err != nil {
		if errors.Is(err, ErrFrameMagic) && at%core.DiskAlignment != 0 && allZero(rest[:min(4, len(rest))]) {
			err = ErrPadding
		}
		return h, nil, err
	}
	if h.Kind == FrameWriteMark {
		return h, nil, checkMark(&h, s.Header.Salt, at)
	}
	if h.Bytes > framePayloadBytesMax {
		return h, nil, ErrFrameBytes
	}
	payload := s.window.view(at+FrameHeaderBytes, int(h.Bytes))
	if len(payload) < int(h.Bytes) || crc32.Checksum(payload, castagnoli) != h.PayloadCRC {
		return h, nil, ErrFramePayload
	}
	return h, payload, nil
}

// markLost says that at a boundary only the mark is hurt: the frame that
// follows it is good and is the next one.
func (s *Scanner) markLost() bool {
	if s.at%core.DiskAlignment != 0 || !s.indexed {
		return false
	}
	h, _, err := s.parse(s.at + FrameHeaderBytes)
	return err == nil && frameIndexed(h.Kind) && h.Index == s.index+1
}

// found accepts the frame at s.at.
func (s *Scanner) found(h FrameHeader, payload []byte) {
	s.Frame, s.Payload, s.Position = h, payload, s.at
	if s.holeOpen && s.hole.End < 0 {
		s.hole.End = s.at
	}
	s.at += FrameHeaderBytes + int64(h.Bytes)
	s.End = alignUp(s.at)
	if h.Kind == FrameWriteMark {
		s.Durable = max(s.Durable, h.Index)
	}
	if !frameIndexed(h.Kind) {
		return
	}
	if s.holeOpen {
		s.hole.IndexNext = max(h.Index, s.hole.IndexFirst)
		s.hole.OffsetNext = max(h.BaseOffset, s.hole.OffsetFirst)
		s.Holes = append(s.Holes, s.hole)
		s.holeOpen = false
	}
	s.index, s.next, s.indexed = h.Index, h.Next(), true
}

// open begins a hole at s.at, or widens the one that no frame has closed. What was refused
// reaches up to end.
func (s *Scanner) open(cause error, end int64) {
	if s.holeOpen {
		s.hole.End = -1
		return
	}
	if s.window.isUnreadable(s.at, end) {
		cause = fmt.Errorf("%w: %w", ErrUnreadable, s.window.err)
	}
	s.holeOpen = true
	s.hole = Hole{Start: s.at, End: -1, Cause: cause, IndexFirst: s.index + 1, OffsetFirst: s.next}
	s.hole.IndexNext, s.hole.OffsetNext = s.hole.IndexFirst, s.hole.OffsetFirst
}

// resync looks for the next write mark of this file behind a place that makes
// no sense, at any position: long writes may carry marks inside, too. A frame at an
// anchor does as well. Without one of them the scan is over.
func (s *Scanner) resync(cause error, from int64) {
	dirty := cause != ErrWriteMissing
	anchor := s.anchor(from)
	for at := from + 1; at < s.window.size; {
		// Chunks overlap by all but one byte of a header, so that none falls between two.
		b := s.window.view(at, int(alignUp(at+resyncBytes+FrameHeaderBytes-1)-at))
		if anchor >= 0 && anchor < at+resyncBytes {
			if i := s.sealedMark(b, at); i < 0 || at+int64(i) > anchor {
				s.open(cause, s.at+FrameHeaderBytes)
				s.at = anchor
				return
			}
		}
		if allZero(b) {
			// It goes on at a block that has not been read: one that was counts as written.
			if at += int64(len(b)); anchor < 0 {
				at, _ = s.window.extent(at)
			}
			continue
		}
		dirty = true
		if i := s.sealedMark(b, at); i >= 0 {
			s.open(cause, s.at+FrameHeaderBytes)
			s.at = at + int64(i)
			return
		}
		at += resyncBytes
	}
	s.done = true
	if dirty || s.window.badLast >= from&^(core.DiskAlignment-1) {
		s.open(cause, s.at+FrameHeaderBytes)
	}
	if s.holeOpen {
		s.Torn = true
		s.Tail = s.hole
		s.Tail.End = s.window.size
		if s.window.badLast+core.DiskAlignment > s.Tail.Start && s.window.badLast >= 0 && !errors.Is(s.Tail.Cause, ErrUnreadable) {
			s.Tail.Cause = fmt.Errorf("%w: %w", ErrUnreadable, s.window.err)
		}
		s.End = alignUp(s.Tail.Start)
	}
}

// anchor is the first anchor behind a position at which a frame stands that follows
// what has been read; -1: there is none.
func (s *Scanner) anchor(from int64) int64 {
	i, _ := slices.BinarySearch(s.Anchors, from+1)
	for ; i < len(s.Anchors); i++ {
		h, _, err := s.parse(s.Anchors[i])
		if (err == nil || errors.Is(err, ErrFramePayload)) && frameIndexed(h.Kind) && (!s.indexed || h.Index > s.index) {
			return s.Anchors[i]
		}
	}
	return -1
}

// resyncBytes is how much of a file is searched for a mark at a time.
const resyncBytes = 64 << 10

// sealedMark finds this file's first write mark in bytes that stand at a position.
func (s *Scanner) sealedMark(b []byte, position int64) int {
	for from := 0; from+FrameHeaderBytes <= len(b); {
		i := bytes.Index(b[from:], frameMagicBytes)
		if i < 0 || from+i+FrameHeaderBytes > len(b) {
			return -1
		}
		from += i
		h, err := ParseFrameHeader(b[from:])
		if err == nil && h.Kind == FrameWriteMark && h.Partition == s.Header.Partition && checkMark(&h, s.Header.Salt, position+int64(from)) == nil {
			return from
		}
		from++
	}
	return -1
}

var frameMagicBytes = binary.BigEndian.AppendUint32(nil, frameMagic)

// frameIndexed says whether frames of this kind take an index of the partition's
// log, as opposed to those local to a file.
func frameIndexed(k FrameKind) bool {
	return k != FrameWriteMark && k != FrameGeneration && k != FrameCheckpoint
}

// checkOwner compares what a file says of itself with what it is found as.
func checkOwner(got, want *FileHeader) error {
	switch {
	case got.Incarnation != want.Incarnation:
		return fmt.Errorf("%w: incarnation %x, this data folder is %x", ErrFileForeign, got.Incarnation, want.Incarnation)
	case got.Topic != want.Topic:
		return fmt.Errorf("%w: topic %s, expected %s", ErrFileForeign, got.Topic, want.Topic)
	case got.Partition != want.Partition:
		return fmt.Errorf("%w: partition id %d, expected %d", ErrFileForeign, got.Partition, want.Partition)
	case got.Number != want.Number:
		return fmt.Errorf("%w: partition number %d, expected %d", ErrFileForeign, got.Number, want.Number)
	case got.Segment != want.Segment:
		return fmt.Errorf("%w: segment number %d, expected %d", ErrFileForeign, got.Segment, want.Segment)
	}
	return nil
}

func alignUp(n int64) int64 {
	return (n + core.DiskAlignment - 1) &^ (core.DiskAlignment - 1)
}

var zeroBlock [core.DiskAlignment]byte

func allZero(b []byte) bool {
	for len(b) > len(zeroBlock) {
		if !bytes.Equal(b[:len(zeroBlock)], zeroBlock[:]) {
			return false
		}
		b = b[len(zeroBlock):]
	}
	return bytes.Equal(b, zeroBlock[:len(b)])
}
