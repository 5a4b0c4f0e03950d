package segment

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

var writeVectors = flag.Bool("write-vectors", false, "write golden vectors that do not exist yet")

const vectorRowBytes = 32

func encodeVector(b []byte) string {
	var s strings.Builder
	fmt.Fprintf(&s, "size %d\n", len(b))
	for at := 0; at < len(b); at += vectorRowBytes {
		if row := b[at:min(at+vectorRowBytes, len(b))]; !allZero(row) {
			fmt.Fprintf(&s, "%d: %x\n", at, row)
		}
	}
	return s.String()
}

func decodeVector(t *testing.T, text string) []byte {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	var b []byte
	for lines.Scan() {
		if size, ok := strings.CutPrefix(lines.Text(), "size "); ok {
			n, err := strconv.Atoi(size)
			if err != nil {
				t.Fatal(err)
			}
			b = make([]byte, n)
			continue
		}
		at, row, _ := strings.Cut(lines.Text(), ": ")
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hex.Decode(b[n:], []byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// vectorSegment is what segment.hex holds.
func vectorSegment(t *testing.T) *logWriter {
	w := newLogWriter(t, testHeader(4, 100, 50))
	w.write(49, func() {
		null := proto.Record{Timestamp: 1_700_000_000_000, Value: []byte{}, Headers: []proto.Header{{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte{0xff}}}}
		second := w.batch(101, proto.CodecNone, record(1_700_000_000_005, "k", "v"), record(1_700_000_000_001, "k", "w"))
		second.SetProducer(7, 1, 20)
		two := append(w.batch(100, proto.CodecNone, null), second...)
		w.frame(FrameData, 3, two)
		w.frame(FrameNoop, 0, nil)
	})
	w.term, w.gen = 2, 3
	w.write(51, func() {
		w.frame(FrameControl, 0, AppendLogStart(nil, 101))
		w.records(record(1_700_000_000_100, "l", "x"))
	})
	w.bytes = append(w.bytes, make([]byte, core.DiskAlignment)...)
	return w
}

func vectorCompacted(t *testing.T) *logWriter {
	h := testHeader(9, 0, 1)
	h.ReplacesNext = 8
	h.Clean = CleanPoints{{Next: 4, Time: 1_700_000_000_000_000_000}, {Next: 9, Time: 1_700_000_500_000_000_000}}
	w := newLogWriter(t, h)
	w.write(7, func() {
		b := w.batch(0, proto.CodecNone, record(1, "a", "1"), record(2, "b", "2"), record(3, "c", "3"))
		b.SetProducer(7, 1, 20)
		var f proto.BatchFilter
		thin, _, err := f.Append(nil, b, 1<<20, func(r *proto.Record) bool { return r.Offset == 1 })
		if err != nil {
			t.Fatal(err)
		}
		w.frame(FrameData, 3, thin)
		w.index += 3
		w.frame(FrameData, 4, nil)
		b = w.batch(7, proto.CodecNone, record(4, "d", "4"), record(5, "e", "5"))
		b.SetProducer(8, 0, 0)
		none, _, err := f.Append(nil, b, 1<<20, func(*proto.Record) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		w.frame(FrameData, 2, none)
		w.frame(FrameNoop, 0, nil)
	})
	return w
}

func vectorJournal() *journalWriter {
	w := newJournalWriter(testJournalHeader(3), 40)
	h := FrameHeader{Partition: 17, Index: 9, Term: 2, Generation: 1, BaseOffset: 500, AppendTime: 1_700_000_000_000_000_000}
	control := h
	control.Kind = FrameControl
	w.frames(39, frameBytes(&control, AppendLogStart(nil, 480)))
	generation := h
	generation.Kind, generation.Generation, generation.Index = FrameGeneration, 2, 10
	w.frames(40, frameBytes(&generation, nil))
	w.sequence, w.flags = 50, GroupRestart
	checkpoint := FrameHeader{Kind: FrameCheckpoint, AppendTime: 1_700_000_000_000_000_001}
	w.frames(41, frameBytes(&checkpoint, AppendCheckpoint(nil, &Checkpoint{Partition: 17, Term: 2, Vote: 3, Commit: 9, Generation: 2, GenerationStart: 10,
		LogStart: 480, Sealed: SealedPoint{Segment: 4, Position: 8192, Index: 8, NextOffset: 499}, Durable: 9})))
	w.flags = GroupClean
	w.frames(50, frameBytes(&control, AppendLogStart(nil, 490)))
	w.bytes = append(w.bytes, make([]byte, core.DiskAlignment)...)
	return w
}

func vectorState() (FileHeader, State) {
	h := testHeader(4, 100, 50)
	return h, State{Index: 53, Term: 2, Generation: 3, Segment: 4, Position: 12288, NextOffset: 104, LogStart: 101,
		Epochs: EpochTable{Starts: []EpochStart{{1, 1, 0}, {2, 52, 103}}}, Owner: []byte("the owner's part")}
}

func vectorIndex(t *testing.T) (FileHeader, *Index) {
	w := vectorSegment(t)
	var s Scanner
	if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), nil); err != nil {
		t.Fatal(err)
	}
	x := NewIndex(0, 1)
	if err := RebuildIndex(&s, x); err != nil {
		t.Fatal(err)
	}
	return w.header, x
}

func TestVectors(t *testing.T) {
	segment, compacted, journal := vectorSegment(t), vectorCompacted(t), vectorJournal()
	stateHeader, state := vectorState()
	indexHeader, index := vectorIndex(t)
	read := map[string][]byte{}
	for name, encoded := range map[string][]byte{
		"segment":           segment.bytes,
		"segment-compacted": compacted.bytes,
		"index":             AppendIndexFile(nil, &indexHeader, index),
		"state":             AppendStateFile(nil, &stateHeader, &state),
		"journal":           journal.bytes,
	} {
		file := filepath.Join("testdata", "vectors", name+".hex")
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && *writeVectors {
			text = []byte(encodeVector(encoded))
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		read[name] = decodeVector(t, string(text))
		if !bytes.Equal(read[name], encoded) {
			t.Errorf("%s: this build writes something else:\n%s", name, encodeVector(encoded))
		}
	}
	got := scanBytes(t, read["segment"], &segment.header)
	if err := samePlaces(got.frames, segment.places); err != nil || got.err != nil || got.torn || len(got.holes) > 0 {
		t.Error("segment:", err, got.err)
	}
	got = scanBytes(t, read["segment-compacted"], nil)
	if err := samePlaces(got.frames, compacted.places); err != nil || got.err != nil || got.torn || len(got.holes) > 0 {
		t.Error("compacted segment:", err, got.err)
	}
	if h, err := ParseFileHeader(read["segment-compacted"]); err != nil || h != compacted.header {
		t.Error("compacted segment:", err, h)
	}
	if h, x, err := ParseIndexFile(read["index"]); err != nil || h.Salt != indexHeader.Salt || !reflect.DeepEqual(x, index) {
		t.Error("index:", err, x)
	}
	if _, s, err := ParseStateFile(read["state"]); err != nil || !reflect.DeepEqual(*s, state) {
		t.Error("state:", err, s)
	}
	scanned := scanJournal(t, read["journal"], 40)
	if err := sameGroups(scanned.groups, journal.places); err != nil || scanned.err != nil || scanned.s.Torn || len(scanned.s.Holes) > 0 {
		t.Error("journal:", err, scanned.err)
	}
}
