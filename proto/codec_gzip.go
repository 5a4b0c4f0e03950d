package proto

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Gzip is read and written as a stream. The stream objects are pooled: their tables are far larger than most batches.

// sliceWriter appends what is written to it.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// readBounded appends everything from r to dst, at most bytesMax bytes. The room grows with what has really come out,
// so a stream that claims much and holds little costs little.
func readBounded(dst []byte, r io.Reader, bytesMax int) ([]byte, error) {
	start := len(dst)
	for {
		room := bytesMax - (len(dst) - start)
		if room == 0 {
			// Full: the stream has to end here.
			var extra [1]byte
			switch _, err := io.ReadFull(r, extra[:]); {
			case err == nil:
				return nil, decompressTooLarge(CodecGzip, bytesMax)
			case errors.Is(err, io.EOF):
				return dst, nil
			default:
				return nil, decompressCorrupt(CodecGzip, err)
			}
		}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(len(dst)-start, 4096), room))
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), len(dst)+room)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return nil, decompressCorrupt(CodecGzip, err)
		}
	}
}

type gzipWriter struct {
	z   *gzip.Writer
	out sliceWriter
}

var gzipWriters = sync.Pool{New: func() any { return &gzipWriter{z: gzip.NewWriter(nil)} }}

func gzipCompress(dst, src []byte) ([]byte, error) {
	w := gzipWriters.Get().(*gzipWriter)
	defer gzipWriters.Put(w)
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

type gzipReader struct {
	z  gzip.Reader
	in bytes.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func gzipDecompress(dst, src []byte, bytesMax int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer gzipReaders.Put(r)
	r.in.Reset(src)
	defer r.in.Reset(nil)
	if err := r.z.Reset(&r.in); err != nil {
		return nil, decompressCorrupt(CodecGzip, err)
	}
	return readBounded(dst, &r.z, bytesMax)
}
