package proto

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// The check value of CRC32C in every catalogue of checksums.
func TestCRCKnown(t *testing.T) {
	if got := CRC([]byte("123456789")); got != 0xe3069283 {
		t.Fatalf("CRC is %#08x, want 0xe3069283", got)
	}
}

func TestCRCCombineEqualsDirect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(t, "a")
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		want := crc32.Checksum(append(append([]byte(nil), a...), b...), crc32.MakeTable(crc32.Castagnoli))
		if got := CRCCombine(CRC(a), CRC(b), len(b)); got != want {
			t.Fatalf("combined %#08x, direct %#08x", got, want)
		}
		if got := CRCUpdate(CRC(a), b); got != want {
			t.Fatalf("updated %#08x, direct %#08x", got, want)
		}
	})
}

// Lengths whose every group of four bits matters, which random slices do not reach.
func TestCRCCombineLong(t *testing.T) {
	long := make([]byte, 0x1234567)
	for i := range long {
		long[i] = byte(i * i >> 3)
	}
	for _, cut := range []int{0, 1, 15, 16, 255, 4096, 1 << 20, 0x1000000, len(long)} {
		if got, want := CRCCombine(CRC(long[:cut]), CRC(long[cut:]), len(long)-cut), CRC(long); got != want {
			t.Errorf("cut at %d: combined %#08x, direct %#08x", cut, got, want)
		}
	}
}

func BenchmarkCRCCombine(b *testing.B) {
	var crc uint32 = 1
	for b.Loop() {
		crc = CRCCombine(crc, 0x12345678, 1<<20-3)
	}
}
