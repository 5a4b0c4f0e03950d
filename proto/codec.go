package proto

import (
	"fmt"
	"slices"
	"strings"
)

// Codec is the compression of a batch's records; the numbers are Kafka's.
type Codec uint8

const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2 // in xerial framing
	CodecLZ4    Codec = 3 // in LZ4 frames
	CodecZstd   Codec = 4
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Valid reports whether there is such a codec.
func (c Codec) Valid() bool { return int(c) < len(codecNames) }

// String is the codec's name.
func (c Codec) String() string {
	if c.Valid() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec finds a codec by its name.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return 0, CodeUnsupportedCompression.Errorf("%q is no codec: choose one of %s", name, strings.Join(codecNames[:], ", "))
}

// Compress appends src, compressed, to dst.
func Compress(dst []byte, c Codec, src []byte) ([]byte, error) {
	switch c {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return gzipCompress(dst, src)
	case CodecSnappy:
		return snappyCompress(dst, src), nil
	case CodecLZ4:
		return lz4Compress(dst, src)
	case CodecZstd:
		return zstdCompress(dst, src)
	}
	return nil, CodeUnsupportedCompression.Errorf("there is no %s", c)
}

// Decompress appends src, decompressed, to dst. It never makes more than bytesMax bytes and never makes room for more,
// whatever src claims: it fails with BATCH_TOO_LARGE as soon as there would be one byte too many. Bytes that do not
// follow the codec's format fail with CORRUPT_BATCH.
func Decompress(dst []byte, c Codec, src []byte, bytesMax int) ([]byte, error) {
	bytesMax = max(bytesMax, 0)
	var err error
	switch c {
	case CodecNone:
		if len(src) > bytesMax {
			return nil, decompressTooLarge(c, bytesMax)
		}
		return append(dst, src...), nil
	case CodecGzip:
		dst, err = gzipDecompress(dst, src, bytesMax)
	case CodecSnappy:
		dst, err = snappyDecompress(dst, src, bytesMax)
	case CodecLZ4:
		dst, err = lz4Decompress(dst, src, bytesMax)
	case CodecZstd:
		dst, err = zstdDecompress(dst, src, bytesMax)
	default:
		return nil, CodeUnsupportedCompression.Errorf("there is no %s", c)
	}
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// growBounded makes room for n more bytes after dst. It grows in large steps, but never past end, the most that dst may
// hold.
func growBounded(dst []byte, n, end int) []byte {
	if len(dst)+n <= cap(dst) {
		return dst
	}
	return slices.Grow(dst, min(max(n, len(dst)), end-len(dst)))
}

func decompressTooLarge(c Codec, bytesMax int) error {
	return &Error{Code: CodeBatchTooLarge, Limit: uint64(max(bytesMax, 0)),
		Text: fmt.Sprintf("the %s records decompress to more than the %d bytes allowed", c, bytesMax)}
}

func decompressCorrupt(c Codec, err error) error {
	return batchErrorf(CodeCorruptBatch, BatchHeaderBytes, "the records are not %s: %v", c, err)
}
