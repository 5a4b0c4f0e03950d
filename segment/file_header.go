package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/core"
)

// FileKind says what a file of the data folder holds.
type FileKind uint8

const (
	// FileJournal is one file of a shard's journal.
	FileJournal FileKind = 1
	// FileSegment is one segment of a partition's log.
	FileSegment FileKind = 2
	// FileIndex is the sparse index of a segment.
	FileIndex FileKind = 3
	// FileState is a partition's derived state at a segment's start.
	FileState FileKind = 4
	// FileMeta is a file of meta/.
	FileMeta FileKind = 5
	// FileHeld is what the journal held of a partition that could not be opened.
	FileHeld FileKind = 6
)

const (
	// FileHeaderBytes is the size of the header that every file starts with.
	FileHeaderBytes = 4096

	fileMagic   uint32 = 0x504d5144 // "PMQD"
	fileVersion uint16 = 1
	fileUsed           = 232 // bytes of the header in use; the rest is zero
)

// ErrFileHeader reports a file that does not start with a valid header.
var ErrFileHeader = errors.New("file header: bad magic or checksum")

// FileHeader is the first 4 KiB of every file: what it is and to whom it
// belongs. Fields that a kind does not use are zero.
//
//	0 magic u32 | 4 version u16 | 6 kind u8 | 7 zero | 8 incarnation 16 | 24 topic 16 |
//	40 partition u64 | 48 number u32 (partition's place in its topic) | 52 segment u32 |
//	56 base offset u64 | 64 base index u64 | 72 layout u32 | 76 shard u16 | 78 zero u16 |
//	80 file number u32 | 84 file generation u32 | 88 salt u64 | 96 replaces next u64 |
//	104 clean points, 8 of next offset i64 and time i64 | 4092 crc u32
type FileHeader struct {
	Kind           FileKind
	Incarnation    [16]byte // of the data folder: a foreign file is refused by it
	Topic          core.TopicID
	Partition      core.PartitionID
	Number         core.PartitionNumber
	Segment        core.SegmentNumber
	BaseOffset     core.Offset
	BaseIndex      core.Index
	Layout         uint32
	Shard          core.ShardID
	FileNumber     uint32
	FileGeneration uint32
	Salt           uint64

	// ReplacesNext is set in a segment that compaction wrote: it stands for all older
	// segments that begin at an index of [BaseIndex, ReplacesNext). Zero otherwise.
	ReplacesNext core.Index
	// Clean is how far compaction has come, and since when; see CleanPoint.
	Clean CleanPoints
}

// Put encodes the header into the first 4 KiB of b.
func (h *FileHeader) Put(b []byte) {
	b = b[:FileHeaderBytes]
	clear(b)
	binary.BigEndian.PutUint32(b[0:], fileMagic)
	binary.BigEndian.PutUint16(b[4:], fileVersion)
	b[6] = uint8(h.Kind)
	copy(b[8:], h.Incarnation[:])
	copy(b[24:], h.Topic[:])
	binary.BigEndian.PutUint64(b[40:], uint64(h.Partition))
	binary.BigEndian.PutUint32(b[48:], uint32(h.Number))
	binary.BigEndian.PutUint32(b[52:], uint32(h.Segment))
	binary.BigEndian.PutUint64(b[56:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint64(b[64:], uint64(h.BaseIndex))
	binary.BigEndian.PutUint32(b[72:], h.Layout)
	binary.BigEndian.PutUint16(b[76:], uint16(h.Shard))
	binary.BigEndian.PutUint32(b[80:], h.FileNumber)
	binary.BigEndian.PutUint32(b[84:], h.FileGeneration)
	binary.BigEndian.PutUint64(b[88:], h.Salt)
	binary.BigEndian.PutUint64(b[96:], uint64(h.ReplacesNext))
	for i, c := range h.Clean {
		binary.BigEndian.PutUint64(b[104+16*i:], uint64(c.Next))
		binary.BigEndian.PutUint64(b[112+16*i:], uint64(c.Time))
	}
	binary.BigEndian.PutUint32(b[FileHeaderBytes-4:], crc32.Checksum(b[:FileHeaderBytes-4], castagnoli))
}

// ParseFileHeader decodes and verifies a file's first 4 KiB.
func ParseFileHeader(b []byte) (FileHeader, error) {
	var h FileHeader
	if len(b) < FileHeaderBytes {
		return h, fmt.Errorf("%w: the file has %d bytes, a header has %d", ErrFileHeader, len(b), FileHeaderBytes)
	}
	b = b[:FileHeaderBytes]
	if binary.BigEndian.Uint32(b) != fileMagic ||
		binary.BigEndian.Uint32(b[FileHeaderBytes-4:]) != crc32.Checksum(b[:FileHeaderBytes-4], castagnoli) {
		return h, ErrFileHeader
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != fileVersion {
		return h, fmt.Errorf("file header: format version %d, this build reads version %d", v, fileVersion)
	}
	if b[7] != 0 || b[78] != 0 || b[79] != 0 || len(bytes.TrimLeft(b[fileUsed:FileHeaderBytes-4], "\x00")) != 0 {
		return h, fmt.Errorf("%w: unused bytes are not zero", ErrFileHeader)
	}
	h.Kind = FileKind(b[6])
	copy(h.Incarnation[:], b[8:])
	copy(h.Topic[:], b[24:])
	h.Partition = core.PartitionID(binary.BigEndian.Uint64(b[40:]))
	h.Number = core.PartitionNumber(binary.BigEndian.Uint32(b[48:]))
	h.Segment = core.SegmentNumber(binary.BigEndian.Uint32(b[52:]))
	h.BaseOffset = core.Offset(binary.BigEndian.Uint64(b[56:]))
	h.BaseIndex = core.Index(binary.BigEndian.Uint64(b[64:]))
	h.Layout = binary.BigEndian.Uint32(b[72:])
	h.Shard = core.ShardID(binary.BigEndian.Uint16(b[76:]))
	h.FileNumber = binary.BigEndian.Uint32(b[80:])
	h.FileGeneration = binary.BigEndian.Uint32(b[84:])
	h.Salt = binary.BigEndian.Uint64(b[88:])
	h.ReplacesNext = core.Index(binary.BigEndian.Uint64(b[96:]))
	for i := range h.Clean {
		h.Clean[i].Next = core.Offset(binary.BigEndian.Uint64(b[104+16*i:]))
		h.Clean[i].Time = int64(binary.BigEndian.Uint64(b[112+16*i:]))
	}
	return h, nil
}
