package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

// EpochStart is where a leader epoch begins in a partition's log.
type EpochStart struct {
	Term   core.Term
	Index  core.Index  // of its first frame
	Offset core.Offset // the next offset at that frame
}

// epochTableMax bounds the table. Each unclean start adds an epoch, so thousands
// are years of crashes; when it is full the two oldest become one, which makes a
// reader of the very oldest records reset rather than continue.
const epochTableMax = 4096

const epochStartBytes = 20

// EpochTable is the list of a partition's leader epochs, which tells a reader
// whose epoch is past where its log and ours parted.
//
// Invariants: Term and Index rise strictly, Offset never falls; at most epochTableMax entries.
type EpochTable struct {
	Starts []EpochStart
}

// Add takes note of the first frame of a term, and of nothing else: later frames
// of a known term change nothing. It says whether the table grew.
func (t *EpochTable) Add(term core.Term, index core.Index, offset core.Offset) bool {
	if n := len(t.Starts); n > 0 {
		last := &t.Starts[n-1]
		if term <= last.Term {
			return false
		}
		core.Assert(index > last.Index && offset >= last.Offset, "a later epoch starts later")
	}
	if len(t.Starts) >= epochTableMax {
		// The older of the two keeps its start; offsets of the younger now answer
		// with the older term, so a reader that knows better is told to look.
		t.Starts = append(t.Starts[:1], t.Starts[2:]...)
	}
	t.Starts = append(t.Starts, EpochStart{Term: term, Index: index, Offset: offset})
	return true
}

// Last is the newest epoch; false when the log never had a frame.
func (t *EpochTable) Last() (EpochStart, bool) {
	if len(t.Starts) == 0 {
		return EpochStart{}, false
	}
	return t.Starts[len(t.Starts)-1], true
}

// TermAt is the term of the frame that holds an offset; false when the offset
// lies before the table.
func (t *EpochTable) TermAt(offset core.Offset) (core.Term, bool) {
	i := sort.Search(len(t.Starts), func(i int) bool { return t.Starts[i].Offset > offset })
	if i == 0 {
		return 0, false
	}
	return t.Starts[i-1].Term, true
}

// End answers a reader whose last record had the given term: the greatest term at
// or below it that this log holds, and the offset at which that term ends here.
// logEnd is the log's end, where the newest term ends. A reader whose position
// lies beyond the returned offset has read what this log no longer has. False:
// this log holds nothing so old, or the reader is of a term it never saw.
func (t *EpochTable) End(term core.Term, logEnd core.Offset) (core.Term, core.Offset, bool) {
	i := sort.Search(len(t.Starts), func(i int) bool { return t.Starts[i].Term > term })
	if i == 0 {
		return 0, 0, false
	}
	end := logEnd
	if i < len(t.Starts) {
		end = t.Starts[i].Offset
	}
	return t.Starts[i-1].Term, end, true
}

// Truncate forgets the epochs that begin at or behind a frame's index, when the
// log's frames from there on are gone.
func (t *EpochTable) Truncate(index core.Index) {
	i := sort.Search(len(t.Starts), func(i int) bool { return t.Starts[i].Index >= index })
	t.Starts = t.Starts[:i]
}

// Trim forgets epochs that end at or before the log's start. The one in which
// the log starts stays, as does the newest.
func (t *EpochTable) Trim(logStart core.Offset) {
	n := 0
	for n+1 < len(t.Starts) && t.Starts[n+1].Offset <= logStart {
		n++
	}
	if n > 0 {
		t.Starts = append(t.Starts[:0], t.Starts[n:]...)
	}
}

// Clone returns a copy that a worker may keep.
func (t *EpochTable) Clone() EpochTable {
	return EpochTable{Starts: append([]EpochStart(nil), t.Starts...)}
}

// ErrEpochTable reports an encoded table whose entries make no sense.
var ErrEpochTable = errors.New("epoch table: entries out of order")

// AppendEpochTable appends count u32 and the entries: term u32, index u64, offset u64.
func AppendEpochTable(b []byte, t *EpochTable) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.Starts)))
	for _, e := range t.Starts {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Term))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Index))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
	}
	return b
}

// ParseEpochTable decodes a table at the start of b and returns what follows it.
func ParseEpochTable(b []byte) (EpochTable, []byte, error) {
	var t EpochTable
	if len(b) < 4 {
		return t, nil, fmt.Errorf("%w: %d bytes", ErrEpochTable, len(b))
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	if n > epochTableMax || uint64(len(b)) < uint64(n)*epochStartBytes {
		return t, nil, fmt.Errorf("%w: %d entries in %d bytes, at most %d are allowed", ErrEpochTable, n, len(b), epochTableMax)
	}
	for i := range int(n) {
		e := EpochStart{
			Term:   core.Term(binary.BigEndian.Uint32(b)),
			Index:  core.Index(binary.BigEndian.Uint64(b[4:])),
			Offset: core.Offset(binary.BigEndian.Uint64(b[12:])),
		}
		if i > 0 {
			last := t.Starts[i-1]
			if e.Term <= last.Term || e.Index <= last.Index || e.Offset < last.Offset {
				return t, nil, fmt.Errorf("%w: entry %d", ErrEpochTable, i)
			}
		}
		t.Starts = append(t.Starts, e)
		b = b[epochStartBytes:]
	}
	return t, b, nil
}
