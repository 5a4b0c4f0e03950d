package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"reflect"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

func testState(segment FileHeader, n int) State {
	return State{Index: segment.BaseIndex + 6, Term: 3, Generation: 2, Segment: segment.Segment, Position: 5 * FileHeaderBytes,
		NextOffset: segment.BaseOffset + 8, LogStart: segment.BaseOffset,
		Epochs: EpochTable{Starts: []EpochStart{{1, 1, 0}, {3, segment.BaseIndex + 2, segment.BaseOffset}}},
		Owner:  bytes.Repeat([]byte{0xee, 0}, n)}
}

func TestStateFileRoundTrip(t *testing.T) {
	h := testHeader(4, 100, 50)
	for _, n := range []int{0, 40} {
		want := testState(h, n)
		back, got, err := ParseStateFile(AppendStateFile(nil, &h, &want))
		if err != nil || !reflect.DeepEqual(got.Epochs, want.Epochs) || !bytes.Equal(got.Owner, want.Owner) {
			t.Fatalf("%v %+v", err, got)
		}
		got.Owner, want.Owner = nil, nil
		if !reflect.DeepEqual(*got, want) || back.Segment != 4 || back.Kind != FileState {
			t.Fatalf("%+v %+v", got, back)
		}
	}
}

func TestStateFileEveryFlipAndTruncation(t *testing.T) {
	h := testHeader(4, 100, 50)
	s := testState(h, 30)
	good := AppendStateFile(nil, &h, &s)
	for at := range good {
		b := bytes.Clone(good)
		b[at] ^= 0x80
		if _, _, err := ParseStateFile(b); err == nil {
			t.Fatalf("flip at %d was not seen", at)
		}
		if _, _, err := ParseStateFile(good[:at]); err == nil {
			t.Fatalf("truncation at %d was not seen", at)
		}
	}
	if _, _, err := ParseStateFile(append(good, 0)); err == nil {
		t.Fatal("a surplus byte was not seen")
	}
}

const testDir = "topics/x/3"

func writeState(t *testing.T, files *folder, h FileHeader, s State) *StateWrite {
	t.Helper()
	w := &StateWrite{Files: files, Fresh: StateFresh(path.Join(testDir, SegmentName(h.BaseOffset, h.Segment))), Segment: h, State: s}
	w.Run()
	return w
}

func anyState(*State) bool { return true }

// TestStateWriteAtEveryCrash cuts the power at each step: the older state, or
// the new one, is always there, and the new one once the job says so.
func TestStateWriteAtEveryCrash(t *testing.T) {
	h := testHeader(4, 100, 50)
	older, newer := testState(h, 3), testState(h, 4)
	newer.Index, newer.NextOffset = older.Index+1, older.NextOffset+1
	for failAt := 1; ; failAt++ {
		files := newFolder()
		files.dirs[testDir] = true
		if w := writeState(t, files, h, older); w.Err != nil {
			t.Fatal(w.Err)
		}
		files.steps, files.failAt = 0, failAt
		w := writeState(t, files, h, newer)
		got, bad, err := LatestValidState(files.cut(), testDir, &h, anyState)
		if err != nil || len(bad) != 0 {
			t.Fatalf("step %d: %v %v", failAt, err, bad)
		}
		if w.Err == nil {
			if got.Index != newer.Index {
				t.Fatal("the job said it is durable")
			}
			if failAt < 5 {
				t.Fatalf("only %d steps", failAt)
			}
			return
		}
		if !errors.Is(w.Err, errFolderCut) || got.Index != older.Index {
			t.Fatalf("step %d: %v, index %d", failAt, w.Err, got.Index)
		}
	}
}

func TestLatestValidStateFallsBack(t *testing.T) {
	files := newFolder()
	first, second := testHeader(4, 100, 50), testHeader(5, 200, 90)
	files.dirs[testDir] = true
	if s, bad, err := LatestValidState(files, testDir, &first, anyState); s != nil || bad != nil || err != nil {
		t.Fatal(s, bad, err)
	}
	writeState(t, files, first, testState(first, 3))
	newest := writeState(t, files, second, testState(second, 3)).Path()
	got, _, err := LatestValidState(files, testDir, &first, anyState)
	if err != nil || got.Segment != 5 {
		t.Fatal(got, err)
	}
	// One whose base is gone is passed over without being called damaged.
	got, bad, err := LatestValidState(files, testDir, &first, func(s *State) bool { return s.Segment != 5 })
	if err != nil || got.Segment != 4 || len(bad) != 0 {
		t.Fatal(got, bad, err)
	}
	b := files.get(t, newest)
	b[len(b)-20] ^= 1
	got, bad, err = LatestValidState(files, testDir, &first, anyState)
	if err != nil || got.Segment != 4 || len(bad) != 1 || !errors.Is(bad[0].Err, ErrStateFile) {
		t.Fatal(got, bad, err)
	}
	// A copy of another partition's file does not pass either.
	foreign := first
	foreign.Partition++
	if _, bad, err = LatestValidState(files, testDir, &foreign, anyState); !errors.Is(err, ErrStateUnusable) || len(bad) != 2 {
		t.Fatal(bad, err)
	}
}

func TestStateWriteReadsBack(t *testing.T) {
	h := testHeader(4, 100, 50)
	files := newFolder()
	files.dirs[testDir] = true
	older := writeState(t, files, h, testState(h, 3))
	before := bytes.Clone(files.get(t, older.Path()))
	files.garble = true
	w := writeState(t, files, h, testState(h, 9))
	files.garble = false
	if !errors.Is(w.Err, ErrStateReadBack) {
		t.Fatal(w.Err)
	}
	if !bytes.Equal(files.get(t, older.Path()), before) || len(files.names()) != 1 {
		t.Fatalf("the old state was touched: %v", files.names())
	}
}

// FuzzStateFile gives any body a good header and checksum.
func FuzzStateFile(f *testing.F) {
	h := testHeader(1, 5, 1)
	for _, n := range []int{0, 2} {
		s := testState(h, n)
		b := AppendStateFile(nil, &h, &s)
		f.Add(b[FileHeaderBytes : len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, _ = ParseStateFile(body)
		b := make([]byte, FileHeaderBytes)
		h := h
		h.Kind = FileState
		h.Put(b)
		b = append(b, body...)
		b = binary.BigEndian.AppendUint32(b, proto.CRC(b))
		back, s, err := ParseStateFile(b)
		if err == nil && !bytes.Equal(AppendStateFile(nil, &back, s), b) {
			t.Fatal("decodes to something else")
		}
	})
}
