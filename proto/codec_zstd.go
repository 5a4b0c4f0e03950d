package proto

import (
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowBytesMax bounds the window that a frame may ask for. Encoders of all levels up to 19 stay within 8 MiB.
const zstdWindowBytesMax = 8 << 20

// One encoder and one decoder serve all callers: both keep a set of states inside and are safe for many goroutines.
var (
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowBytesMax), zstd.WithDecodeAllCapLimit(true))
	})
)

func zstdCompress(dst, src []byte) ([]byte, error) {
	e, err := zstdEncoder()
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(src, dst), nil
}

// zstdBlockBytesMax is the most that one block of a frame becomes.
const zstdBlockBytesMax = 128 << 10

// zstdDecompress lets the decoder fill the room that dst has and no more. Most frames say how long they become: they get
// that much room. The others, and those that lie, get room that doubles up to the bound, and a block more: the decoder
// fails in one way when a block does not fit and when it is broken, but one that had room for a whole block was broken.
func zstdDecompress(dst, src []byte, bytesMax int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	start := len(dst)
	var h zstd.Header
	if h.Decode(src) == nil && h.HasFCS {
		if h.FrameContentSize > uint64(bytesMax) {
			return nil, decompressTooLarge(CodecZstd, bytesMax)
		}
		n := int(h.FrameContentSize)
		dst = slices.Grow(dst, n)
		if out, err := d.DecodeAll(src, dst[:start:start+n]); err == nil {
			return out, nil
		}
	}
	room := min(max(4*len(src), 4096), bytesMax)
	for {
		dst = slices.Grow(dst, room+zstdBlockBytesMax)
		out, err := d.DecodeAll(src, dst[:start:start+room+zstdBlockBytesMax])
		n := len(out) - start
		switch {
		case err == nil && n <= bytesMax:
			return out, nil
		case err != nil && n <= room && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, decompressCorrupt(CodecZstd, err)
		case room == bytesMax:
			return nil, decompressTooLarge(CodecZstd, bytesMax)
		}
		room = min(2*room, bytesMax)
	}
}
