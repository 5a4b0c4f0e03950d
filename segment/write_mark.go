package segment

import (
	"errors"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/core"
)

// A write mark opens every segment write, so it is what the scanner looks for
// behind a damaged place. A long write may carry more of them between its
// frames, at any position: what one bad frame header costs ends at the next
// mark. Record batches are opaque bytes that a client chose: a
// batch may hold a copy of a segment file, marks and frames with good checksums
// included. A mark is therefore sealed with its file's random salt and its own
// position. A forged mark, one copied from another file and one written to the
// wrong place do not match.

// ErrMarkSeal reports a write mark that was made for another file or position.
var ErrMarkSeal = errors.New("write mark: made for another file or position")

// WriteMark is the decoded form of a FrameWriteMark. It has no payload.
type WriteMark struct {
	Partition core.PartitionID
	// Durable is the highest index of the partition known durable when the write was issued.
	Durable core.Index
	// Next is the next offset at the start of the write.
	Next core.Offset
	// Term and Generation are those in force when the write was issued.
	Term       core.Term
	Generation core.Generation
	// Salt is that of the segment's file header, Position where in the file the mark stands.
	Salt     uint64
	Position int64
}

// Put encodes the mark into the first FrameHeaderBytes of b.
func (m *WriteMark) Put(b []byte) {
	h := FrameHeader{
		Kind: FrameWriteMark, Partition: m.Partition, Index: m.Durable, BaseOffset: m.Next,
		Term: m.Term, Generation: m.Generation, AppendTime: markSeal(m.Salt, m.Position),
		PayloadCRC: crc32.Checksum(nil, castagnoli),
	}
	h.Put(b)
}

// markSeal stands in the header field of the append time, which a mark does not have.
func markSeal(salt uint64, position int64) int64 {
	// Positions are far below 2^56, so two positions of a file never share a seal.
	return int64(salt ^ uint64(position)*0x9e3779b97f4a7c15)
}

// checkMark tells whether a mark belongs to this place of this file.
func checkMark(h *FrameHeader, salt uint64, position int64) error {
	if h.Bytes != 0 || h.Span != 0 || h.AppendTime != markSeal(salt, position) {
		return ErrMarkSeal
	}
	return nil
}
