package segment

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// sparseFile says of itself where something was written, and remembers what was read.
type sparseFile struct {
	*bytes.Reader
	extents [][2]int64
	reads   [][2]int64
}

func (f *sparseFile) ReadAt(p []byte, at int64) (int, error) {
	f.reads = append(f.reads, [2]int64{at, at + int64(len(p))})
	return f.Reader.ReadAt(p, at)
}

func (f *sparseFile) Extent(at int64) (start, end int64, err error) {
	for _, e := range f.extents {
		if at < e[1] {
			return max(at, e[0]), e[1], nil
		}
	}
	return f.Size(), f.Size(), nil
}

func TestWindowReadsNothingAheadOfWhatWasWritten(t *testing.T) {
	const size, written = 8 << 20, 100 << 10
	f := &sparseFile{Reader: bytes.NewReader(make([]byte, size)), extents: [][2]int64{{0, written}}}
	var w scanWindow
	w.reset(f, size)
	for at := int64(0); at < written+2*core.DiskAlignment; at += core.DiskAlignment {
		if b := w.view(at, core.DiskAlignment); len(b) != core.DiskAlignment {
			t.Fatalf("%d bytes at %d", len(b), at)
		}
	}
	for _, r := range f.reads {
		if asked := r[1]-r[0] <= core.DiskAlignment; r[1] > written && !asked {
			t.Errorf("[%d, %d) was read, nothing was written behind %d", r[0], r[1], written)
		}
	}
	if len(f.reads) > 4 {
		t.Errorf("%d reads for 100 KiB and two blocks", len(f.reads))
	}
}

// A file system that is wrong about a hole costs nothing but reads.
func TestWindowReadsWhatIsAskedFor(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	f := &sparseFile{Reader: bytes.NewReader(content), extents: [][2]int64{{0, 8 << 10}, {512 << 10, 516 << 10}}}
	var w scanWindow
	w.reset(f, int64(len(content)))
	for at := 0; at < len(content); {
		n := min(3000+at/7, len(content)-at)
		if b := w.view(int64(at), n); !bytes.Equal(b, content[at:at+n]) {
			t.Fatalf("%d bytes at %d are not what the file holds", n, at)
		}
		at += n
	}
}

// A window that moves on keeps what it has read of a frame, and does not read it again.
func TestWindowReadsEachByteOnce(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	f := &sparseFile{Reader: bytes.NewReader(content), extents: [][2]int64{{0, int64(len(content))}}}
	var w scanWindow
	w.reset(f, int64(len(content)))
	for at := 0; at < len(content); {
		n := min(300<<10, len(content)-at)
		if b := w.view(int64(at), n); !bytes.Equal(b, content[at:at+n]) {
			t.Fatalf("%d bytes at %d are not what the file holds", n, at)
		}
		at += n
	}
	read := int64(0)
	for _, r := range f.reads {
		read += r[1] - r[0]
	}
	if read != int64(len(content)) {
		t.Errorf("%d bytes were read of %d", read, len(content))
	}
}

// The search for writes behind the last one does not read what was only reserved, so
// that the next start does not take it for written and read all of it.
func TestScanLeavesTheReserveAlone(t *testing.T) {
	s := smallSegment(t)
	size := int64(len(s.bytes) + 16<<20)
	f := &sparseFile{Reader: bytes.NewReader(append(bytes.Clone(s.bytes), make([]byte, 16<<20)...)), extents: [][2]int64{{0, int64(len(s.bytes))}}}
	for range 3 {
		f.reads = nil
		got := scanAll(t, &Scanner{}, f, size, &s.header, nil)
		if err := samePlaces(got.frames, s.places); err != nil || got.err != nil || got.torn {
			t.Fatal(err, got.err, got.torn)
		}
		end := int64(0)
		for _, r := range f.reads {
			end = max(end, r[1])
		}
		if most := int64(len(s.bytes)) + 128<<10; end > most {
			t.Fatalf("the scan read up to %d, nothing was written behind %d", end, len(s.bytes))
		}
		f.extents[0][1] = max(f.extents[0][1], end) // what was read counts as written
	}
}
