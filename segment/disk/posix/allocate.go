package posix

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

// zeros is written where a file system cannot reserve space. It is aligned, for
// files that bypass the page cache, and nobody writes to it.
var zeros = func() []byte {
	const size = 1 << 20
	raw := make([]byte, size+core.DiskAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % core.DiskAlignment
	return raw[skip : skip+size : skip+size]
}()

// writeZeros fills [offset, offset+length).
func writeZeros(file *File, offset, length int64) error {
	for length > 0 {
		n, err := write(unix.Pwrite, file.fd, zeros[:min(length, int64(len(zeros)))], offset)
		if err != nil {
			return file.failed("write", err)
		}
		offset += int64(n)
		length -= int64(n)
	}
	return nil
}

// unsupported says that a file system does not know a call, rather than failed at it.
func unsupported(err error) bool {
	return err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL || err == unix.ENOTSUP
}
