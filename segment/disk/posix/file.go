package posix

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

// File is an open file of a Folder. As a core.File it is used by one thread at a time,
// or by several that only read.
//
// It is not an os.File, which costs four objects on the heap each time that one is
// opened: a broker under load opens one for every state that it writes.
type File struct {
	folder *Folder
	path   string   // below the folder, for errors
	fd     int      // -1 once it is closed
	owner  *os.File // whose descriptor fd is, where os.Root has opened it; nil: the File's own
}

var _ core.File = (*File)(nil)

// FD is the descriptor, -1 of a file that is closed.
func (f *File) FD() int { return f.fd }

// ReadAt fills p; io.EOF says that the file ends before.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := read(unix.Pread, f.fd, p[done:], offset+int64(done))
		done += n
		if err != nil {
			return done, operating(f.failed("read", err))
		}
		if n == 0 {
			return done, io.EOF
		}
	}
	return done, nil
}

// WriteAt stores all of p.
func (f *File) WriteAt(p []byte, offset int64) (int, error) {
	n, err := write(unix.Pwrite, f.fd, p, offset)
	return n, operating(f.failed("write", err))
}

// Sync is fdatasync.
func (f *File) Sync() error { return operating(syncData(f)) }

// Size is the file's length.
func (f *File) Size() (int64, error) {
	size, err := f.size()
	return size, operating(err)
}

func (f *File) size() (int64, error) {
	var stat unix.Stat_t
	if err := f.stat(&stat); err != nil {
		return 0, err
	}
	return stat.Size, nil
}

func (f *File) stat(stat *unix.Stat_t) error {
	return f.failed("stat", retryInterrupted(func() error { return unix.Fstat(f.fd, stat) }))
}

// Truncate sets the file's length.
func (f *File) Truncate(size int64) error { return operating(f.truncate(size)) }

func (f *File) truncate(size int64) error {
	return f.failed("truncate", retryInterrupted(func() error { return unix.Ftruncate(f.fd, size) }))
}

// Allocate reserves and zeroes [offset, offset+length), growing the file.
func (f *File) Allocate(offset, length int64) error { return operating(allocate(f, offset, length)) }

// Close gives the descriptor back. The File may become another one, later.
func (f *File) Close() error { return operating(f.close()) }

func (f *File) close() error {
	if f.fd < 0 {
		return f.failed("close", fs.ErrClosed)
	}
	var err error
	if f.owner != nil {
		err = f.owner.Close()
	} else if err = unix.Close(f.fd); err == unix.EINTR {
		err = nil // the descriptor is gone, and what was written is not the worse for it
	}
	err = f.failed("close", err)
	f.fd, f.owner, f.path = -1, nil, ""
	f.folder.spares.put(f)
	return err
}

// failed says of what file an error is.
func (f *File) failed(what string, err error) error {
	if err == nil || err == core.ErrDiskShort {
		return err
	}
	var named *fs.PathError
	if errors.As(err, &named) {
		return err
	}
	return &fs.PathError{Op: what, Path: f.path, Err: err}
}
