package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// Kafka's clients write Snappy in the framing of the xerial library:
//
//	0x82 "SNAPPY" 0x00 | version i32 = 1 | compatible version i32 = 1 | blocks: (bytes i32 | one Snappy block)
//
// Some write one bare Snappy block. Both are read, the first is written.
var snappyMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	snappyHeaderBytes = 16
	snappyBlockBytes  = 32 << 10 // of input per block, as xerial has it
)

var errSnappyFraming = errors.New("the framing is broken")

func snappyCompress(dst, src []byte) []byte {
	dst = append(dst, snappyMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		block := src[:min(len(src), snappyBlockBytes)]
		src = src[len(block):]
		at := len(dst)
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(len(block)))
		out := snappy.Encode(dst[at+4:cap(dst)], block)
		binary.BigEndian.PutUint32(dst[at:at+4], uint32(len(out)))
		dst = dst[:at+4+len(out)]
	}
	return dst
}

func snappyDecompress(dst, src []byte, bytesMax int) ([]byte, error) {
	end := len(dst) + bytesMax
	if !bytes.HasPrefix(src, snappyMagic) {
		return snappyBlock(dst, src, end, bytesMax)
	}
	if len(src) < snappyHeaderBytes {
		return nil, decompressCorrupt(CodecSnappy, errSnappyFraming)
	}
	src = src[snappyHeaderBytes:]
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, decompressCorrupt(CodecSnappy, errSnappyFraming)
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return nil, decompressCorrupt(CodecSnappy, errSnappyFraming)
		}
		var err error
		if dst, err = snappyBlock(dst, src[:n], end, bytesMax); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return dst, nil
}

// snappyBlock appends one block, so that dst is at most end bytes long. A block says first how long it will be, and one
// byte of it makes at most 64: what claims more is refused before any room is made.
func snappyBlock(dst, block []byte, end, bytesMax int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, decompressCorrupt(CodecSnappy, err)
	}
	if n > end-len(dst) {
		return nil, decompressTooLarge(CodecSnappy, bytesMax)
	}
	if n > 64*len(block) {
		return nil, decompressCorrupt(CodecSnappy, snappy.ErrCorrupt)
	}
	dst = growBounded(dst, n, end)
	out, err := snappy.Decode(dst[len(dst):len(dst)+n], block)
	if err != nil {
		return nil, decompressCorrupt(CodecSnappy, err)
	}
	return dst[:len(dst)+len(out)], nil
}
