package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"pgregory.net/rapid"
)

// drawFrames adds random frames to an index and returns what a linear look finds.
type indexedFrame struct {
	header    FrameHeader
	position  int64
	timestamp int64
}

func drawFrames(t *rapid.T, x *Index) []indexedFrame {
	base := core.Offset(rapid.IntRange(0, 1000).Draw(t, "base"))
	x.Reset(base, 10)
	position, next, index := int64(FileHeaderBytes), base, core.Index(10)
	var frames []indexedFrame
	for i, n := 0, rapid.IntRange(0, 60).Draw(t, "frames"); i < n; i++ {
		h := FrameHeader{Kind: FrameData, Index: index, Term: core.Term(1 + i/10), BaseOffset: next, AppendTime: int64(i),
			Span: uint32(rapid.IntRange(1, 50).Draw(t, "span")), Bytes: uint32(rapid.IntRange(100, 60_000).Draw(t, "bytes"))}
		timestamp := int64(rapid.IntRange(0, 30).Draw(t, "timestamp"))
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			h.Kind, h.Span, timestamp = FrameNoop, 0, TimestampNone
		case 1, 2:
			h.Kind, h.Span, timestamp = FrameCursor, 0, TimestampNone
		}
		if i > 0 && rapid.IntRange(0, 4).Draw(t, "write") == 0 { // it begins a write: its mark, on the disk's unit
			position = alignUp(position)
			x.Add(&FrameHeader{Kind: FrameWriteMark}, position, TimestampNone)
			position += FrameHeaderBytes
		}
		frames = append(frames, indexedFrame{h, position, timestamp})
		x.Add(&h, position, timestamp)
		position += FrameHeaderBytes + int64(h.Bytes)
		next, index = h.Next(), index+1
	}
	return frames
}

func TestIndexAgainstLinearScan(t *testing.T) {
	x := NewIndex(0, 1)
	rapid.Check(t, func(t *rapid.T) {
		frames := drawFrames(t, x)
		for i := range x.Entries {
			if i > 0 && x.Entries[i].Position-x.Entries[i-1].Position > core.IndexIntervalBytes+FrameHeaderBytes+60_000 {
				t.Fatalf("entries %d bytes apart", x.Entries[i].Position-x.Entries[i-1].Position)
			}
		}
		offset := core.Offset(rapid.IntRange(0, 5000).Draw(t, "offset"))
		e, ok := x.Find(offset)
		for _, f := range frames {
			if offset >= f.header.BaseOffset && offset < f.header.Next() {
				if !ok || e.Position > f.position || f.position-e.Position > core.IndexIntervalBytes+FrameHeaderBytes {
					t.Fatalf("offset %d stands at %d, the index says %v %v", offset, f.position, e, ok)
				}
			}
		}
		// By time: the first record with that timestamp or a later one is not before the
		// entry, and nothing is missed.
		at := int64(rapid.IntRange(0, 35).Draw(t, "time"))
		e, ok = x.FindTime(at)
		first := int64(-1)
		for _, f := range frames {
			if f.timestamp >= at {
				first = f.position
				break
			}
		}
		if ok != (first >= 0) {
			t.Fatalf("time %d: index says %v, first is at %d", at, ok, first)
		}
		if ok && (e.Position > first || first-e.Position > 2*core.IndexIntervalBytes+FrameHeaderBytes) {
			t.Fatalf("time %d first at %d, the index says %d", at, first, e.Position)
		}
		for _, f := range frames {
			if e, ok := x.FindIndex(f.header.Index); !ok || e.Index > f.header.Index {
				t.Fatalf("index %d: %v %v", f.header.Index, e, ok)
			}
		}
		// The earliest frame with the greatest timestamp.
		most, where := TimestampNone, core.Offset(0)
		for _, f := range frames {
			if f.timestamp > most {
				most, where = f.timestamp, f.header.BaseOffset
			}
		}
		if x.MaxTimestamp != most || x.MaxTimestampOffset != where {
			t.Fatalf("max timestamp %d at %d, want %d at %d", x.MaxTimestamp, x.MaxTimestampOffset, most, where)
		}
		// Cursors, each from the frame before it on; the first frame has none before it.
		cursors := int64(0)
		for i, f := range frames {
			if f.header.Kind == FrameCursor {
				from := f.position
				if i > 0 {
					from = frames[i-1].position + FrameHeaderBytes + int64(frames[i-1].header.Bytes)
				}
				cursors += f.position + FrameHeaderBytes + int64(f.header.Bytes) - from
			}
		}
		if x.CursorBytes != cursors {
			t.Fatalf("%d bytes of cursors, want %d", x.CursorBytes, cursors)
		}
		// The file holds the same.
		header := testHeader(4, 0, 10)
		_, back, err := ParseIndexFile(AppendIndexFile(nil, &header, x))
		if err != nil || len(back.Entries) != len(x.Entries) || back.End != x.End || back.lastEntry != x.lastEntry || back.CursorBytes != cursors {
			t.Fatalf("%v: %+v", err, back)
		}
	})
}

func TestIndexCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(0, 1)
		frames := drawFrames(t, x)
		if len(frames) == 0 {
			return
		}
		cut := rapid.IntRange(0, len(frames)-1).Draw(t, "cut")
		f := frames[cut]
		x.Cut(SealedPoint{Position: f.position, Index: f.header.Index - 1, NextOffset: f.header.BaseOffset})
		if x.End != f.position || x.LastIndex != f.header.Index-1 || x.NextOffset != f.header.BaseOffset {
			t.Fatalf("%+v", x)
		}
		for _, e := range x.Entries {
			if e.Position >= f.position {
				t.Fatalf("entry at %d behind the cut at %d", e.Position, f.position)
			}
		}
		for _, g := range frames[:cut] {
			if g.timestamp > x.MaxTimestamp {
				t.Fatal("the bound is below a record that is left")
			}
		}
		// The log goes on behind the cut.
		for _, g := range frames[cut:] {
			x.Add(&g.header, g.position, g.timestamp)
		}
		for _, g := range frames {
			if e, ok := x.Find(g.header.BaseOffset); !ok || e.Position > g.position && g.header.Span > 0 {
				t.Fatalf("offset %d at %d: %v", g.header.BaseOffset, g.position, e)
			}
		}
	})
}

func TestIndexAddAllocatesNothing(t *testing.T) {
	x := NewIndex(0, 1)
	x.Entries = make([]IndexEntry, 0, 4096)
	h := FrameHeader{Kind: FrameData, Span: 1, Bytes: 70_000}
	position := int64(FileHeaderBytes)
	if n := testing.AllocsPerRun(1000, func() {
		x.Add(&h, position, position)
		position += FrameHeaderBytes + int64(h.Bytes)
		x.Find(core.Offset(position))
		x.FindTime(position / 2)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// indexedFolder is a partition's folder with one sealed segment and its index.
func indexedFolder(t testing.TB) (files *folder, w *logWriter, stem string, sealed SealedPoint) {
	w = smallSegment(t)
	files = newFolder()
	stem = "topics/x/3/" + SegmentName(w.header.BaseOffset, w.header.Segment)
	files.put(stem+LogExtension, w.bytes)
	sealed = SealedPoint{Segment: 4, Position: int64(len(w.bytes)) - 2*core.DiskAlignment, Index: w.index, NextOffset: w.next}
	return files, w, stem, sealed
}

func TestOpenIndexRebuildsAndReuses(t *testing.T) {
	files, w, stem, sealed := indexedFolder(t)
	s := &Scanner{}
	built, rebuilt, err := OpenIndex(files, stem, &w.header, sealed, s)
	if err != nil || !rebuilt {
		t.Fatal(rebuilt, err)
	}
	if built.MaxTimestamp != 1300 || built.MaxTimestampOffset != 105 || built.NextOffset != w.next || built.LastIndex != w.index {
		t.Fatalf("%+v", built)
	}
	reads := files.reads
	again, rebuilt, err := OpenIndex(files, stem, &w.header, sealed, s)
	if err != nil || rebuilt || !reflect.DeepEqual(built, again) {
		t.Fatalf("%v %v\n%+v\n%+v", rebuilt, err, built, again)
	}
	if files.reads != reads+1 {
		t.Fatalf("%d reads for a good index", files.reads-reads)
	}
}

// TestOpenIndexEveryFlipAndTruncation: whatever happens to the file, the index is the same.
func TestOpenIndexEveryFlipAndTruncation(t *testing.T) {
	files, w, stem, sealed := indexedFolder(t)
	s := &Scanner{}
	want, _, _ := OpenIndex(files, stem, &w.header, sealed, s)
	good := bytes.Clone(files.get(t, stem+IndexExtension))
	check := func(what string, at int, b []byte) {
		files.put(stem+IndexExtension, b)
		if _, err := LoadIndex(files, stem+IndexExtension, &w.header, sealed); err == nil {
			t.Fatalf("%s at %d was not seen", what, at)
		}
		if at%97 == 0 { // the rebuild itself is the same each time
			got, rebuilt, err := OpenIndex(files, stem, &w.header, sealed, s)
			if err != nil || !rebuilt || !reflect.DeepEqual(got, want) {
				t.Fatal(what, at, err)
			}
		}
	}
	for at := range good {
		b := bytes.Clone(good)
		b[at] ^= 2
		check("flip", at, b)
		check("truncation", at, good[:at])
	}
	check("surplus", 0, append(bytes.Clone(good), 0))
}

func TestOpenIndexStale(t *testing.T) {
	files, w, stem, sealed := indexedFolder(t)
	s := &Scanner{}
	if _, _, err := OpenIndex(files, stem, &w.header, sealed, s); err != nil {
		t.Fatal(err)
	}
	short := sealed
	short.Position, short.Index, short.NextOffset = w.places[7].position, 54, 105
	if _, err := LoadIndex(files, stem+IndexExtension, &w.header, short); !errors.Is(err, ErrIndexStale) {
		t.Fatal(err)
	}
	other := w.header
	other.Salt++
	if _, err := LoadIndex(files, stem+IndexExtension, &other, sealed); !errors.Is(err, ErrIndexStale) {
		t.Fatal(err)
	}
	other = w.header
	other.Partition++
	if _, err := LoadIndex(files, stem+IndexExtension, &other, sealed); !errors.Is(err, ErrFileForeign) {
		t.Fatal(err)
	}
}

// FuzzIndexFile gives any body a good header and checksum, so that what the
// checksum would refuse is looked at, too.
func FuzzIndexFile(f *testing.F) {
	h := testHeader(1, 5, 1)
	whole := func(body []byte) []byte {
		b := make([]byte, FileHeaderBytes)
		h := h
		h.Kind = FileIndex
		h.Put(b)
		b = append(b, body...)
		return binary.BigEndian.AppendUint32(b, proto.CRC(b))
	}
	body := func(b []byte) []byte { return b[FileHeaderBytes : len(b)-4] }
	x := NewIndex(5, 1)
	f.Add(body(AppendIndexFile(nil, &h, x)))
	x.Add(&FrameHeader{Kind: FrameData, Index: 1, BaseOffset: 5, Span: 3, Bytes: 100}, FileHeaderBytes, 77)
	f.Add(body(AppendIndexFile(nil, &h, x)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = ParseIndexFile(b)
		b = whole(b)
		h, x, err := ParseIndexFile(b)
		if err == nil && !bytes.Equal(AppendIndexFile(nil, &h, x), b) {
			t.Fatal("decodes to something else")
		}
	})
}
