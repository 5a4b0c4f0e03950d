package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/core"
)

// FrameKind says what a frame's payload is. Numbers are never reused.
type FrameKind uint8

const (
	// FrameData holds one or more whole record batches of one partition.
	FrameData FrameKind = 1
	// FrameNoop is the empty entry with which a leader opens its term.
	FrameNoop FrameKind = 2
	// FrameMembership holds a raft configuration change.
	FrameMembership FrameKind = 3
	// FrameCursor holds consumer progress, and in the groups' topic the groups.
	FrameCursor FrameKind = 4
	// FrameControl holds a change of the partition itself: its log start, its configuration.
	FrameControl FrameKind = 5
	// FrameGeneration says from which index on a generation is valid. Local to the replica.
	FrameGeneration FrameKind = 6
	// FrameWriteMark opens every segment write. Its index is the highest index of
	// the partition known durable when the write was issued. Local to the replica.
	FrameWriteMark FrameKind = 7
	// FrameCheckpoint holds checkpoint entries of many partitions. Local to the replica, journal only.
	FrameCheckpoint FrameKind = 8

	// 16..19 are kept for scheduled data, transaction marker, tiered range and encryption.
)

// String returns the kind's name as the dump tool prints it.
func (k FrameKind) String() string {
	switch k {
	case FrameData:
		return "data"
	case FrameNoop:
		return "noop"
	case FrameMembership:
		return "membership"
	case FrameCursor:
		return "cursor"
	case FrameControl:
		return "control"
	case FrameGeneration:
		return "generation"
	case FrameWriteMark:
		return "write-mark"
	case FrameCheckpoint:
		return "checkpoint"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

const (
	// FrameHeaderBytes is the size of a frame's header.
	FrameHeaderBytes = 64

	frameMagic   uint32 = 0x504d5146 // "PMQF"
	frameVersion uint8  = 1
)

// Castagnoli is the checksum of every format of this package.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrFrameShort reports bytes that end before the frame does.
	ErrFrameShort = errors.New("frame: cut short")
	// ErrFrameMagic reports bytes that are no frame at all (zeros, padding, garbage).
	ErrFrameMagic = errors.New("frame: no frame magic")
	// ErrFrameHeader reports a header whose checksum does not match.
	ErrFrameHeader = errors.New("frame: header checksum mismatch")
	// ErrFramePayload reports a payload whose checksum does not match.
	ErrFramePayload = errors.New("frame: payload checksum mismatch")
	// ErrFrameUnknown reports a valid header of a version, kind or flag that this
	// build does not know; recovery of that partition stops there and names it.
	ErrFrameUnknown = errors.New("frame: unknown version, kind or flag")
)

// FrameHeader is the decoded header of a frame.
type FrameHeader struct {
	Kind       FrameKind
	Flags      uint16 // none is defined yet
	PayloadCRC uint32 // Castagnoli over the payload
	Partition  core.PartitionID
	Index      core.Index
	Term       core.Term
	Generation core.Generation
	BaseOffset core.Offset // of the first record; for other kinds the next offset at that point
	Span       uint32      // offsets taken; only data has one
	Bytes      uint32      // payload bytes
	AppendTime int64       // wall clock, nanoseconds since the Unix epoch
}

// Next is the offset after the frame.
func (h *FrameHeader) Next() core.Offset { return h.BaseOffset + core.Offset(h.Span) }

// Put encodes the header, with its checksum, into the first 64 bytes of b.
func (h *FrameHeader) Put(b []byte) {
	_ = b[FrameHeaderBytes-1]
	binary.BigEndian.PutUint32(b[0:], frameMagic)
	b[4] = frameVersion
	b[5] = uint8(h.Kind)
	binary.BigEndian.PutUint16(b[6:], h.Flags)
	binary.BigEndian.PutUint32(b[12:], h.PayloadCRC)
	binary.BigEndian.PutUint64(b[16:], uint64(h.Partition))
	binary.BigEndian.PutUint64(b[24:], uint64(h.Index))
	binary.BigEndian.PutUint32(b[32:], uint32(h.Term))
	binary.BigEndian.PutUint32(b[36:], uint32(h.Generation))
	binary.BigEndian.PutUint64(b[40:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[48:], h.Span)
	binary.BigEndian.PutUint32(b[52:], h.Bytes)
	binary.BigEndian.PutUint64(b[56:], uint64(h.AppendTime))
	binary.BigEndian.PutUint32(b[8:], frameHeaderCRC(b))
}

// frameHeaderCRC covers the header but for the checksum itself.
func frameHeaderCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:8])
	return crc32.Update(crc, castagnoli, b[12:FrameHeaderBytes])
}

// ParseFrameHeader decodes and verifies a header. With ErrFrameUnknown the
// header's fields are filled in as far as version 1 defines them.
func ParseFrameHeader(b []byte) (FrameHeader, error) {
	var h FrameHeader
	if len(b) < FrameHeaderBytes {
		return h, ErrFrameShort
	}
	if binary.BigEndian.Uint32(b) != frameMagic {
		return h, ErrFrameMagic
	}
	if binary.BigEndian.Uint32(b[8:]) != frameHeaderCRC(b) {
		return h, ErrFrameHeader
	}
	h = FrameHeader{
		Kind:       FrameKind(b[5]),
		Flags:      binary.BigEndian.Uint16(b[6:]),
		PayloadCRC: binary.BigEndian.Uint32(b[12:]),
		Partition:  core.PartitionID(binary.BigEndian.Uint64(b[16:])),
		Index:      core.Index(binary.BigEndian.Uint64(b[24:])),
		Term:       core.Term(binary.BigEndian.Uint32(b[32:])),
		Generation: core.Generation(binary.BigEndian.Uint32(b[36:])),
		BaseOffset: core.Offset(binary.BigEndian.Uint64(b[40:])),
		Span:       binary.BigEndian.Uint32(b[48:]),
		Bytes:      binary.BigEndian.Uint32(b[52:]),
		AppendTime: int64(binary.BigEndian.Uint64(b[56:])),
	}
	if b[4] != frameVersion || h.Kind < FrameData || h.Kind > FrameCheckpoint || h.Flags != 0 {
		return h, ErrFrameUnknown
	}
	return h, nil
}

// ParseFrame decodes the frame at the start of b and verifies both checksums.
// The payload is a view into b.
func ParseFrame(b []byte) (FrameHeader, []byte, error) {
	h, err := ParseFrameHeader(b)
	if err != nil {
		return h, nil, err
	}
	if uint64(len(b)) < FrameHeaderBytes+uint64(h.Bytes) {
		return h, nil, ErrFrameShort
	}
	payload := b[FrameHeaderBytes : FrameHeaderBytes+int(h.Bytes)]
	if crc32.Checksum(payload, castagnoli) != h.PayloadCRC {
		return h, nil, ErrFramePayload
	}
	return h, payload, nil
}
