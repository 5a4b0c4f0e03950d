package segment

import (
	"fmt"
	"io"

	"github.com/pulsemq/pulsemq/core"
)

// scanWindow reads a file through one reused buffer in large aligned reads. A
// block that the device does not give reads as zeros and is remembered, so that
// an error costs its own range only.
type scanWindow struct {
	r          io.ReaderAt
	size       int64
	buf        []byte // the window's memory
	ahead      int    // how much the next read takes at least; 0: scanWindowBytes
	start      int64  // file position of buf[0], a multiple of the disk's unit
	have       int    // valid bytes of buf
	err        error  // the last read error
	unreadable int    // how many blocks were not given
	badFirst   int64  // positions of the first and last such block
	badLast    int64
}

func (w *scanWindow) reset(r io.ReaderAt, size int64) {
	*w = scanWindow{r: r, size: size, buf: w.buf, badFirst: -1, badLast: -1}
}

// windowAheadMin is what a window that is read here and there begins with: the disk's unit.
// Small frames of thousands of partitions lie between each other in the journal, and most
// of what is read beside one would be read for nothing.
const windowAheadMin = core.DiskAlignment

// sparse makes the reads small until they follow one another.
func (w *scanWindow) sparse() { w.ahead = windowAheadMin }

// view returns n bytes from a position, fewer at the file's end. The bytes are
// good until the next call that leaves the window.
func (w *scanWindow) view(at int64, n int) []byte {
	if at >= w.size || n <= 0 {
		return nil
	}
	n = int(min(int64(n), w.size-at))
	if at < w.start || at+int64(n) > w.start+int64(w.have) {
		w.fill(at, n)
	}
	from := int(at - w.start)
	return w.buf[from : from+n]
}

// fill reads the window that begins at the block of a position.
func (w *scanWindow) fill(at int64, n int) {
	start := at &^ (core.DiskAlignment - 1)
	least := scanWindowBytes
	if w.ahead != 0 {
		if start >= w.start && start <= w.start+int64(w.have) {
			w.ahead = min(2*w.ahead, scanWindowBytes)
		} else {
			w.ahead = windowAheadMin
		}
		least = w.ahead
	}
	asked := int(alignUp(at+int64(n)) - start)
	want := max(asked, min(least, int(min(alignUp(w.size-start), 1<<30))))
	if want > asked {
		// What was asked for is read whatever the file says of itself, but ahead only what was written.
		behind := start + int64(asked)
		if from, to := w.extent(behind); from > behind {
			want = asked
		} else {
			want = max(asked, int(min(int64(want), alignUp(to)-start)))
		}
	}
	var kept []byte // of a frame whose beginning is in the window
	if start >= w.start && start < w.start+int64(w.have) {
		kept = w.buf[start-w.start : w.have]
	}
	if len(w.buf) < want {
		w.buf = make([]byte, want)
	}
	from := copy(w.buf, kept)
	w.start = start
	w.have = int(min(int64(want), w.size-start))
	b := w.buf[:w.have]
	if got, err := w.r.ReadAt(b[from:], start+int64(from)); from+got < len(b) {
		w.refill(b, from+got, err)
	}
}

// refill reads block by block what one read did not give.
func (w *scanWindow) refill(b []byte, got int, err error) {
	for from := got &^ (core.DiskAlignment - 1); from < len(b); from += core.DiskAlignment {
		block := b[from:min(from+core.DiskAlignment, len(b))]
		n, e := 0, err
		if w.unreadable <= scanUnreadableMax {
			n, e = w.r.ReadAt(block, w.start+int64(from))
		}
		if n == len(block) {
			continue
		}
		if e == nil || e == io.EOF {
			e = fmt.Errorf("the file ends at %d, its size is %d", w.start+int64(from+n), w.size)
		}
		clear(block)
		w.err = e
		position := w.start + int64(from)
		if position > w.badLast {
			w.unreadable++
			w.badLast = position
		}
		if w.badFirst < 0 {
			w.badFirst = position
		}
	}
}

// isUnreadable says whether [at, end) reaches in among the blocks that were not given.
func (w *scanWindow) isUnreadable(at, end int64) bool {
	return w.badFirst >= 0 && end > w.badFirst && at < w.badLast+core.DiskAlignment
}

// extentFile is a file that knows where something was written.
type extentFile interface {
	// Extent is the first range at or behind a position, [start, end), that may hold
	// something else than zeros; empty, at the file's size, when there is none.
	Extent(position int64) (start, end int64, err error)
}

// extent is such a range: what was reserved and never written need not be read to know
// that it is zeros.
func (w *scanWindow) extent(at int64) (start, end int64) {
	f, ok := w.r.(extentFile)
	if !ok || at >= w.size {
		return at, w.size
	}
	start, end, err := f.Extent(at)
	if err != nil || start < at || end < start {
		return at, w.size
	}
	return min(start, w.size), min(end, w.size)
}
