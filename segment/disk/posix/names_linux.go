package posix

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// beneath resolves names below a descriptor of the data folder with openat2 and
// RESOLVE_BENEATH: the kernel itself refuses a path that leads out of the folder, by
// a symbolic link or by one that is put there meanwhile, which is what os.Root does
// by opening every part of a path by itself.
//
// The calls are made with bytes on the stack. Those of golang.org/x/sys/unix take
// strings and make a copy of each on the heap for its NUL: a state file's names alone
// were a dozen objects, for every 64 MiB that a partition takes.
type beneath struct{ folder *os.File }

// pathRoom is what the paths of a data folder fit in; a longer one goes to the heap.
const pathRoom = 256

// errEscapes reports a path that leads out of the data folder by a symbolic link.
var errEscapes = errors.New("the path leads out of the data folder")

// newResolver tries openat2 on the folder itself. A kernel before Linux 5.6 does not
// know it and a sandbox may refuse it; os.Root does the same then.
func newResolver(root *os.Root) (resolver, error) {
	folder, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	b := &beneath{folder: folder}
	fd, err := b.openat(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		_ = folder.Close()
		return rooted{root}, nil
	}
	_ = unix.Close(fd)
	return b, nil
}

func (b *beneath) close() error { return b.folder.Close() }

// openat opens a path, which the folder itself has as ".".
func (b *beneath) openat(path string, flag int, mode uint64) (int, error) {
	var room [pathRoom]byte
	name := append(append(room[:0], path...), 0)
	how := unix.OpenHow{Flags: uint64(flag) | unix.O_CLOEXEC, Mode: mode, Resolve: unix.RESOLVE_BENEATH}
	for tries := 0; ; tries++ {
		// Not a raw system call: the scheduler must be able to hand this thread's work to others.
		fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT2, b.folder.Fd(), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case errno == 0:
			return int(fd), nil
		case errno == unix.EXDEV:
			return -1, errEscapes
		case !passes(errno, tries):
			return -1, errno
		}
	}
}

// parent opens the folder in which path has its last name. It is the caller's to close
// with release.
func (b *beneath) parent(path string) (fd int, name string, err error) {
	dir, name := splitPath(path)
	if dir == "" {
		dir = "."
	}
	fd, err = b.openat(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	return fd, name, err
}

func (b *beneath) open(path string, flag int) (int, *os.File, error) {
	mode := uint64(0)
	if flag&os.O_CREATE != 0 {
		mode = uint64(fileMode)
	}
	fd, err := b.openat(path, flag, mode)
	return fd, nil, pathFailed("openat", path, err)
}

// remove unlinks a file or an empty folder; the kernel has a call for each.
func (b *beneath) remove(path string) error {
	dir, name, err := b.parent(path)
	if err != nil {
		return pathFailed("unlinkat", path, err)
	}
	defer unix.Close(dir)
	failed := unlinkat(dir, name, 0)
	if failed != 0 && failed != unix.ENOENT {
		if as := unlinkat(dir, name, unix.AT_REMOVEDIR); as != unix.ENOTDIR {
			failed = as
		}
	}
	if failed != 0 {
		return pathFailed("unlinkat", path, failed)
	}
	return nil
}

// unlinkat follows no symbolic link: name is one name.
func unlinkat(dir int, name string, flags uintptr) syscall.Errno {
	var room [pathRoom]byte
	bytes := append(append(room[:0], name...), 0)
	for {
		_, _, errno := syscall.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&bytes[0])), flags)
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (b *beneath) rename(path, pathNew string) error {
	from, name, err := b.parent(path)
	if err != nil {
		return &os.LinkError{Op: "renameat", Old: path, New: pathNew, Err: err}
	}
	defer unix.Close(from)
	to, nameNew, err := b.parent(pathNew)
	if err != nil {
		return &os.LinkError{Op: "renameat", Old: path, New: pathNew, Err: err}
	}
	defer unix.Close(to)
	if errno := renameat(from, name, to, nameNew); errno != 0 {
		return &os.LinkError{Op: "renameat", Old: path, New: pathNew, Err: errno}
	}
	return nil
}

// renameat is the call with flags, none given: not every architecture has the other.
func renameat(from int, name string, to int, nameNew string) syscall.Errno {
	var room, roomNew [pathRoom]byte
	bytes := append(append(room[:0], name...), 0)
	bytesNew := append(append(roomNew[:0], nameNew...), 0)
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_RENAMEAT2, uintptr(from), uintptr(unsafe.Pointer(&bytes[0])),
			uintptr(to), uintptr(unsafe.Pointer(&bytesNew[0])), 0, 0)
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (b *beneath) syncDir(path string) error {
	fd, err := b.openat(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return pathFailed("openat", path, err)
	}
	defer unix.Close(fd)
	return pathFailed("fsync", path, retryInterrupted(func() error { return unix.Fsync(fd) }))
}

// splitPath divides a path into the folder that holds its last name, "" when that is
// the data folder itself, and that name.
func splitPath(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// pathFailed says of what path an error is.
func pathFailed(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: what, Path: path, Err: err}
}
