package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

// drawBytes draws bytes with stretches that compress and stretches that do not, up to a few blocks of any codec.
func drawBytes(t *rapid.T) []byte {
	var b []byte
	for range rapid.IntRange(0, 6).Draw(t, "stretches") {
		if rapid.Bool().Draw(t, "repeat") {
			unit := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "unit")
			b = append(b, bytes.Repeat(unit, rapid.IntRange(1, 4000).Draw(t, "times"))...)
		} else {
			b = append(b, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")...)
		}
	}
	return b
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := drawBytes(t)
		for _, c := range allCodecs {
			packed, err := Compress([]byte("before"), c, plain)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(packed, []byte("before")) {
				t.Fatalf("%s: what was there is gone", c)
			}
			got, err := Decompress([]byte("also"), c, packed[6:], len(plain))
			if err != nil {
				t.Fatalf("%s: %v", c, err)
			}
			if !bytes.Equal(got, append([]byte("also"), plain...)) {
				t.Fatalf("%s: %d bytes became %d others", c, len(plain), len(got)-4)
			}
			if len(plain) > 0 {
				if _, err := Decompress(nil, c, packed[6:], len(plain)-1); !errors.Is(err, ErrBatchTooLarge) {
					t.Fatalf("%s: one byte over the limit: %v", c, err)
				}
			}
		}
	})
}

// Damaged input is refused or becomes something within the limit; it never panics.
func TestCodecGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := drawBytes(t)
		for _, c := range allCodecs[1:] {
			packed, err := Compress(nil, c, plain)
			if err != nil {
				t.Fatal(err)
			}
			packed = packed[:rapid.IntRange(0, len(packed)).Draw(t, "cut")]
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				if len(packed) > 0 {
					packed[rapid.IntRange(0, len(packed)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "by")
				}
			}
			checkDecompress(t, c, packed, 10_000)
		}
	})
}

func checkDecompress(t interface{ Fatalf(string, ...any) }, c Codec, packed []byte, limit int) {
	got, err := Decompress(nil, c, packed, limit)
	if err == nil && len(got) > limit {
		t.Fatalf("%s: %d bytes with a limit of %d", c, len(got), limit)
	}
	if err != nil && !errors.Is(err, ErrCorruptBatch) && !errors.Is(err, ErrBatchTooLarge) {
		t.Fatalf("%s: %v has no code", c, err)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small input that claims or becomes very much costs no more memory than the limit allows.
func TestDecompressionBombs(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 64<<20)
	bombs := map[string]struct {
		codec Codec
		b     []byte
	}{
		// One Snappy block that claims 4 GiB, bare and framed.
		"snappy claim":        {CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}},
		"snappy framed claim": {CodecSnappy, append(append(bytes.Clone(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7), 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0)},
		// A block within the limit that its few bytes cannot become.
		"snappy small claim": {CodecSnappy, []byte{0xff, 0xff, 0x3f, 0, 0}},
		"snappy block bytes": {CodecSnappy, append(append(bytes.Clone(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1), 0xff, 0xff, 0xff, 0xff)},
		// A Zstandard frame header with a window of 1 GiB and one that claims a content of 2^62 bytes.
		"zstd window":  {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0x00, 0x00}},
		"zstd content": {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x01, 0x00, 0x00}},
	}
	for _, c := range allCodecs[1:] {
		packed, err := Compress(nil, c, zeros)
		if err != nil {
			t.Fatal(err)
		}
		bombs[c.String()+" zeros"] = struct {
			codec Codec
			b     []byte
		}{c, packed}
	}
	for name, bomb := range bombs {
		decompress := func() {
			if _, err := Decompress(nil, bomb.codec, bomb.b, limit); err == nil {
				t.Errorf("%s: was taken", name)
			}
		}
		decompress() // the first time fills the pools
		if n := allocated(decompress); n > 4*limit {
			t.Errorf("%s: %d bytes of input cost %d bytes of memory with a limit of %d", name, len(bomb.b), n, limit)
		}
	}
}

// A block that claims the whole limit but cannot become so long costs nothing near it.
func TestSnappyClaimCostsNothing(t *testing.T) {
	n := allocated(func() {
		if _, err := Decompress(nil, CodecSnappy, []byte{0xff, 0xff, 0x3f, 0, 0}, 1<<20); !errors.Is(err, ErrCorruptBatch) {
			t.Error(err)
		}
	})
	if n > 1<<16 {
		t.Errorf("%d bytes", n)
	}
}

// zstdStream writes a frame as a stream, which cannot say how long it becomes.
func zstdStream(t *testing.T, plain []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err != nil {
		t.Fatal(err)
	}
	for len(plain) > 0 {
		n := min(len(plain), 1<<20)
		if _, err := w.Write(plain[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		plain = plain[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Frames of other writers do not say how long they become: the room for them is found by trying.
func TestZstdWithoutContentSize(t *testing.T) {
	plain := make([]byte, 5<<20)
	for i := range plain {
		plain[i] = byte(i >> 12)
	}
	packed := zstdStream(t, plain)
	var h zstd.Header
	if err := h.Decode(packed); err != nil || h.HasFCS {
		t.Fatalf("not the frame this test needs: %+v, %v", h, err)
	}
	for _, limit := range []int{len(plain), len(plain) + 1, 64 << 20} {
		got, err := Decompress([]byte("before"), CodecZstd, packed, limit)
		if err != nil || !bytes.Equal(got[6:], plain) {
			t.Errorf("limit %d: %v, %d bytes", limit, err, len(got))
		}
	}
	for _, limit := range []int{0, 1, 4096, 1 << 20, len(plain) - 1} {
		if _, err := Decompress(nil, CodecZstd, packed, limit); !errors.Is(err, ErrBatchTooLarge) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	// Broken in the middle: not too large.
	bad := bytes.Clone(packed)
	bad[len(bad)/2] ^= 0xff
	if _, err := Decompress(nil, CodecZstd, bad, 64<<20); !errors.Is(err, ErrCorruptBatch) {
		t.Errorf("broken: %v", err)
	}
}

func TestZstdWindowIsBounded(t *testing.T) {
	plain := make([]byte, 2<<20)
	for window, taken := range map[int]bool{zstdWindowBytesMax: true, 2 * zstdWindowBytesMax: false} {
		packed := zstdStream(t, plain, zstd.WithWindowSize(window))
		_, err := Decompress(nil, CodecZstd, packed, len(plain))
		if taken != (err == nil) || !taken && !errors.Is(err, ErrCorruptBatch) {
			t.Errorf("window %d: %v", window, err)
		}
	}
}

// A frame that says it holds more or less than it does is broken, though every block of it is good.
func TestLZ4ContentSize(t *testing.T) {
	packed := lz4Frames(t, []byte("hello"), lz4.SizeOption(5), lz4.ChecksumOption(false))
	for _, n := range []uint64{4, 5, 6} {
		binary.LittleEndian.PutUint64(packed[6:], n)
		packed[14] = byte(xxh32(packed[4:14]) >> 8)
		if _, err := Decompress(nil, CodecLZ4, packed, 100); (err == nil) != (n == 5) {
			t.Errorf("5 bytes that claim to be %d: %v", n, err)
		}
	}
}

// lz4Frames writes frames with options that our own writer does not use.
func lz4Frames(t *testing.T, plain []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestLZ4ReadsEveryKindOfFrame(t *testing.T) {
	plain := make([]byte, 300_000)
	for i := range plain {
		plain[i] = byte(i>>4 ^ i>>10)
	}
	sum := lz4.ChecksumOption(true)
	for name, packed := range map[string][]byte{
		"small blocks":    lz4Frames(t, plain, lz4.BlockSizeOption(lz4.Block64Kb), sum),
		"large blocks":    lz4Frames(t, plain, lz4.BlockSizeOption(lz4.Block4Mb), sum),
		"block checksums": lz4Frames(t, plain, lz4.BlockChecksumOption(true), sum),
		"content size":    lz4Frames(t, plain, lz4.SizeOption(uint64(len(plain))), sum),
		"high level":      lz4Frames(t, plain, lz4.CompressionLevelOption(lz4.Level9), sum),
		"two frames":      append(lz4Frames(t, plain[:1000]), lz4Frames(t, plain[1000:])...),
		"an empty frame":  append(lz4Frames(t, nil), lz4Frames(t, plain)...),
	} {
		got, err := Decompress(nil, CodecLZ4, packed, len(plain))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %v, %d bytes", name, err, len(got))
		}
		for _, at := range []int{4, 5, 6, len(packed) / 2, len(packed) - 1} {
			bad := bytes.Clone(packed)
			bad[at] ^= 0x40
			got, err := Decompress(nil, CodecLZ4, bad, len(plain))
			if err == nil && name != "two frames" && name != "an empty frame" {
				t.Errorf("%s: with byte %d changed: taken, %d bytes", name, at, len(got))
			}
		}
	}
}

// Blocks that refer to the one before, which the library does not write: the first block is plain text, the second
// repeats eight bytes of it.
func TestLZ4LinkedBlocks(t *testing.T) {
	le := binary.LittleEndian
	frame := le.AppendUint32(nil, lz4Magic)
	frame = append(frame, lz4FlagVersion, 4<<4)
	frame = append(frame, byte(xxh32(frame[4:6])>>8))
	frame = le.AppendUint32(frame, lz4BlockPlain|8)
	frame = append(frame, "abcdefgh"...)
	// No literals and a match of 8 from 8 back; then five literals.
	second := []byte{0x04, 8, 0, 0x50, '1', '2', '3', '4', '5'}
	frame = le.AppendUint32(frame, uint32(len(second)))
	frame = append(frame, second...)
	frame = le.AppendUint32(frame, 0)
	got, err := Decompress([]byte("before"), CodecLZ4, frame, 100)
	if err != nil || string(got) != "beforeabcdefghabcdefgh12345" {
		t.Fatalf("%q, %v", got, err)
	}
	// A match that would reach back before the frame into what the caller had.
	second[1] = 9
	copy(frame[len(frame)-4-len(second):], second)
	if got, err := Decompress([]byte("before"), CodecLZ4, frame, 100); err == nil {
		t.Fatalf("reached before the frame: %q", got)
	}
}

// The values that xxHash's own documents give.
func TestXXH32(t *testing.T) {
	for text, want := range map[string]uint32{
		"":    0x02cc5d05,
		"abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(text)); got != want {
			t.Errorf("xxh32(%q) = %#08x, want %#08x", text, got, want)
		}
	}
}

// Snappy without framing, as some clients write it.
func TestSnappyBareBlock(t *testing.T) {
	bare := []byte{5, 4 << 2, 'h', 'e', 'l', 'l', 'o'}
	if got, err := Decompress(nil, CodecSnappy, bare, 5); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
}

// Two members or frames after one another are one record area.
func TestConcatenatedFrames(t *testing.T) {
	for _, c := range []Codec{CodecGzip, CodecLZ4, CodecZstd} {
		first, err := Compress(nil, c, []byte("one "))
		if err != nil {
			t.Fatal(err)
		}
		both, err := Compress(first, c, []byte("two"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decompress(nil, c, both, 7); err != nil || string(got) != "one two" {
			t.Errorf("%s: %q, %v", c, got, err)
		}
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range allCodecs {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrUnsupportedCompression) || !strings.Contains(err.Error(), "none, gzip, snappy, lz4, zstd") {
		t.Errorf("%v", err)
	}
	if _, err := Compress(nil, 5, nil); !errors.Is(err, ErrUnsupportedCompression) {
		t.Errorf("%v", err)
	}
	if _, err := Decompress(nil, 5, nil, 1); !errors.Is(err, ErrUnsupportedCompression) {
		t.Errorf("%v", err)
	}
}
