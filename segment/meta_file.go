package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// checkMetaFile verifies a file of meta/: a file header, a body, and the body's
// checksum.
func checkMetaFile(b []byte) error {
	h, err := ParseFileHeader(b)
	if err != nil {
		return err
	}
	if h.Kind != FileMeta || len(b) < FileHeaderBytes+4 {
		return fmt.Errorf("%w: %v of %d bytes where a file of meta/ is expected", ErrFileHeader, h.Kind, len(b))
	}
	if binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[FileHeaderBytes:len(b)-4], castagnoli) {
		return fmt.Errorf("file of meta/: checksum mismatch")
	}
	return nil
}
