package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// The file of an index: a file header that carries the segment's ids and its
// salt, then
//
//	0 entries u32 | 4 cursor bytes u32 | 8 end i64 | 16 next offset i64 | 24 last index u64 |
//	32 max timestamp i64 | 40 max timestamp offset i64 | 48 last append time i64 |
//	56 entries... | crc u32 over the file header and all of this
//
// with an entry as
//
//	0 offset i64 | 8 index u64 | 16 position i64 | 24 max timestamp i64 | 32 term u32
//
// More cursor bytes than an u32 holds are stored as its greatest value; files of builds
// that did not count them hold zero, and retention takes those bytes for records'.
//
// The salt ties it to one segment file: an index that was left behind by another
// file of the same name does not match.
const (
	indexHeadBytes  = 56
	indexEntryBytes = 36
)

// ErrIndexFile reports an index file that is cut short, flipped or inconsistent.
var ErrIndexFile = errors.New("index file: damaged")

// AppendIndexFile appends the file of a segment's index to b. segment is the
// header of the segment's own file.
func AppendIndexFile(b []byte, segment *FileHeader, x *Index) []byte {
	start := len(b)
	b = slices.Grow(b, FileHeaderBytes+indexHeadBytes+len(x.Entries)*indexEntryBytes+4)[:start+FileHeaderBytes]
	clear(b[start:])
	h := *segment
	h.Kind = FileIndex
	h.Put(b[start:])
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.Entries)))
	b = binary.BigEndian.AppendUint32(b, uint32(min(x.CursorBytes, math.MaxUint32)))
	b = binary.BigEndian.AppendUint64(b, uint64(x.End))
	b = binary.BigEndian.AppendUint64(b, uint64(x.NextOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(x.LastIndex))
	b = binary.BigEndian.AppendUint64(b, uint64(x.MaxTimestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(x.MaxTimestampOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(x.AppendTimeLast))
	for i := range x.Entries {
		e := &x.Entries[i]
		b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Index))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Position))
		b = binary.BigEndian.AppendUint64(b, uint64(e.MaxTimestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(e.Term))
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// ParseIndexFile decodes and verifies a whole index file.
func ParseIndexFile(b []byte) (FileHeader, *Index, error) {
	h, err := ParseFileHeader(b)
	if err != nil {
		return h, nil, err
	}
	if h.Kind != FileIndex {
		return h, nil, fmt.Errorf("%w: kind %d where an index (%d) is expected", ErrFileForeign, h.Kind, FileIndex)
	}
	if len(b) < FileHeaderBytes+indexHeadBytes+4 {
		return h, nil, fmt.Errorf("%w: %d bytes", ErrIndexFile, len(b))
	}
	p := b[FileHeaderBytes:]
	n := binary.BigEndian.Uint32(p)
	if want := FileHeaderBytes + indexHeadBytes + int64(n)*indexEntryBytes + 4; int64(len(b)) != want {
		return h, nil, fmt.Errorf("%w: %d bytes, %d entries take %d", ErrIndexFile, len(b), n, want)
	}
	if binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return h, nil, fmt.Errorf("%w: checksum mismatch", ErrIndexFile)
	}
	x := &Index{
		Entries:            make([]IndexEntry, n),
		CursorBytes:        int64(binary.BigEndian.Uint32(p[4:])),
		End:                int64(binary.BigEndian.Uint64(p[8:])),
		NextOffset:         core.Offset(binary.BigEndian.Uint64(p[16:])),
		LastIndex:          core.Index(binary.BigEndian.Uint64(p[24:])),
		MaxTimestamp:       int64(binary.BigEndian.Uint64(p[32:])),
		MaxTimestampOffset: core.Offset(binary.BigEndian.Uint64(p[40:])),
		AppendTimeLast:     int64(binary.BigEndian.Uint64(p[48:])),
	}
	if x.CursorBytes > max(0, x.End) {
		return h, nil, fmt.Errorf("%w: %d bytes of cursors in %d", ErrIndexFile, x.CursorBytes, x.End)
	}
	p = p[indexHeadBytes:]
	last := IndexEntry{Position: FileHeaderBytes - 1, MaxTimestamp: TimestampNone}
	for i := range x.Entries {
		e := IndexEntry{
			Offset:       core.Offset(binary.BigEndian.Uint64(p)),
			Index:        core.Index(binary.BigEndian.Uint64(p[8:])),
			Position:     int64(binary.BigEndian.Uint64(p[16:])),
			MaxTimestamp: int64(binary.BigEndian.Uint64(p[24:])),
			Term:         core.Term(binary.BigEndian.Uint32(p[32:])),
		}
		// A checksum says what was written, not that it makes sense.
		if e.Position <= last.Position || e.Position >= x.End || e.Offset < last.Offset || e.MaxTimestamp < last.MaxTimestamp {
			return h, nil, fmt.Errorf("%w: entry %d is out of order", ErrIndexFile, i)
		}
		x.Entries[i], last = e, e
		p = p[indexEntryBytes:]
	}
	x.lastEntry = last.Position
	if n == 0 {
		x.lastEntry = 0
	}
	x.framed = x.End
	return h, x, nil
}

// LoadIndex reads a segment's index file and compares it with the segment: the
// header of the segment's file and the point up to which the segment is known to
// be written. Any error means: rebuild, for this segment alone.
func LoadIndex(files core.FS, path string, segment *FileHeader, sealed SealedPoint) (*Index, error) {
	b, err := readFile(files, path, indexFileBytesMax)
	if err != nil {
		return nil, err
	}
	h, x, err := ParseIndexFile(b)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(&h, segment); err != nil {
		return nil, err
	}
	if h.Salt != segment.Salt || h.BaseOffset != segment.BaseOffset {
		return nil, fmt.Errorf("%w: made for another file of that name", ErrIndexStale)
	}
	if alignUp(x.End) != alignUp(sealed.Position) || x.LastIndex != sealed.Index || x.NextOffset != sealed.NextOffset {
		return nil, fmt.Errorf("%w: it ends at position %d, index %d, offset %d; the segment at %d, %d, %d",
			ErrIndexStale, x.End, x.LastIndex, x.NextOffset, sealed.Position, sealed.Index, sealed.NextOffset)
	}
	return x, nil
}

// indexFileBytesMax bounds an index file: a segment of 64 GiB at one entry per 64 KiB, with room.
const indexFileBytesMax = 64 << 20

// OpenIndex loads the index of a sealed segment, or rebuilds it from the segment
// and writes it anew. rebuilt says which; the segment's damage, if it was
// scanned, is in scanner.Holes. A failure to write the file is returned beside a
// good index: the next start rebuilds it again.
func OpenIndex(files core.FS, stem string, segment *FileHeader, sealed SealedPoint, scanner *Scanner) (x *Index, rebuilt bool, err error) {
	if x, err := LoadIndex(files, stem+IndexExtension, segment, sealed); err == nil {
		return x, false, nil
	}
	f, err := files.OpenRead(stem + LogExtension)
	if err != nil {
		return nil, true, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, true, err
	}
	if sealed.Position > 0 {
		size = min(size, alignUp(sealed.Position))
	}
	if err := scanner.Open(f, size, segment); err != nil {
		return nil, true, unreadable(err)
	}
	if sealed.Position > 0 {
		scanner.Past = sealed.Index + 1
	}
	x = NewIndex(segment.BaseOffset, segment.BaseIndex)
	if err := RebuildIndex(scanner, x); err != nil {
		return nil, true, unreadable(err)
	}
	return x, true, SaveIndex(files, stem+IndexExtension, segment, x)
}

// SaveIndex replaces a segment's index file. It is synced before it gets its name,
// so that a power cut leaves the old one or the new one; its name is not.
func SaveIndex(files core.FS, path string, segment *FileHeader, x *Index) error {
	return saveIndex(files, path+newSuffix, AppendIndexFile(nil, segment, x))
}

// saveIndex writes an index file under its fresh name first.
func saveIndex(files core.FS, fresh string, b []byte) error {
	if err := writeFile(files, fresh, b, true); err != nil {
		return err
	}
	return files.Rename(fresh, strings.TrimSuffix(fresh, newSuffix))
}
