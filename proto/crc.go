package proto

import "hash/crc32"

// Every checksum here is CRC32C (Castagnoli): the processor computes it, and two of them can be combined without
// looking at the bytes again. That is how a batch whose header is patched gets its new checksum, and how storage makes
// the checksum of a frame from those of its batches.

// crcPolynomial is Castagnoli's, bit-reversed as the register holds it.
const crcPolynomial = crc32.Castagnoli

var crcTable = crc32.MakeTable(crcPolynomial)

// crcShifts[k][n] is x^(8*n*16^k) modulo the polynomial: the factor that moves a checksum over n*16^k bytes. A length of
// 32 bits has eight digits of four bits, so a shift is at most eight multiplications.
var crcShifts = func() (t [8][16]uint32) {
	base := uint32(1) << 23 // x^8
	for k := range t {
		t[k][0] = 1 << 31 // x^0
		for n := 1; n < 16; n++ {
			t[k][n] = crcMultiply(t[k][n-1], base)
		}
		base = crcMultiply(t[k][15], base)
	}
	return t
}()

// crcMultiply multiplies two polynomials modulo the CRC's. The top bit of a register is x^0.
func crcMultiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crcPolynomial&-(b&1)
	}
	return product
}

// crcShift is what a checksum becomes when n more bytes follow, but for those bytes' own checksum.
func crcShift(crc uint32, n int) uint32 {
	for k := 0; n > 0; k, n = k+1, n>>4 {
		if digit := n & 15; digit != 0 {
			crc = crcMultiply(crcShifts[k][digit], crc)
		}
	}
	return crc
}

// CRC is the CRC32C of b.
func CRC(b []byte) uint32 { return crc32.Checksum(b, crcTable) }

// CRCUpdate goes on from a checksum over what came before b.
func CRCUpdate(crc uint32, b []byte) uint32 { return crc32.Update(crc, crcTable, b) }

// CRCCombine is the checksum of a run of bytes followed by another one of secondBytes bytes, from the checksums of the
// two. secondBytes is below 2^32.
func CRCCombine(first, second uint32, secondBytes int) uint32 {
	return crcShift(first, secondBytes) ^ second
}
