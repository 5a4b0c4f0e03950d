package segment

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

type journalScanned struct {
	groups []groupPlace
	s      *JournalScanner
	err    error
}

func scanJournal(t testing.TB, b []byte, expect uint64) journalScanned {
	t.Helper()
	s := &JournalScanner{}
	got := journalScanned{s: s}
	if got.err = s.Open(bytes.NewReader(b), int64(len(b)), nil); got.err != nil {
		return got
	}
	if expect > 0 {
		s.Expect(expect)
	}
	for s.Next() {
		got.groups = append(got.groups, groupPlace{s.Position, s.Group, bytes.Clone(s.Body)})
	}
	got.err = s.Err()
	return got
}

func sameGroups(a, b []groupPlace) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d groups, want %d", len(a), len(b))
	}
	for i := range a {
		if a[i].position != b[i].position || a[i].header != b[i].header || !bytes.Equal(a[i].body, b[i].body) {
			return fmt.Errorf("group %d is %+v, want %+v", i, a[i].header, b[i].header)
		}
	}
	return nil
}

// smallJournal has four groups, each sync'd before the next was issued, over a recycled file.
func smallJournal() *journalWriter {
	w := newJournalWriter(testJournalHeader(2), 40)
	w.group(39, 3)
	w.group(40, 100)
	w.group(41, 1)
	w.group(42, 2)
	return w
}

// olderLife is what the file held before it was recycled.
func olderLife() []byte {
	old := newJournalWriter(testJournalHeader(1), 3)
	for i := range 9 {
		old.group(uint64(2+i), 20)
	}
	return old.bytes
}

func TestJournalScanWalksGroupsAndIgnoresStaleOnes(t *testing.T) {
	w := smallJournal()
	for name, b := range map[string][]byte{
		"zeroed":   append(bytes.Clone(w.bytes), make([]byte, 3*FileHeaderBytes)...),
		"recycled": w.over(olderLife()),
		"full":     w.bytes,
	} {
		got := scanJournal(t, b, 40)
		if err := sameGroups(got.groups, w.places); err != nil || got.err != nil {
			t.Fatal(name, err, got.err)
		}
		if got.s.Torn || len(got.s.Holes) != 0 || got.s.Expected != 44 || got.s.End != int64(len(w.bytes)) || got.s.SyncedMax != 42 {
			t.Fatalf("%s: %+v", name, got.s)
		}
	}
}

// TestJournalScanEveryFlippedByte: a flip in a group that a later one calls
// synced is damage, in the last it is a tear; the others come back whole.
func TestJournalScanEveryFlippedByte(t *testing.T) {
	w := smallJournal()
	b := w.over(olderLife())
	for at := FileHeaderBytes; at < len(w.bytes); at++ {
		victim := -1
		for i, p := range w.places {
			if int64(at) >= p.position && int64(at) < p.position+GroupHeaderBytes+int64(len(p.body)) {
				victim = i
			}
		}
		b[at] ^= 0x10
		got := scanJournal(t, b, 40)
		b[at] ^= 0x10
		if got.err != nil {
			t.Fatal(at, got.err)
		}
		want := w.places
		if victim >= 0 {
			want = append(append([]groupPlace(nil), w.places[:victim]...), w.places[victim+1:]...)
		}
		if err := sameGroups(got.groups, want); err != nil {
			t.Fatalf("byte %d of group %d: %v", at, victim, err)
		}
		switch last := len(w.places) - 1; {
		case victim == last:
			if !got.s.Torn || len(got.s.Holes) != 0 || got.s.Expected != 43 {
				t.Fatalf("byte %d: %+v", at, got.s)
			}
		case victim >= 0:
			missing := w.places[victim].header.Sequence
			if len(got.s.Holes) != 1 || got.s.Holes[0].First != missing || got.s.Holes[0].Next != missing+1 {
				t.Fatalf("byte %d of group %d: holes %v", at, victim, got.s.Holes)
			}
		}
	}
}

func TestJournalScanEveryTruncation(t *testing.T) {
	w := smallJournal()
	for size := FileHeaderBytes; size < len(w.bytes); size++ {
		got := scanJournal(t, w.bytes[:size], 40)
		whole := 0
		for _, p := range w.places {
			if p.position+GroupHeaderBytes+int64(len(p.body)) <= int64(size) {
				whole++
			}
		}
		if err := sameGroups(got.groups, w.places[:whole]); err != nil || len(got.s.Holes) != 0 {
			t.Fatal(size, err, got.s.Holes)
		}
	}
}

// TestJournalScanTornBeforeUnsyncedGroup: two groups without sync were in
// flight, the first is torn, the second whole. It was never acked; both go.
func TestJournalScanTornBeforeUnsyncedGroup(t *testing.T) {
	w := newJournalWriter(testJournalHeader(1), 1)
	w.group(0, 2)
	w.group(1, 2)
	w.group(1, 2)
	w.bytes[w.places[1].position+80] ^= 1
	got := scanJournal(t, w.bytes, 1)
	if len(got.groups) != 1 || !got.s.Torn || got.s.Beyond != 1 || len(got.s.Holes) != 0 || got.s.Expected != 2 {
		t.Fatalf("%d groups, %+v", len(got.groups), got.s)
	}
	// The same with zeros in the first's place.
	clear(w.bytes[w.places[1].position:w.places[2].position])
	got = scanJournal(t, w.bytes, 1)
	if len(got.groups) != 1 || !got.s.Torn || got.s.Beyond != 1 {
		t.Fatalf("%d groups, %+v", len(got.groups), got.s)
	}
}

// TestJournalScanRestart: recovery cut a torn group and a whole one beyond it,
// and went on behind them with a higher sequence.
func TestJournalScanRestart(t *testing.T) {
	w := newJournalWriter(testJournalHeader(1), 1)
	w.group(0, 2)
	w.group(1, 2)
	w.group(1, 2)
	w.sequence, w.flags = 10, GroupRestart
	w.group(1, 1)
	w.flags = 0
	w.group(10, 1)
	w.bytes[w.places[1].position+80] ^= 1
	got := scanJournal(t, w.bytes, 1)
	want := []groupPlace{w.places[0], w.places[3], w.places[4]}
	if err := sameGroups(got.groups, want); err != nil || got.s.Torn || len(got.s.Holes) != 0 || got.s.Cut != 1 || got.s.Expected != 12 {
		t.Fatalf("%v %+v", err, got.s)
	}
	// Had the cut group been called synced by a later one, it would be damage.
	w = newJournalWriter(testJournalHeader(1), 1)
	w.group(0, 2)
	w.group(1, 2)
	w.group(2, 2)
	w.sequence, w.flags = 10, GroupRestart
	w.group(3, 1)
	w.bytes[w.places[1].position+80] ^= 1
	got = scanJournal(t, w.bytes, 1)
	if len(got.groups) != 3 || len(got.s.Holes) != 1 || got.s.Holes[0].First != 2 || got.s.Holes[0].Next != 3 {
		t.Fatalf("%d groups %+v", len(got.groups), got.s)
	}
}

// TestJournalScanRestartAfterDamage: a restart that names a group as accepted
// makes it damage when it is bad.
func TestJournalScanRestartAfterDamage(t *testing.T) {
	w := newJournalWriter(testJournalHeader(1), 1)
	w.group(0, 2)
	w.group(1, 2)
	w.sequence, w.flags = 10, GroupRestart
	w.group(2, 1)
	w.bytes[w.places[1].position+80] ^= 1
	got := scanJournal(t, w.bytes, 1)
	if len(got.groups) != 2 || len(got.s.Holes) != 1 || got.s.Holes[0].First != 2 || got.s.Cut != 0 {
		t.Fatalf("%d groups %+v", len(got.groups), got.s)
	}
}

func TestJournalScanFirstGroupDamaged(t *testing.T) {
	w := smallJournal()
	w.bytes[w.places[0].position] ^= 1
	for _, expect := range []uint64{0, 40} {
		got := scanJournal(t, w.bytes, expect)
		if len(got.groups) != 3 || len(got.s.Holes) != 1 || got.s.Holes[0].Next != 41 || got.s.Holes[0].First != expect {
			t.Fatalf("%d groups, %+v", len(got.groups), got.s)
		}
	}
}

func TestJournalScanRefusesForeignFiles(t *testing.T) {
	w := smallJournal()
	for name, change := range map[string]func(*FileHeader){
		"incarnation": func(h *FileHeader) { h.Incarnation[3]++ },
		"layout":      func(h *FileHeader) { h.Layout++ },
		"shard":       func(h *FileHeader) { h.Shard++ },
		"file number": func(h *FileHeader) { h.FileNumber++ },
	} {
		want := w.header
		change(&want)
		s := &JournalScanner{}
		if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), &want); !errors.Is(err, ErrFileForeign) || s.Next() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachFrame(t *testing.T) {
	w := smallJournal()
	frames := 0
	err := EachFrame(w.places[1].body, func(_ int, h *FrameHeader, payload []byte, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if start, err := ParseLogStart(payload); err != nil || int(start) != frames {
			t.Fatal(start, err)
		}
		frames++
		return nil
	})
	if err != nil || frames != 100 {
		t.Fatal(frames, err)
	}
	body := bytes.Clone(w.places[0].body)
	if err := EachFrame(body[:len(body)-1], func(int, *FrameHeader, []byte, error) error { return nil }); !errors.Is(err, ErrFrameShort) {
		t.Fatal(err)
	}
	// A kind of the future stops its own partition only.
	h := FrameHeader{Kind: 17, Partition: 99, Bytes: 3}
	future := make([]byte, FrameHeaderBytes+3)
	h.Put(future)
	var kinds []FrameKind
	err = EachFrame(append(future, body...), func(_ int, h *FrameHeader, _ []byte, err error) error {
		if (h.Kind == 17) != errors.Is(err, ErrFrameUnknown) {
			t.Fatal(h.Kind, err)
		}
		kinds = append(kinds, h.Kind)
		return nil
	})
	if err != nil || len(kinds) != 4 {
		t.Fatal(kinds, err)
	}
}

func FuzzJournalScanner(f *testing.F) {
	w := newJournalWriter(testJournalHeader(2), 5)
	w.group(4, 1)
	w.group(5, 2)
	f.Add(w.bytes[FileHeaderBytes : FileHeaderBytes+GroupHeaderBytes+len(w.places[0].body)])
	f.Add(w.bytes[FileHeaderBytes : FileHeaderBytes+core.DiskAlignment+GroupHeaderBytes+len(w.places[1].body)])
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(bytes.Clone(w.bytes[:FileHeaderBytes]), body...)
		got := scanJournal(t, b, 0)
		last := uint64(0)
		for _, g := range got.groups {
			if g.header.Sequence <= last && last != 0 {
				t.Fatal("sequences do not rise")
			}
			last = g.header.Sequence
			_ = EachFrame(g.body, func(int, *FrameHeader, []byte, error) error { return nil })
		}
	})
}
