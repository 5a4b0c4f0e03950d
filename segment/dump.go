package segment

import (
	"errors"
	"fmt"
	"path"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Dump reports everything that one file of a data folder holds: segment, index,
// state, journal, or a file of meta/. It only reads, needs nothing but that file, and
// goes on behind damage. The error is about reading; damage is in the report.
func Dump(files core.FS, name string, r *Report) error {
	f, err := files.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	head := make([]byte, min(size, FileHeaderBytes))
	if _, err := f.ReadAt(head, 0); err != nil && int64(len(head)) < size {
		return err
	}
	h, err := ParseFileHeader(head)
	kind := h.Kind
	if err != nil {
		r.damage(DamageLine{File: name, End: min(size, FileHeaderBytes), What: err.Error()})
		kind = kindOfName(name)
	} else {
		r.add(newFileLine(name, size, &h))
	}
	switch kind {
	case FileSegment:
		dumpSegment(f, size, name, err != nil, r)
	case FileJournal:
		if err == nil {
			dumpJournal(f, size, name, r)
		}
	case FileIndex, FileState, FileMeta:
		b, err := readFile(files, name, stateFileBytesMax+indexFileBytesMax)
		if err != nil {
			return err
		}
		dumpWhole(b, kind, name, r)
	case FileHeld:
		b, err := readFile(files, name, heldWholeBytesMax)
		if err != nil {
			return err
		}
		dumpHeld(b, name, r)
	default:
		r.damaged(name, "neither its header nor its name says what it holds")
	}
	return r.Flush()
}

func dumpHeld(b []byte, name string, r *Report) {
	body, err := heldFrames(b)
	if err != nil {
		r.damaged(name, "%v", err)
		return
	}
	err = EachFrame(body, func(position int, h *FrameHeader, payload []byte, err error) error {
		line := newFrameLine(name, int64(FileHeaderBytes+position), h, payload)
		if err != nil {
			line.Detail = err.Error()
		}
		r.add(line)
		return nil
	})
	if err != nil {
		r.damaged(name, "%v", err)
	}
}

func kindOfName(name string) FileKind {
	switch path.Ext(name) {
	case LogExtension:
		return FileSegment
	case IndexExtension:
		return FileIndex
	case StateExtension:
		return FileState
	case ".jnl":
		return FileJournal
	case heldExtension:
		return FileHeld
	}
	return 0
}

func dumpSegment(f core.File, size int64, name string, headless bool, r *Report) {
	var s Scanner
	if headless {
		// A write mark gives back what a lost header said of partition and salt.
		if !s.salvage(f, size) {
			r.damaged(name, "no write mark at position %d, so the partition and the salt are not known", FileHeaderBytes)
			return
		}
		r.warn(name, "the header is lost; partition id %d and the salt are taken from the first write mark", s.Header.Partition)
	} else if err := s.Open(f, size, nil); err != nil {
		r.damaged(name, "%v", err)
		return
	}
	shown := 0
	for s.Next() {
		for ; shown < len(s.Holes); shown++ {
			r.damage(holeLine(name, s.Holes[shown], s.Header.Partition, false))
		}
		r.add(newFrameLine(name, s.Position, &s.Frame, s.Payload))
	}
	for ; shown < len(s.Holes); shown++ {
		r.damage(holeLine(name, s.Holes[shown], s.Header.Partition, false))
	}
	switch {
	case s.Err() != nil:
		r.damaged(name, "%v", s.Err())
	case s.Torn:
		// Frames that a mark of this very file calls durable are no torn tail.
		torn := s.Durable < s.Tail.IndexFirst && !errors.Is(s.Tail.Cause, ErrUnreadable)
		r.damage(holeLine(name, s.Tail, s.Header.Partition, torn))
	}
}

// salvage opens a segment whose header is lost.
func (s *Scanner) salvage(f core.File, size int64) bool {
	s.reset(f, size)
	h, err := ParseFrameHeader(s.window.view(FileHeaderBytes, FrameHeaderBytes))
	if err != nil || h.Kind != FrameWriteMark {
		return false
	}
	s.Header = FileHeader{Kind: FileSegment, Partition: h.Partition, Salt: uint64(h.AppendTime ^ markSeal(0, FileHeaderBytes))}
	s.at, s.End = FileHeaderBytes, FileHeaderBytes
	return true
}

func dumpJournal(f core.File, size int64, name string, r *Report) {
	var s JournalScanner
	if err := s.Open(f, size, nil); err != nil {
		r.damaged(name, "%v", err)
		return
	}
	shown := 0
	// last is the newest frame of each partition; what is missing behind it when the
	// next one comes, with a hole between them, is what the hole took.
	type point struct {
		index  core.Index
		next   core.Offset
		behind int // holes shown when it was met
	}
	last := map[core.PartitionID]point{}
	holes := func() {
		for ; shown < len(s.Holes); shown++ {
			h := s.Holes[shown]
			r.damage(DamageLine{File: name, Start: h.Start, End: h.End, What: journalHoleText(h)})
		}
	}
	follows := func(h *FrameHeader) {
		if !frameIndexed(h.Kind) {
			return
		}
		if l, ok := last[h.Partition]; ok && l.behind < shown && h.Index > l.index+1 && h.BaseOffset > l.next {
			base, next := l.next, h.BaseOffset
			r.damage(DamageLine{File: name, What: "frames are missing, here or written to a segment only", Partition: h.Partition,
				IndexFirst: l.index + 1, IndexNext: h.Index, OffsetFirst: &base, OffsetNext: &next})
		}
		last[h.Partition] = point{h.Index, h.Next(), shown}
	}
	for s.Next() {
		holes()
		r.add(newGroupLine(name, s.Position, &s.Group))
		start := s.Position + GroupHeaderBytes
		if err := EachFrame(s.Body, func(position int, h *FrameHeader, payload []byte, err error) error {
			line := newFrameLine(name, start+int64(position), h, payload)
			if err != nil {
				line.Detail = err.Error()
			} else {
				follows(h)
			}
			r.add(line)
			if errors.Is(err, ErrFramePayload) {
				at := start + int64(position)
				r.damage(DamageLine{File: name, Start: at, End: at + FrameHeaderBytes + int64(h.Bytes), What: err.Error(), Partition: h.Partition,
					IndexFirst: h.Index, IndexNext: h.Index + 1})
			}
			return nil
		}); err != nil {
			r.damage(DamageLine{File: name, Start: s.Position, End: s.End, What: err.Error()})
		}
	}
	holes()
	if s.Err() != nil {
		r.damaged(name, "%v", s.Err())
	} else if s.Torn {
		r.damage(journalTail(name, size, &s))
	}
}

func journalHoleText(h JournalHole) string {
	return fmt.Sprintf("groups of sequence [%d, %d) are missing, a later group calls them synced: %v", h.First, h.Next, h.Cause)
}

// journalTail is the line of a journal file's torn end.
func journalTail(name string, size int64, s *JournalScanner) DamageLine {
	what := fmt.Sprintf("the group of sequence %d is not whole: %v", s.Expected, s.TornCause)
	if s.Beyond > 0 {
		what += fmt.Sprintf("; %d whole groups beyond it, none of which was synced", s.Beyond)
	}
	return DamageLine{File: name, Start: s.End, End: size, Torn: !errors.Is(s.TornCause, ErrUnreadable), What: what}
}

// dumpWhole reports the files that are read as a whole.
func dumpWhole(b []byte, kind FileKind, name string, r *Report) {
	switch kind {
	case FileIndex:
		_, x, err := ParseIndexFile(b)
		if err != nil {
			r.damaged(name, "%v; it is rebuilt from its segment at the next start", err)
			return
		}
		for i := range x.Entries {
			e := &x.Entries[i]
			r.add(&EntryLine{"entry", name, e.Offset, e.Index, e.Term, e.Position, timestampOrNull(e.MaxTimestamp)})
		}
		r.add(&IndexLine{"index", name, len(x.Entries), x.End, x.NextOffset, x.LastIndex, timestampOrNull(x.MaxTimestamp),
			x.MaxTimestampOffset, wallClock(x.AppendTimeLast), x.CursorBytes})
	case FileState:
		_, s, err := ParseStateFile(b)
		if err != nil {
			r.damaged(name, "%v; the one before it and the log stand in", err)
			return
		}
		line := &StateLine{Line: "state", File: name, Index: s.Index, Term: s.Term, Generation: s.Generation, Segment: uint32(s.Segment),
			Position: s.Position, NextOffset: s.NextOffset, LogStart: s.LogStart, OwnerBytes: len(s.Owner), Epochs: []EpochLine{}}
		for _, e := range s.Epochs.Starts {
			line.Epochs = append(line.Epochs, EpochLine{e.Term, e.Index, e.Offset})
		}
		r.add(line)
	case FileMeta:
		if err := checkMetaFile(b); err != nil {
			r.damaged(name, "%v", err)
		}
	}
}

func timestampOrNull(t int64) *int64 {
	if t == TimestampNone {
		return nil
	}
	return &t
}

// newFrameLine describes a frame and the batches in it.
func newFrameLine(name string, position int64, h *FrameHeader, payload []byte) *FrameLine {
	l := &FrameLine{Line: "frame", File: name, Position: position, Kind: h.Kind.String(), Partition: h.Partition, Index: h.Index,
		Term: h.Term, Generation: h.Generation, BaseOffset: h.BaseOffset, NextOffset: h.Next(), Bytes: h.Bytes}
	if h.Kind != FrameWriteMark {
		l.AppendTime = wallClock(h.AppendTime)
	}
	switch h.Kind {
	case FrameWriteMark:
		l.Detail = fmt.Sprintf("durable up to index %d", h.Index)
	case FrameGeneration:
		l.Detail = fmt.Sprintf("generation %d begins at index %d", h.Generation, h.Index)
	case FrameControl:
		if start, err := ParseLogStart(payload); err == nil {
			l.Detail = fmt.Sprintf("log start %d", start)
		} else {
			l.Detail = err.Error()
		}
	case FrameCheckpoint:
		n := 0
		if err := ParseCheckpoints(payload, func(*Checkpoint) { n++ }); err != nil {
			l.Detail = err.Error()
		} else {
			l.Detail = fmt.Sprintf("%d entries", n)
		}
	case FrameData:
		if h.Bytes == 0 {
			l.Detail = "all records compacted away"
		}
		if err := eachBatch(payload, func(_ int, b proto.Batch) error {
			l.Batches = append(l.Batches, newBatchLine(b))
			return nil
		}); err != nil {
			l.Detail = err.Error()
		}
	}
	return l
}

func newBatchLine(b proto.Batch) BatchLine {
	l := BatchLine{BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Epoch: b.LeaderEpoch(), Records: b.Count(), Codec: b.Codec().String(),
		Bytes: len(b), AppendTime: b.TimestampType() == proto.TimestampAppend, BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence()}
	if err := b.ValidateCRC(); err != nil {
		l.Problem = err.Error()
	}
	return l
}
