package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// The file of a partition's derived state: a file header with the partition's
// ids and the segment, then
//
//	0 index u64 | 8 term u32 | 12 generation u32 | 16 position i64 | 24 next offset i64 |
//	32 log start i64 | 40 epoch table | owner bytes u32 | owner... | crc u32 over the file header and all of this
//
// A state may stand for any point of its segment. There is one file per segment,
// replaced as a whole, so the newest state of the partition is in the file of
// the highest point and an older one remains in the segment before.
const (
	stateHeadBytes = 40

	stateFileBytesMax = FileHeaderBytes + stateHeadBytes + 4 + epochTableMax*epochStartBytes + 4 + core.StateOwnerBytesMax + 4
)

var (
	// ErrStateFile reports a state file that is cut short, flipped or inconsistent.
	ErrStateFile = errors.New("state file: damaged")
	// ErrStateReadBack reports that a state file did not come back as it was written.
	ErrStateReadBack = errors.New("state file: reads back differently")
	// ErrStateUnusable reports state files of which none will do. Unless the log still
	// reaches back to its first frame, the partition must not start.
	ErrStateUnusable = errors.New("state file: none is usable")
)

// State is a partition's derived state at one point of its log: everything that
// the frames before that point said.
type State struct {
	Index      core.Index // of the last frame that is part of the state
	Term       core.Term  // of that frame
	Generation core.Generation
	Segment    core.SegmentNumber
	Position   int64 // in the segment: the first byte that is not part of the state, 4 KiB aligned
	NextOffset core.Offset
	LogStart   core.Offset
	Epochs     EpochTable
	Owner      []byte // what LogOwner.Snapshot wrote: producers, and later cursors and queues
}

// Sealed is the state's point as a place to scan from.
func (s *State) Sealed() SealedPoint {
	return SealedPoint{Segment: s.Segment, Position: s.Position, Index: s.Index, NextOffset: s.NextOffset}
}

// AppendStateFile appends the whole file of a state. segment is the header of
// the segment file in which the state's point lies.
func AppendStateFile(b []byte, segment *FileHeader, s *State) []byte {
	core.Assert(segment.Segment == s.Segment, "a state lies in the segment it names")
	core.Assert(len(s.Owner) <= core.StateOwnerBytesMax, "the owner's state is bounded")
	start := len(b)
	b = slices.Grow(b, stateFileBytes(s))[:start+FileHeaderBytes]
	clear(b[start:])
	h := *segment
	h.Kind = FileState
	h.Put(b[start:])
	b = binary.BigEndian.AppendUint64(b, uint64(s.Index))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Term))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Generation))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Position))
	b = binary.BigEndian.AppendUint64(b, uint64(s.NextOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(s.LogStart))
	b = AppendEpochTable(b, &s.Epochs)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Owner)))
	b = append(b, s.Owner...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// ParseStateFile decodes and verifies a whole state file. Owner is a view into b.
func ParseStateFile(b []byte) (FileHeader, *State, error) {
	h, err := ParseFileHeader(b)
	if err != nil {
		return h, nil, err
	}
	if h.Kind != FileState {
		return h, nil, fmt.Errorf("%w: kind %d where a state (%d) is expected", ErrFileForeign, h.Kind, FileState)
	}
	if len(b) < FileHeaderBytes+stateHeadBytes+4+4+4 {
		return h, nil, fmt.Errorf("%w: %d bytes", ErrStateFile, len(b))
	}
	if binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return h, nil, fmt.Errorf("%w: checksum mismatch", ErrStateFile)
	}
	p := b[FileHeaderBytes : len(b)-4]
	s := &State{
		Index:      core.Index(binary.BigEndian.Uint64(p)),
		Term:       core.Term(binary.BigEndian.Uint32(p[8:])),
		Generation: core.Generation(binary.BigEndian.Uint32(p[12:])),
		Segment:    h.Segment,
		Position:   int64(binary.BigEndian.Uint64(p[16:])),
		NextOffset: core.Offset(binary.BigEndian.Uint64(p[24:])),
		LogStart:   core.Offset(binary.BigEndian.Uint64(p[32:])),
	}
	if s.Position < FileHeaderBytes || s.Position%core.DiskAlignment != 0 || s.NextOffset < 0 || s.LogStart < 0 || s.LogStart > s.NextOffset {
		return h, nil, fmt.Errorf("%w: position %d, offsets [%d, %d)", ErrStateFile, s.Position, s.LogStart, s.NextOffset)
	}
	if s.Epochs, p, err = ParseEpochTable(p[stateHeadBytes:]); err != nil {
		return h, nil, fmt.Errorf("%w: %w", ErrStateFile, err)
	}
	if len(p) < 4 || uint64(binary.BigEndian.Uint32(p)) != uint64(len(p)-4) {
		return h, nil, fmt.Errorf("%w: %d bytes where the owner's part is expected", ErrStateFile, len(p))
	}
	s.Owner = p[4:]
	return h, s, nil
}

// StateWrite is the worker job that makes a state durable: written under a name
// of its own, synced, read back, moved into place, and the folder synced. Only
// then may what it replaces, in the journal or in segments, be removed.
type StateWrite struct {
	Files   core.FS
	Fresh   string     // what StateFresh makes: under this name it is written first
	Segment FileHeader // of the segment in which the state's point lies
	State   State      // Owner and Epochs are copies

	Err error // the outcome

	room []byte // of the file, and behind it of what comes back; kept for the next one
}

// StateFresh is the name under which the state file of a segment is written: the
// segment's path without its extension, and what says that it is not complete.
func StateFresh(stem string) string { return stem + StateExtension + newSuffix }

// Path is the file that the job writes.
func (w *StateWrite) Path() string { return strings.TrimSuffix(w.Fresh, newSuffix) }

// Run writes the file. The old one stays whole until the new one is proved.
func (w *StateWrite) Run() {
	size := stateFileBytes(&w.State)
	w.room = AppendStateFile(slices.Grow(w.room[:0], 2*size), &w.Segment, &w.State)
	b, room := w.room, w.room[size:2*size]
	name, fresh := w.Path(), w.Fresh
	// The proof is read from the fresh name, before it replaces anything.
	if w.Err = writeProved(w.Files, fresh, b, room); w.Err != nil {
		w.Err = errors.Join(w.Err, removeIfThere(w.Files, fresh))
		return
	}
	if w.Err = w.Files.Rename(fresh, name); w.Err == nil {
		w.Err = w.Files.SyncDir(path.Dir(name))
	}
}

// stateFileBytes is how long the file of a state is.
func stateFileBytes(s *State) int {
	return FileHeaderBytes + stateHeadBytes + 4 + len(s.Epochs.Starts)*epochStartBytes + 4 + len(s.Owner) + 4
}

// writeProved writes and syncs a file and compares what comes back. room is as long as
// the file.
func writeProved(files core.FS, name string, b, room []byte) error {
	if err := writeFile(files, name, b, true); err != nil {
		return err
	}
	got, err := readInto(files, name, room)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStateReadBack, err)
	}
	if string(got) != string(b) {
		return fmt.Errorf("%w: %s", ErrStateReadBack, name)
	}
	return nil
}

// StateCandidate is one state file found in a partition's folder.
type StateCandidate struct {
	Name  string
	State *State // nil when Err is set
	Err   error
}

// ListStates reads the state files of a partition's folder, best first: valid
// ones by falling index, then those that are bad, with the reason. want names the
// partition; its Segment is not compared.
func ListStates(files core.FS, dir string, want *FileHeader) ([]StateCandidate, error) {
	entries, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	var found []StateCandidate
	for _, entry := range entries {
		base, number, extension, ok := ParseSegmentName(entry.Name)
		if !ok || extension != StateExtension || entry.IsDir {
			continue
		}
		c := StateCandidate{Name: entry.Name}
		owner := *want
		owner.Segment = number
		c.State, c.Err = loadState(files, path.Join(dir, entry.Name), &owner, base)
		found = append(found, c)
	}
	sort.SliceStable(found, func(i, j int) bool {
		a, b := found[i].State, found[j].State
		switch {
		case a == nil || b == nil:
			return a != nil
		case a.Index != b.Index:
			return a.Index > b.Index
		}
		return a.Generation > b.Generation
	})
	return found, nil
}

func loadState(files core.FS, name string, want *FileHeader, base core.Offset) (*State, error) {
	b, err := readFile(files, name, stateFileBytesMax)
	if err != nil {
		return nil, err
	}
	h, s, err := ParseStateFile(b)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(&h, want); err != nil {
		return nil, err
	}
	if h.BaseOffset != base {
		return nil, fmt.Errorf("%w: base offset %d under the name of %d", ErrFileForeign, h.BaseOffset, base)
	}
	return s, nil
}

// LatestValidState returns the newest valid state for which usable holds, and
// falls back to those before it. bad are the files that were passed over because
// they are damaged. usable says whether the state's base still exists: its
// segment is there, its frames were not discarded by a later generation. Nil
// without error means that no state was ever written; ErrStateUnusable that there
// are files and none will do.
func LatestValidState(files core.FS, dir string, want *FileHeader, usable func(*State) bool) (state *State, bad []StateCandidate, err error) {
	found, err := ListStates(files, dir, want)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range found {
		switch {
		case c.Err != nil:
			bad = append(bad, c)
		case state == nil && usable(c.State):
			state = c.State
		}
	}
	if state == nil && len(found) > 0 {
		return nil, bad, fmt.Errorf("%w of %d in %s", ErrStateUnusable, len(found), dir)
	}
	return state, bad, nil
}

// IsUnfinished says whether a name is that of a file whose writer did not get to
// move it into place; recovery removes it.
func IsUnfinished(name string) bool { return strings.HasSuffix(name, newSuffix) }
