package proto

import (
	"encoding/binary"
	"math/bits"
)

// The generated append and size methods are built from these.

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendBytes appends a length and the bytes; for strings and byte slices alike.
func appendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// appendTag appends the head of a tagged field: its tag and the size of its value.
func appendTag(b []byte, tag uint64, bodyBytes int) []byte {
	b = binary.AppendUvarint(b, tag)
	return binary.AppendUvarint(b, uint64(bodyBytes))
}

// sizeUvarint is the number of bytes that v takes as a uvarint.
func sizeUvarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeBytes is the size of n bytes with their length.
func sizeBytes(n int) int { return sizeUvarint(uint64(n)) + n }

// sizeTag is the size of a tagged field with its head.
func sizeTag(tag uint64, bodyBytes int) int {
	return sizeUvarint(tag) + sizeUvarint(uint64(bodyBytes)) + bodyBytes
}
