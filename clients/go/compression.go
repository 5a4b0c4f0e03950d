package pulsemq

import "github.com/pulsemq/pulsemq/proto"

// Compression is how a producer packs the records of a batch. Consumers unpack whatever they meet.
type Compression = proto.Codec

// The kinds of compression.
const (
	CompressionNone   = proto.CodecNone
	CompressionGzip   = proto.CodecGzip
	CompressionSnappy = proto.CodecSnappy
	CompressionLZ4    = proto.CodecLZ4
	CompressionZstd   = proto.CodecZstd
)

// ParseCompression finds a compression by its name: none, gzip, snappy, lz4 or zstd.
func ParseCompression(name string) (Compression, error) { return proto.ParseCodec(name) }
