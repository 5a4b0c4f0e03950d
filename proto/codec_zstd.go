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

// zstdDecompress lets the decoder fill the room that dst has and no more. A frame need not say how long it becomes, and
// what it says need not be true; so the room doubles until the data fits or the bound is reached.
func zstdDecompress(dst, src []byte, bytesMax int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	start := len(dst)
	room := min(max(cap(dst)-start, 4*len(src), 4096), bytesMax)
	for {
		dst = slices.Grow(dst, room)
		out, err := d.DecodeAll(src, dst[:start:start+room])
		switch {
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, decompressCorrupt(CodecZstd, err)
		case room == bytesMax:
			return nil, decompressTooLarge(CodecZstd, bytesMax)
		}
		room = min(2*room, bytesMax)
	}
}
