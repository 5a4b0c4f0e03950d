package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// scanned is what one scan gave.
type scanned struct {
	frames []framePlace
	holes  []Hole
	torn   bool
	tail   Hole
	end    int64
	err    error
}

func scanAll(t testing.TB, s *Scanner, r io.ReaderAt, size int64, want *FileHeader, from *SealedPoint) scanned {
	t.Helper()
	var got scanned
	if got.err = s.Open(r, size, want); got.err != nil {
		return got
	}
	if from != nil {
		s.Seek(*from)
	}
	for s.Next() {
		got.frames = append(got.frames, framePlace{s.Position, s.Frame, bytes.Clone(s.Payload)})
	}
	got.holes, got.torn, got.tail, got.end, got.err = append([]Hole(nil), s.Holes...), s.Torn, s.Tail, s.End, s.Err()
	return got
}

func scanBytes(t testing.TB, b []byte, want *FileHeader) scanned {
	return scanAll(t, &Scanner{}, bytes.NewReader(b), int64(len(b)), want, nil)
}

func samePlaces(a, b []framePlace) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d frames, want %d", len(a), len(b))
	}
	for i := range a {
		if a[i].position != b[i].position || a[i].header != b[i].header || !bytes.Equal(a[i].payload, b[i].payload) {
			return fmt.Errorf("frame %d is %+v at %d, want %+v at %d", i, a[i].header, a[i].position, b[i].header, b[i].position)
		}
	}
	return nil
}

func TestScanWalksEveryFrame(t *testing.T) {
	w := smallSegment(t)
	got := scanBytes(t, w.bytes, &w.header)
	if got.err != nil || got.torn || len(got.holes) != 0 {
		t.Fatalf("a clean segment: %+v", got)
	}
	if err := samePlaces(got.frames, w.places); err != nil {
		t.Fatal(err)
	}
	if want := int64(len(w.bytes)) - 2*core.DiskAlignment; got.end != want {
		t.Fatalf("end %d, want %d", got.end, want)
	}
}

func TestScanFromSealedPoint(t *testing.T) {
	w := smallSegment(t)
	third := len(w.places) - 2 // the mark of the third write
	from := SealedPoint{Segment: 4, Position: w.places[third].position, Index: 54, NextOffset: 106}
	got := scanAll(t, &Scanner{}, bytes.NewReader(w.bytes), int64(len(w.bytes)), &w.header, &from)
	if err := samePlaces(got.frames, w.places[third:]); err != nil || got.err != nil || len(got.holes) != 0 {
		t.Fatal(err, got.err, got.holes)
	}
}

func TestScanRefusesForeignFiles(t *testing.T) {
	w := smallSegment(t)
	for name, change := range map[string]func(*FileHeader){
		"incarnation": func(h *FileHeader) { h.Incarnation[3]++ },
		"topic":       func(h *FileHeader) { h.Topic[0]++ },
		"partition":   func(h *FileHeader) { h.Partition++ },
		"number":      func(h *FileHeader) { h.Number++ },
		"segment":     func(h *FileHeader) { h.Segment++ },
	} {
		want := w.header
		change(&want)
		if got := scanBytes(t, w.bytes, &want); !errors.Is(got.err, ErrFileForeign) || len(got.frames) != 0 {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	h := w.header
	h.Kind = FileState
	h.Put(w.bytes)
	if got := scanBytes(t, w.bytes, nil); !errors.Is(got.err, ErrFileForeign) {
		t.Errorf("kind: %v", got.err)
	}
}

// TestScanEveryFlippedByte flips each byte of a segment, one at a time. The flip
// is always reported, only whole original frames come back, and frames of other
// writes are not lost.
func TestScanEveryFlippedByte(t *testing.T) {
	w := smallSegment(t)
	end := int64(len(w.bytes)) - 2*core.DiskAlignment
	s := &Scanner{}
	for at := range w.bytes {
		if at%5 != 0 && at > 2*FileHeaderBytes+400 && at%core.DiskAlignment > 400 && testing.Short() {
			continue
		}
		w.bytes[at] ^= 0x40
		got := scanAll(t, s, bytes.NewReader(w.bytes), int64(len(w.bytes)), &w.header, nil)
		w.bytes[at] ^= 0x40
		if at < FileHeaderBytes {
			if got.err == nil {
				t.Fatalf("byte %d of the file header flipped: not seen", at)
			}
			continue
		}
		if got.err != nil {
			t.Fatalf("byte %d: %v", at, got.err)
		}
		if len(got.holes) == 0 && !got.torn {
			t.Fatalf("byte %d flipped: not seen", at)
		}
		hole := got.tail
		if len(got.holes) > 0 {
			hole = got.holes[0]
		}
		if int64(at) < hole.Start || int64(at) >= hole.End {
			t.Fatalf("byte %d flipped, reported %v", at, hole)
		}
		seen := map[int64]bool{}
		for _, f := range got.frames {
			seen[f.position] = true
		}
		for _, p := range w.places {
			inside := p.position >= hole.Start && p.position < hole.End
			if seen[p.position] == inside {
				t.Fatalf("byte %d flipped, hole %v: frame at %d seen: %v", at, hole, p.position, seen[p.position])
			}
			if inside && frameIndexed(p.header.Kind) && int64(at) < end && len(got.holes) > 0 &&
				(p.header.Index < hole.IndexFirst || p.header.Index >= hole.IndexNext ||
					p.header.BaseOffset < hole.OffsetFirst || p.header.Next() > hole.OffsetNext) {
				t.Fatalf("byte %d flipped, hole %v does not name frame %d", at, hole, p.header.Index)
			}
		}
	}
}

// TestScanEveryTruncation cuts the file after each byte: all frames that end
// before the cut come back, nothing else does.
func TestScanEveryTruncation(t *testing.T) {
	w := smallSegment(t)
	s := &Scanner{}
	for size := range w.bytes {
		got := scanAll(t, s, bytes.NewReader(w.bytes[:size]), int64(size), &w.header, nil)
		if size < FileHeaderBytes {
			if !errors.Is(got.err, ErrFileHeader) {
				t.Fatalf("%d bytes: %v", size, got.err)
			}
			continue
		}
		whole := 0
		for _, p := range w.places {
			if p.position+FrameHeaderBytes+int64(p.header.Bytes) <= int64(size) {
				whole++
			}
		}
		if err := samePlaces(got.frames, w.places[:whole]); err != nil || got.err != nil || len(got.holes) != 0 {
			t.Fatalf("%d bytes: %v %v %v", size, err, got.err, got.holes)
		}
		if whole < len(w.places) {
			start := w.places[whole].position
			if want := int64(size) > start; got.torn != want {
				t.Fatalf("%d bytes: torn %v, want %v: %v", size, got.torn, want, got.tail)
			}
		}
	}
}

func TestScanFindsWritesBehindAMissingOne(t *testing.T) {
	w := smallSegment(t)
	second := w.places[4].position
	third := w.places[7].position
	clear(w.bytes[second:third])
	got := scanBytes(t, w.bytes, &w.header)
	want := Hole{Start: second, End: third, Cause: ErrWriteMissing, IndexFirst: 53, IndexNext: 55, OffsetFirst: 103, OffsetNext: 105}
	if len(got.holes) != 1 || got.holes[0] != want {
		t.Fatalf("holes %v, want %v", got.holes, want)
	}
	if got.torn || len(got.frames) != 6 {
		t.Fatalf("torn %v, %d frames", got.torn, len(got.frames))
	}
}

// TestScanFindsMarksInsideAWrite: a bad frame header costs what stands before the next mark.
func TestScanFindsMarksInsideAWrite(t *testing.T) {
	w := newLogWriter(t, testHeader(4, 0, 1))
	w.write(0, func() {
		for range 40 {
			w.records(record(1, "k", string(make([]byte, 3000))))
			w.mark(0)
		}
	})
	for i, p := range w.places {
		if p.header.Kind != FrameData {
			continue
		}
		w.bytes[p.position+30] ^= 1
		got := scanBytes(t, w.bytes, &w.header)
		w.bytes[p.position+30] ^= 1
		if len(got.frames) != len(w.places)-1 || got.err != nil {
			t.Fatalf("frame %d: %d of %d frames left: %v %v", i, len(got.frames), len(w.places), got.holes, got.tail)
		}
		if i < len(w.places)-2 && (len(got.holes) != 1 || got.holes[0].IndexFirst != p.header.Index || got.holes[0].IndexNext != p.header.Index+1) {
			t.Fatalf("frame %d: %v", i, got.holes)
		}
	}
}

func TestScanStopsAtUnknownKind(t *testing.T) {
	w := newLogWriter(t, testHeader(4, 0, 1))
	w.write(0, func() {
		w.records(record(1, "k", "v"))
		w.frame(19, 0, []byte("sealed with a key of the future"))
		w.records(record(2, "k", "v"))
	})
	got := scanBytes(t, w.bytes, &w.header)
	if !errors.Is(got.err, ErrFrameUnknown) || len(got.frames) != 2 {
		t.Fatalf("%v after %d frames", got.err, len(got.frames))
	}
	if text := got.err.Error(); !bytes.Contains([]byte(text), []byte("kind 19")) || !bytes.Contains([]byte(text), []byte("index 2")) {
		t.Fatalf("the error does not name the frame: %s", text)
	}
}

// TestScanIsNotFooledByStoredSegments stores a copy of a segment inside a
// record, on block boundaries, damages the frame around it, and expects that none
// of the copies is taken for a frame of the log.
func TestScanIsNotFooledByStoredSegments(t *testing.T) {
	header := testHeader(4, 0, 1)
	inner := newLogWriter(t, header) // same partition, same salt even
	inner.write(900, func() { inner.frame(FrameGeneration, 0, nil); inner.records(record(1, "forged", "forged")) })
	w := newLogWriter(t, header)
	// The value begins somewhere in the second block; shift the copy to a boundary.
	w.write(0, func() {
		value := bytes.Repeat([]byte{7}, 3*core.DiskAlignment)
		w.records(proto.Record{Timestamp: 1, Value: value})
		payload := w.bytes[w.places[len(w.places)-1].position+FrameHeaderBytes:]
		shift := 2*core.DiskAlignment - (FileHeaderBytes + 2*FrameHeaderBytes) // position 8192 of the file
		copy(payload[shift:], inner.bytes[FileHeaderBytes:])
	})
	w.bytes[FileHeaderBytes+FrameHeaderBytes+9] ^= 1 // the outer frame's header
	got := scanBytes(t, w.bytes, &header)
	if len(got.frames) != 1 || got.frames[0].header.Kind != FrameWriteMark || !got.torn {
		t.Fatalf("%d frames, torn %v: %+v", len(got.frames), got.torn, got.frames)
	}
}

// A frame of another partition is not taken, in a write of its own or within one of the log's, although everything else
// about it is as it should be: its place, its index, its offset, its checksums.
func TestScanTakesNoFrameOfAnotherPartition(t *testing.T) {
	for _, whole := range []bool{true, false} {
		header := testHeader(4, 0, 1)
		w := newLogWriter(t, header)
		w.write(0, func() { w.records(record(1, "k", "own")) })
		own := len(w.places)
		w.header.Partition = header.Partition + 1
		foreign := len(w.bytes)
		if whole {
			w.write(0, func() { w.records(record(2, "k", "foreign")) })
		} else {
			w.bytes = w.bytes[:w.places[own-1].position+FrameHeaderBytes+int64(len(w.places[own-1].payload))] // instead of the padding
			foreign = len(w.bytes)
			w.records(record(2, "k", "foreign"))
			w.pad()
		}
		got := scanBytes(t, w.bytes, &header)
		if err := samePlaces(got.frames, w.places[:own]); err != nil {
			t.Errorf("in a write of its own %v: %v", whole, err)
		}
		if !got.torn || !errors.Is(got.tail.Cause, ErrFrameForeign) || got.end > alignUp(int64(foreign)) {
			t.Errorf("in a write of its own %v: torn %v, %v, the end is %d", whole, got.torn, got.tail, got.end)
		}
	}
}

// failing is a file of which some blocks give an error.
type failing struct {
	b   []byte
	bad map[int64]bool // block positions
}

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	for block := at &^ (core.DiskAlignment - 1); block < at+int64(len(b)); block += core.DiskAlignment {
		if f.bad[block] {
			return copy(b[:max(block-at, 0)], f.b[at:]), syscall.EIO
		}
	}
	n := copy(b, f.b[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func TestScanReadErrorCostsItsRangeOnly(t *testing.T) {
	w := smallSegment(t)
	bad := w.places[4].position
	got := scanAll(t, &Scanner{}, failing{w.bytes, map[int64]bool{bad: true}}, int64(len(w.bytes)), &w.header, nil)
	if len(got.holes) != 1 || !errors.Is(got.holes[0].Cause, ErrUnreadable) || !errors.Is(got.holes[0].Cause, syscall.EIO) {
		t.Fatalf("holes %v", got.holes)
	}
	if h := got.holes[0]; h.IndexFirst != 53 || h.IndexNext != 55 || got.torn {
		t.Fatalf("hole %v, torn %v", h, got.torn)
	}
	// In the tail it must not look like zeros: it may hold what was acked last.
	bad = w.places[7].position
	got = scanAll(t, &Scanner{}, failing{w.bytes, map[int64]bool{bad: true}}, int64(len(w.bytes)), &w.header, nil)
	if !got.torn || !errors.Is(got.tail.Cause, ErrUnreadable) {
		t.Fatalf("torn %v, tail %v", got.torn, got.tail)
	}
}

// What a frame lacks in its middle, because the device did not give it, is not called wrong: it may be there at the next read.
func TestScanReadErrorInsideOfAFrame(t *testing.T) {
	w := newLogWriter(t, testHeader(1, 0, 1))
	for range 3 {
		w.write(0, func() { w.records(proto.Record{Timestamp: 1, Value: bytes.Repeat([]byte("x"), 5*core.DiskAlignment)}) })
	}
	frame := w.places[len(w.places)-3].position
	for block := alignUp(frame + 1); block < frame+5*core.DiskAlignment; block += core.DiskAlignment {
		got := scanAll(t, &Scanner{}, failing{w.bytes, map[int64]bool{block: true}}, int64(len(w.bytes)), &w.header, nil)
		if len(got.holes) != 1 || got.holes[0].Start != frame || !errors.Is(got.holes[0].Cause, ErrUnreadable) {
			t.Fatalf("a block at %d of the frame at %d was not given: %v", block, frame, got.holes)
		}
	}
}

func TestScanFramesLargerThanTheWindow(t *testing.T) {
	w := newLogWriter(t, testHeader(1, 0, 1))
	for range 3 {
		w.write(0, func() {
			w.records(proto.Record{Timestamp: 1, Value: bytes.Repeat([]byte("x"), core.BatchBytesMax-200)})
			w.records(record(2, "k", "v"))
		})
	}
	got := scanBytes(t, w.bytes, &w.header)
	if err := samePlaces(got.frames, w.places); err != nil || got.err != nil || got.torn {
		t.Fatal(err, got.err, got.tail)
	}
}

func FuzzScanner(f *testing.F) {
	w := newLogWriter(f, testHeader(4, 0, 1))
	w.write(0, func() { w.records(record(1, "k", "v")); w.frame(FrameNoop, 0, nil) })
	w.write(2, func() { w.records(record(2, "k", "w")) })
	end := w.places[len(w.places)-1]
	f.Add(w.bytes[FileHeaderBytes : end.position+FrameHeaderBytes+int64(end.header.Bytes)])
	f.Add(w.bytes[FileHeaderBytes : FileHeaderBytes+70])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(bytes.Clone(w.bytes[:FileHeaderBytes]), body...)
		s := &Scanner{}
		if err := s.Open(bytes.NewReader(b), int64(len(b)), nil); err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		for s.Next() {
			if s.Position <= last || s.Position+FrameHeaderBytes+int64(s.Frame.Bytes) > int64(len(b)) {
				t.Fatalf("frame at %d after %d, %d bytes", s.Position, last, len(b))
			}
			last = s.Position
			if _, _, err := ParseFrame(b[s.Position:]); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range s.Holes {
			if h.End <= h.Start || h.IndexNext < h.IndexFirst || h.OffsetNext < h.OffsetFirst {
				t.Fatalf("hole %v", h)
			}
		}
		// What is not a whole header must be refused without a panic as well.
		_ = s.Open(bytes.NewReader(body), int64(len(body)), nil)
		for s.Next() {
		}
	})
}
