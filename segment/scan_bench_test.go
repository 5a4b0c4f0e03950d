package segment

import (
	"bytes"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// benchSegment has frames of about a kilobyte, a thousand to a write.
func benchSegment(tb testing.TB) *logWriter {
	w := newLogWriter(tb, testHeader(1, 0, 1))
	payload := w.batch(0, proto.CodecNone, record(1, "key", string(make([]byte, 900))))
	for range 16 {
		w.write(w.index, func() {
			for range 1000 {
				b := append(proto.Batch(nil), payload...)
				b.SetBaseOffset(int64(w.next))
				w.frame(FrameData, 1, b)
			}
		})
	}
	return w
}

func BenchmarkScanner(b *testing.B) {
	w := benchSegment(b)
	var s Scanner
	b.SetBytes(int64(len(w.bytes)))
	for b.Loop() {
		if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), nil); err != nil {
			b.Fatal(err)
		}
		for s.Next() {
		}
	}
}

func BenchmarkRebuildIndex(b *testing.B) {
	w := benchSegment(b)
	var s Scanner
	x := NewIndex(0, 1)
	b.SetBytes(int64(len(w.bytes)))
	for b.Loop() {
		if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), nil); err != nil {
			b.Fatal(err)
		}
		if err := RebuildIndex(&s, x); err != nil {
			b.Fatal(err)
		}
	}
}

// TestScannerAllocatesNothingPerFrame: start-up scans millions of frames.
func TestScannerAllocatesNothingPerFrame(t *testing.T) {
	w := benchSegment(t)
	var s Scanner
	r := bytes.NewReader(w.bytes)
	x := NewIndex(0, 1)
	if n := testing.AllocsPerRun(3, func() {
		if err := s.Open(r, int64(len(w.bytes)), nil); err != nil {
			t.Fatal(err)
		}
		if err := RebuildIndex(&s, x); err != nil {
			t.Fatal(err)
		}
	}); n > 20 {
		t.Fatalf("%v allocations for 16,000 frames", n)
	}
}
