package proto

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// LZ4 is written by the library and its frames are read here, block by block into the caller's buffer. The library's own
// reader makes room for the largest block that a frame's header names, 4 MiB from seven bytes; this one knows how long a
// block becomes before it makes any room.
//
//	frame:  magic u32 | flags u8 | block size u8 | [content bytes u64] | header checksum u8 | blocks | 0 u32 | [checksum u32]
//	block:  bytes u32, top bit set when not compressed | data | [checksum u32]
//
// Integers in it are little-endian.
const (
	lz4Magic = 0x184d2204

	lz4FlagVersionMask     = 0xc0
	lz4FlagVersion         = 0x40
	lz4FlagIndependent     = 0x20 // blocks do not refer to the ones before them
	lz4FlagBlockChecksum   = 0x10
	lz4FlagContentBytes    = 0x08
	lz4FlagContentChecksum = 0x04
	lz4FlagReserved        = 0x02
	lz4FlagDictionary      = 0x01

	lz4BlockPlain  = 1 << 31
	lz4WindowBytes = 64 << 10
)

var (
	errLZ4Frame      = errors.New("the frame's header is broken")
	errLZ4Block      = errors.New("a block is broken")
	errLZ4Checksum   = errors.New("a checksum does not match")
	errLZ4Dictionary = errors.New("the frame needs a dictionary")
	errLZ4Content    = errors.New("the content is not as long as the frame says")
)

type lz4Writer struct {
	z   *lz4.Writer
	out sliceWriter
}

// Blocks of 64 KiB that do not refer to each other and no checksum of the content: what Kafka's clients write. The
// batch has its own checksum.
var lz4Writers = sync.Pool{New: func() any {
	z := lz4.NewWriter(nil)
	if err := z.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		panic(err) // options of our own that the library does not take: a bug
	}
	return &lz4Writer{z: z}
}}

func lz4Compress(dst, src []byte) ([]byte, error) {
	w := lz4Writers.Get().(*lz4Writer)
	defer lz4Writers.Put(w)
	w.out.b = dst
	w.z.Reset(&w.out)
	if _, err := w.z.Write(src); err != nil {
		return nil, err
	}
	if err := w.z.Close(); err != nil {
		return nil, err
	}
	dst, w.out.b = w.out.b, nil
	return dst, nil
}

// lz4Decompress appends the content of every frame in src, of which there is at least one.
func lz4Decompress(dst, src []byte, bytesMax int) ([]byte, error) {
	end := len(dst) + bytesMax
	for first := true; first || len(src) > 0; first = false {
		var err error
		if dst, src, err = lz4Frame(dst, src, end, bytesMax); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// lz4Frame appends the content of the frame that src starts with, so that dst is at most end bytes long, and returns
// what follows the frame.
func lz4Frame(dst, src []byte, end, bytesMax int) (out, rest []byte, err error) {
	corrupt := func(err error) ([]byte, []byte, error) { return nil, nil, decompressCorrupt(CodecLZ4, err) }
	h, src, err := lz4ParseHeader(src)
	if err != nil {
		return corrupt(err)
	}
	start := len(dst)
	for {
		if len(src) < 4 {
			return corrupt(errLZ4Block)
		}
		head := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if head == 0 {
			break
		}
		n := int(head &^ lz4BlockPlain)
		if n > h.blockBytesMax || n > len(src) {
			return corrupt(errLZ4Block)
		}
		block := src[:n]
		src = src[n:]
		if h.flags&lz4FlagBlockChecksum != 0 {
			if len(src) < 4 || binary.LittleEndian.Uint32(src) != xxh32(block) {
				return corrupt(errLZ4Checksum)
			}
			src = src[4:]
		}
		room := n
		if head&lz4BlockPlain == 0 {
			if room = lz4BlockBytes(block); room < 0 || room > h.blockBytesMax {
				return corrupt(errLZ4Block)
			}
		}
		if room > end-len(dst) {
			return nil, nil, decompressTooLarge(CodecLZ4, bytesMax)
		}
		dst = growBounded(dst, room, end)
		if head&lz4BlockPlain != 0 {
			dst = append(dst, block...)
			continue
		}
		var window []byte
		if h.flags&lz4FlagIndependent == 0 {
			window = dst[max(start, len(dst)-lz4WindowBytes):]
		}
		got, err := lz4.UncompressBlockWithDict(block, dst[len(dst):len(dst)+room], window)
		if err != nil || got != room {
			return corrupt(errLZ4Block)
		}
		dst = dst[:len(dst)+room]
	}
	if h.flags&lz4FlagContentChecksum != 0 {
		if len(src) < 4 || binary.LittleEndian.Uint32(src) != xxh32(dst[start:]) {
			return corrupt(errLZ4Checksum)
		}
		src = src[4:]
	}
	if h.flags&lz4FlagContentBytes != 0 && h.contentBytes != uint64(len(dst)-start) {
		return corrupt(errLZ4Content)
	}
	return dst, src, nil
}

// lz4Header is the header of a frame.
type lz4Header struct {
	flags         byte
	blockBytesMax int
	contentBytes  uint64 // when flags has lz4FlagContentBytes
}

// lz4ParseHeader reads the header that b starts with and returns what follows it.
func lz4ParseHeader(b []byte) (h lz4Header, rest []byte, err error) {
	if len(b) < 7 || binary.LittleEndian.Uint32(b) != lz4Magic {
		return h, nil, errLZ4Frame
	}
	h.flags = b[4]
	size := b[5] >> 4
	if h.flags&lz4FlagVersionMask != lz4FlagVersion || h.flags&lz4FlagReserved != 0 || b[5]&0x8f != 0 || size < 4 {
		return h, nil, errLZ4Frame
	}
	if h.flags&lz4FlagDictionary != 0 {
		return h, nil, errLZ4Dictionary
	}
	h.blockBytesMax = 1 << (8 + 2*size) // 4 is 64 KiB, 7 is 4 MiB
	n := 6
	if h.flags&lz4FlagContentBytes != 0 {
		if n += 8; len(b) <= n {
			return h, nil, errLZ4Frame
		}
		h.contentBytes = binary.LittleEndian.Uint64(b[6:])
	}
	if b[n] != byte(xxh32(b[4:n])>>8) {
		return h, nil, errLZ4Checksum
	}
	return h, b[n+1:], nil
}

// lz4BlockBytes is how long a block becomes, from its lengths alone; -1 when they do not add up. A block is a row of
// sequences: a token with two lengths of four bits, literals, and a match of which the last sequence has none. A length
// of 15 goes on in the bytes after it, as long as they are 255.
func lz4BlockBytes(b []byte) int {
	total := 0
	// more adds the bytes that a length goes on in.
	more := func(n int) int {
		if n < 15 {
			return n
		}
		for {
			if len(b) == 0 {
				return -1
			}
			c := b[0]
			b = b[1:]
			if n += int(c); c != 255 {
				return n
			}
		}
	}
	for len(b) > 0 {
		token := b[0]
		b = b[1:]
		literals := more(int(token >> 4))
		if literals < 0 || literals > len(b) {
			return -1
		}
		b = b[literals:]
		total += literals
		if len(b) == 0 {
			return total
		}
		if len(b) < 2 {
			return -1
		}
		b = b[2:] // how far back the match begins; the library checks it
		match := more(int(token & 15))
		if match < 0 {
			return -1
		}
		total += match + 4
	}
	return -1 // a block ends with literals
}

// xxh32 is the 32-bit xxHash with seed 0, which LZ4 frames use for their checksums.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := uint32(len(b))
	if len(b) >= 16 {
		// The seeds p1+p2, p2, 0 and -p1, as 32 bits hold them.
		v := [4]uint32{606290984, p2, 0, 1640531535}
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(b[4*i:])*p2, 13) * p1
			}
		}
		h += bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	} else {
		h += p5
	}
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
