package segment

import (
	"errors"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// scrubAll runs stretches over a segment to its end.
func scrubAll(t *testing.T, w *logWriter, b []byte, stretch int64) (holes []Hole, runs int, err error) {
	t.Helper()
	files := newFolder()
	files.put("s.log", b)
	end := SealedPoint{Segment: 4, Position: int64(len(w.bytes)) - 2*core.DiskAlignment, Index: w.index, NextOffset: w.next}
	from := SealedPoint{}
	for {
		runs++
		told := false
		j := &Scrub{Files: files, Path: "s.log", Header: w.header, From: from, End: end, BytesMax: stretch, Ended: func(*Scrub) { told = true }}
		j.Run()
		j.Done()
		holes = append(holes, j.Holes...)
		if !told || j.BytesRead < 0 || runs > 100 {
			t.Fatalf("run %d: %+v", runs, j)
		}
		if j.Finished {
			return holes, runs, j.Err
		}
		if j.Next.Position <= from.Position {
			t.Fatal("the scrub does not get on")
		}
		from = j.Next
	}
}

func TestScrubInStretches(t *testing.T) {
	w := smallSegment(t)
	if holes, runs, err := scrubAll(t, w, w.bytes, 1<<30); len(holes) != 0 || runs != 1 || err != nil {
		t.Fatal(holes, runs, err)
	}
	if holes, runs, err := scrubAll(t, w, w.bytes, 1); len(holes) != 0 || runs < 5 || err != nil {
		t.Fatal(holes, runs, err)
	}
	// A flip anywhere in the sealed part is found whatever the stretches, and
	// bytes behind the sealed end do not matter.
	for at := FileHeaderBytes; at < len(w.bytes)-2*core.DiskAlignment; at += 41 {
		b := append([]byte(nil), w.bytes...)
		b[at] ^= 8
		for _, stretch := range []int64{1, 5000, 1 << 30} {
			holes, _, err := scrubAll(t, w, b, stretch)
			if err != nil || len(holes) != 1 || int64(at) < holes[0].Start || int64(at) >= holes[0].End {
				t.Fatalf("flip at %d, stretches of %d: %v %v", at, stretch, holes, err)
			}
		}
	}
	b := append([]byte(nil), w.bytes...)
	b[len(b)-9] = 1
	if holes, _, err := scrubAll(t, w, b, 1<<30); len(holes) != 0 || err != nil {
		t.Fatal(holes, err)
	}
}

func TestScrubMissingEnd(t *testing.T) {
	w := smallSegment(t)
	third := w.places[7].position
	for name, b := range map[string][]byte{
		"cut off": w.bytes[:third],
		"zeros":   append(append([]byte(nil), w.bytes[:third]...), make([]byte, len(w.bytes)-int(third))...),
	} {
		holes, _, err := scrubAll(t, w, b, 1)
		if err != nil || len(holes) != 1 || holes[0].IndexFirst != 55 || holes[0].IndexNext != w.index+1 || holes[0].OffsetNext != w.next {
			t.Fatalf("%s: %v %v", name, holes, err)
		}
	}
}

func TestScrubForeignFile(t *testing.T) {
	w := smallSegment(t)
	b := append([]byte(nil), w.bytes...)
	other := w.header
	other.Partition++
	other.Put(b)
	if _, _, err := scrubAll(t, w, b, 1<<30); !errors.Is(err, ErrFileForeign) {
		t.Fatal(err)
	}
}

func TestScrubBudget(t *testing.T) {
	b := ScrubBudget{BytesPerSecond: 1000, StretchBytes: 500}
	now, read := int64(1), int64(0)
	for range 100 { // ten seconds
		if n := b.Take(now); n > 0 {
			read += n + 7 // a stretch ends with a whole frame
			b.Spend(n + 7)
		}
		now += 1e8
	}
	if read < 9000 || read > 10_600 {
		t.Fatalf("read %d bytes in ten seconds at 1000 a second", read)
	}
	now += 3600e9 // an hour of sleep saves up one second
	if b.Take(now) != 500 {
		t.Fatal("nothing after an hour")
	}
	b.Spend(500)
	b.Spend(500)
	if b.Take(now) != 0 {
		t.Fatal("an hour was saved up")
	}
}
