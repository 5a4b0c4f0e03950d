package posix

import "golang.org/x/sys/unix"

const openFolder = unix.O_DIRECTORY

// setDirect makes a file bypass the page cache, or leaves it as it is.
func setDirect(file *File) {
	fd := uintptr(file.fd)
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_DIRECT)
	}
}

// syncData is fdatasync: it writes the data and what is needed to find it again,
// such as the size, but not the times.
func syncData(file *File) error {
	return file.failed("fdatasync", retryInterrupted(func() error { return unix.Fdatasync(file.fd) }))
}

// allocate reserves a range that reads as zeros. Space beyond the file's end is
// zeros by itself; inside the file it takes ZERO_RANGE, which not every file
// system has.
func allocate(file *File, offset, length int64) error {
	size, err := file.size()
	if err != nil {
		return err
	}
	mode := uint32(0)
	if offset < size {
		mode = unix.FALLOC_FL_ZERO_RANGE
	}
	err = retryInterrupted(func() error { return unix.Fallocate(file.fd, mode, offset, length) })
	if err != nil && unsupported(err) {
		return writeZeros(file, offset, length)
	}
	return file.failed("fallocate", err)
}

// waitReadable waits until fd is readable or the timeout passed.
func waitReadable(fd int, timeout int64) error {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	var limit *unix.Timespec
	if timeout >= 0 {
		spec := unix.NsecToTimespec(timeout)
		limit = &spec
	}
	_, err := unix.Ppoll(fds[:], limit, nil)
	if err == unix.EINTR {
		return nil // early, as Park may be
	}
	return err
}

// Uncache drops a range of the file from the page cache, so that the next read asks
// the device. Pages that are not written back yet stay.
func (f *File) Uncache(offset, length int64) {
	_ = unix.Fadvise(f.fd, offset, length, unix.FADV_DONTNEED)
}

// Extent is the first range at or behind a position, [start, end), that holds something;
// empty, at the file's size, when nothing is left but what was reserved and never
// written, which reads as zeros. A file system that cannot tell calls everything data.
func (f *File) Extent(position int64) (start, end int64, err error) {
	start, err = unix.Seek(f.fd, position, unix.SEEK_DATA)
	if err == unix.ENXIO {
		size, err := f.Size()
		return size, size, err
	}
	if err != nil {
		return 0, 0, err
	}
	end, err = unix.Seek(f.fd, start, unix.SEEK_HOLE)
	return start, end, err
}

// readAsAsked has the kernel read what is asked for and nothing ahead: who reads through
// the blocking view asks for large pieces, and knows where a file ends. Zeros that were
// only reserved and are read ahead would count as written from then on.
func readAsAsked(file *File) { _ = unix.Fadvise(file.fd, 0, 0, unix.FADV_RANDOM) }
