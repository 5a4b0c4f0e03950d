package segment

import (
	"encoding/binary"

	"github.com/pulsemq/pulsemq/core"
)

// A flipped bit in a header of the journal would take with it everything that the
// header describes. Its checksum tells which byte was changed: of all headers that
// differ from this one in one byte, one has the stored checksum. Of garbage, one
// block in 2^18 could be taken for a header so, and the checksum of the body, which
// has to match as well, refuses that one. What cannot be restored is damage.

// mendTriesMax bounds the tries per file, each of which takes 16,000 checksums.
const mendTriesMax = 64

// mendHeader restores a 64-byte header of which one byte was changed. at is where its
// checksum stands, sum makes it anew. On false the header is as it was.
func mendHeader(b []byte, at int, sum func([]byte) uint32) bool {
	b = b[:FrameHeaderBytes]
	stored, have := binary.BigEndian.Uint32(b[at:]), sum(b)
	for shift := 0; shift < 32; shift += 8 {
		if (stored^have)&^(0xff<<shift) == 0 { // only the checksum itself is hurt
			binary.BigEndian.PutUint32(b[at:], have)
			return true
		}
	}
	for i := range b {
		if i >= at && i < at+4 {
			continue
		}
		was := b[i]
		for change := 1; change < 256; change++ {
			if b[i] = was ^ byte(change); sum(b) == stored {
				return true
			}
		}
		b[i] = was
	}
	return false
}

func groupHeaderCRC(b []byte) uint32 { return crcOf(b[:GroupHeaderBytes-4]) }

// mendable says whether a hurt header may be that of a group of this file: of magic
// and salt, one would be whole.
func mendable(b []byte, file *FileHeader) bool {
	return len(b) >= GroupHeaderBytes && (binary.BigEndian.Uint32(b) == groupMagic || binary.BigEndian.Uint64(b[40:]) == file.Salt)
}

// mendGroup restores the header of a group of this file. False: it is none, or
// more than one byte of it is hurt.
func mendGroup(w *scanWindow, at int64, file *FileHeader) (GroupHeader, bool) {
	var b [GroupHeaderBytes]byte
	if copy(b[:], w.view(at, GroupHeaderBytes)) < GroupHeaderBytes || !mendHeader(b[:], GroupHeaderBytes-4, groupHeaderCRC) {
		return GroupHeader{}, false
	}
	h, err := ParseGroupHeader(b[:])
	if err != nil || h.Salt != file.Salt || h.FileGeneration != file.FileGeneration || h.Layout != file.Layout || h.Shard != file.Shard ||
		h.Bytes > core.JournalGroupBytesMax {
		return h, false
	}
	body := w.view(at+GroupHeaderBytes, int(h.Bytes))
	return h, len(body) == int(h.Bytes) && crcOf(body) == h.BodyCRC
}

// mendBody restores the frame headers in a group's body, in place; true when the
// body is what its checksum says then.
func mendBody(body []byte, want uint32) bool {
	for at := 0; at+FrameHeaderBytes <= len(body); {
		h, err := ParseFrameHeader(body[at:])
		if err != nil && err != ErrFrameUnknown {
			if !mendHeader(body[at:], 8, frameHeaderCRC) {
				return false
			}
			if h, err = ParseFrameHeader(body[at:]); err != nil {
				return false
			}
		}
		at += FrameHeaderBytes + int(h.Bytes)
	}
	return crcOf(body) == want
}
