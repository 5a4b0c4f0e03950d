package payload

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/proto"
)

// storedBytesMax bounds what appendStored takes: below what one literal, block or frame of any codec can hold.
const storedBytesMax = 250

// xerialHeaderBytes is how many bytes begin a Snappy record area before its first block.
const xerialHeaderBytes = 16

// appendStored appends plain bytes in the format of a codec without compressing them, so that they can be patched
// where they lie. What proto.Compress makes of the rest may follow, and decompresses to one run of bytes with them; of
// Snappy's that is without its xerial header, which has come first.
//
//	gzip    a member whose deflate stream is one stored block, with the crc-32 of plain
//	snappy  a block that is one literal
//	lz4     a frame with one block that is not compressed; it has no checksum of its content
//	zstd    a frame with one raw block
func appendStored(b []byte, codec proto.Codec, plain []byte) []byte {
	n := len(plain)
	switch codec {
	case proto.CodecNone:
		return append(b, plain...)
	case proto.CodecGzip:
		b = append(b, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff) // deflate, no flags, no time, unknown system
		b = append(b, 1)                                     // the last block, stored
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
		b = binary.LittleEndian.AppendUint16(b, ^uint16(n))
		b = append(b, plain...)
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(plain))
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	case proto.CodecSnappy:
		head := binary.AppendUvarint(make([]byte, 0, 8), uint64(n))
		if n <= 60 {
			head = append(head, byte(n-1)<<2)
		} else {
			head = append(head, 60<<2, byte(n-1)) // the length takes one more byte
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(head)+n))
		b = append(b, head...)
		return append(b, plain...)
	case proto.CodecLZ4:
		// Version 1, independent blocks of at most 64 KiB; the last byte is the checksum of the two before it.
		b = append(b, 0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82)
		b = binary.LittleEndian.AppendUint32(b, uint32(n)|1<<31)
		b = append(b, plain...)
		return append(b, 0, 0, 0, 0)
	default: // zstd
		// One segment, whose size takes one byte; then a block header of 24 bits: last, raw, its size.
		b = append(b, 0x28, 0xb5, 0x2f, 0xfd, 0x20, byte(n))
		header := uint32(n)<<3 | 1
		b = append(b, byte(header), byte(header>>8), byte(header>>16))
		return append(b, plain...)
	}
}

// storedTrailerBytes is how many bytes appendStored writes behind the plain ones.
func storedTrailerBytes(codec proto.Codec) int {
	switch codec {
	case proto.CodecGzip:
		return 8 // crc-32 and size
	case proto.CodecLZ4:
		return 4 // the end of the frame
	}
	return 0
}
