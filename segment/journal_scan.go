package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/pulsemq/pulsemq/core"
)

var (
	// ErrGroupStale reports a group of an earlier life of a recycled file, or of another file.
	ErrGroupStale = errors.New("journal group: of an earlier generation of the file")
	// ErrGroupSequence reports a valid group whose sequence does not follow.
	ErrGroupSequence = errors.New("journal group: sequence does not follow")
)

// JournalHole is a place of a journal file where groups are missing that a later
// group calls synced: damage, never a torn tail.
type JournalHole struct {
	Start, End int64  // positions, [Start, End)
	First      uint64 // sequences that are missing, [First, Next); First 0 is not known
	Next       uint64
	Cause      error
}

func (h JournalHole) String() string {
	return fmt.Sprintf("positions [%d, %d): sequences [%d, %d): %v", h.Start, h.End, h.First, h.Next, h.Cause)
}

// JournalScanner walks the groups of one journal file. Only groups with the
// file's own generation and salt count: older ones are what recycling left, and
// bytes that clients sent never carry the salt.
//
//	for js.Next() { use js.Group, js.Body, js.Position; EachFrame(js.Body, ...) }
//
// The verdict about the last group crosses files: when the next file's first
// group calls js.Expected synced, what looks like a torn or clean end here is damage.
type JournalScanner struct {
	Header FileHeader

	// Group, Body and Position describe the group found by the last Next. Body is a
	// view into the window, good until the next call.
	Group    GroupHeader
	Body     []byte
	Position int64

	// Holes are places of damage, each with a valid group behind it.
	Holes []JournalHole

	// After Next returned false: End is the boundary behind the last group that was
	// returned, Expected the sequence that would follow (0: the file holds none).
	End      int64
	Expected uint64
	// Torn says that behind End something was written that is no whole group. It
	// was never called synced by anything in this file.
	Torn      bool
	TornCause error
	// Beyond counts valid groups behind the torn one: issued before it was known to
	// be written, so never acked, and dropped with it.
	Beyond int
	// Cut counts whole groups that a restart declared void.
	Cut int
	// SyncedMax is the highest sequence that any valid group of the file, also one
	// beyond the torn end, calls synced.
	SyncedMax uint64

	window  scanWindow
	err     error
	at      int64
	started bool
	done    bool
}

// Open begins a scan behind the file header. want, if not nil, says what the
// file must be: incarnation, layout, shard and file number are compared.
func (s *JournalScanner) Open(r io.ReaderAt, size int64, want *FileHeader) error {
	w := s.window
	w.reset(r, size)
	*s = JournalScanner{window: w, Holes: s.Holes[:0]}
	h, err := ParseFileHeader(s.window.view(0, FileHeaderBytes))
	if err != nil {
		return s.fail(err)
	}
	if h.Kind != FileJournal {
		return s.fail(fmt.Errorf("%w: kind %d where a journal (%d) is expected", ErrFileForeign, h.Kind, FileJournal))
	}
	if want != nil {
		switch {
		case h.Incarnation != want.Incarnation:
			err = fmt.Errorf("%w: incarnation %x, this data folder is %x", ErrFileForeign, h.Incarnation, want.Incarnation)
		case h.Layout != want.Layout || h.Shard != want.Shard || h.FileNumber != want.FileNumber:
			err = fmt.Errorf("%w: layout %d, shard %d, file %d; expected %d, %d, %d", ErrFileForeign,
				h.Layout, h.Shard, h.FileNumber, want.Layout, want.Shard, want.FileNumber)
		}
		if err != nil {
			return s.fail(err)
		}
	}
	s.Header = h
	s.at, s.End = FileHeaderBytes, FileHeaderBytes
	return nil
}

// salvage opens a journal file whose header is lost: its newest group says which
// groups belong together. False: there is no group.
func (s *JournalScanner) salvage(r io.ReaderAt, size int64, want *FileHeader) bool {
	w := s.window
	w.reset(r, size)
	*s = JournalScanner{window: w, Holes: s.Holes[:0], Header: *want, at: FileHeaderBytes, End: FileHeaderBytes}
	var found bool
	s.Header.Salt, s.Header.FileGeneration, found = newestGroup(&s.window, want.Layout, want.Shard)
	s.done = !found
	return found
}

// Expect tells the sequence with which this file continues the journal, from the
// file before it.
func (s *JournalScanner) Expect(sequence uint64) {
	core.Assert(s.Position == 0, "the first sequence is told before the first group is read")
	s.Expected, s.started = sequence, true
}

func (s *JournalScanner) fail(err error) error {
	s.err, s.done = err, true
	return err
}

// Err is what ended the scan before the end of the file: a group of an unknown
// version, or a device that gives nothing.
func (s *JournalScanner) Err() error { return s.err }

// Next finds the next group.
func (s *JournalScanner) Next() bool {
	if s.done {
		return false
	}
	h, err := s.parse(s.at)
	if err == nil && s.started && h.Sequence != s.Expected && !s.restarts(&h) {
		err = fmt.Errorf("%w: %d where %d is expected", ErrGroupSequence, h.Sequence, s.Expected)
	}
	at := s.at
	if err != nil {
		at, h, err = s.resync(err)
		if err != nil {
			s.done = true
			return false
		}
	}
	// The look at what lies beyond a hole may have moved the window.
	s.Body = s.window.view(at+GroupHeaderBytes, int(h.Bytes))
	s.Group, s.Position, s.started = h, at, true
	s.SyncedMax = max(s.SyncedMax, h.Synced)
	s.Expected = h.Sequence + 1
	s.at = alignUp(at + GroupHeaderBytes + int64(h.Bytes))
	s.End = s.at
	return true
}

// restarts says whether a group opens a restart whose recovery accepted
// everything up to the last group here, or less: what it did not accept is void.
func (s *JournalScanner) restarts(h *GroupHeader) bool {
	return h.Flags&GroupRestart != 0 && h.Sequence >= s.Expected && h.Synced < s.Expected
}

// parse looks for a whole valid group of this file at a position.
func (s *JournalScanner) parse(at int64) (GroupHeader, error) {
	b := s.window.view(at, core.DiskAlignment)
	if allZero(b) {
		return GroupHeader{}, errScanZeros
	}
	h, err := ParseGroupHeader(b)
	if errors.Is(err, ErrGroupUnknown) && h.Salt == s.Header.Salt {
		s.fail(fmt.Errorf("%w: at position %d", ErrGroupUnknown, at))
		return h, err
	}
	if err != nil {
		return h, err
	}
	if h.FileGeneration != s.Header.FileGeneration || h.Salt != s.Header.Salt || h.Layout != s.Header.Layout || h.Shard != s.Header.Shard {
		return h, ErrGroupStale
	}
	if h.Bytes > core.JournalGroupBytesMax {
		return h, ErrGroupBody
	}
	_, _, err = ParseGroup(s.window.view(at, GroupHeaderBytes+int(h.Bytes)))
	return h, err
}

// resync looks at everything behind a place where the next group should stand.
// A later group that calls the missing one synced makes it damage, one that
// opens a restart says that recovery cut it: the scan goes on there. Otherwise
// the log ends here.
func (s *JournalScanner) resync(cause error) (int64, GroupHeader, error) {
	torn := !errors.Is(cause, errScanZeros) && !errors.Is(cause, ErrGroupStale)
	var found GroupHeader
	foundAt := int64(-1)
	beyond := 0
	for at := s.at; at < s.window.size && s.err == nil; {
		h, err := s.parse(at)
		if err != nil || s.started && h.Sequence < s.Expected {
			at += core.DiskAlignment
			continue
		}
		if s.started && s.restarts(&h) {
			s.Cut += beyond
			return at, h, nil
		}
		torn = true
		beyond++
		if foundAt < 0 {
			found, foundAt = h, at
		}
		// When nothing says with which sequence the file begins, at least the one
		// before the first group found is missing.
		missing := max(found.Sequence-1, 1)
		if s.started {
			missing = s.Expected
		}
		if s.SyncedMax = max(s.SyncedMax, h.Synced); s.SyncedMax >= missing && (s.started || found.Flags&GroupRestart == 0) {
			if s.window.badLast >= s.at {
				cause = fmt.Errorf("%w: %w", ErrUnreadable, s.window.err)
			}
			s.Holes = append(s.Holes, JournalHole{Start: s.at, End: foundAt, First: s.Expected, Next: found.Sequence, Cause: cause})
			return foundAt, found, nil
		}
		if !s.started && found.Flags&GroupRestart != 0 {
			return foundAt, found, nil
		}
		at = alignUp(at + GroupHeaderBytes + int64(h.Bytes))
	}
	if s.window.unreadable > scanUnreadableMax {
		s.fail(fmt.Errorf("%w: more than %d blocks, last: %w", ErrUnreadable, scanUnreadableMax, s.window.err))
	}
	if s.err != nil {
		return 0, found, s.err
	}
	if s.window.badLast >= s.at {
		cause = fmt.Errorf("%w: %w", ErrUnreadable, s.window.err)
		torn = true
	}
	s.Torn, s.Beyond = torn, beyond
	if torn {
		s.TornCause = cause
	}
	return 0, found, cause
}

// EachFrame calls each for the frames of a group's body, in order, with their
// place in the body. A frame that this build does not know comes with
// ErrFrameUnknown and no payload: it stops its own partition, not the others. One
// whose payload is hurt comes with ErrFramePayload and none either: a group that a
// change of the number of shards wrote is whole, also around frames that were
// damaged before.
func EachFrame(body []byte, each func(position int, h *FrameHeader, payload []byte, err error) error) error {
	for position := 0; position < len(body); {
		h, payload, err := ParseFrame(body[position:])
		if err != nil && !errors.Is(err, ErrFrameUnknown) && !errors.Is(err, ErrFramePayload) {
			return fmt.Errorf("frame at %d of a group's body: %w", position, err)
		}
		if int64(position)+FrameHeaderBytes+int64(h.Bytes) > int64(len(body)) {
			return fmt.Errorf("frame at %d of a group's body: %w", position, ErrFrameShort)
		}
		if e := each(position, &h, payload, err); e != nil {
			return e
		}
		position += FrameHeaderBytes + int(h.Bytes)
	}
	return nil
}
