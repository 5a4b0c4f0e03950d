//go:build unix && !linux

package posix

import "golang.org/x/sys/unix"

const openFolder = unix.O_DIRECTORY

// setDirect does nothing: there is no O_DIRECT here.
func setDirect(*File) {}

// readAsAsked does nothing: there is no such advice everywhere.
func readAsAsked(*File) {}

// syncData asks the drive itself to write its cache: fsync alone does not do that
// on macOS, and os.File.Sync knows it.
func syncData(file *File) error { return file.owner.Sync() }

// allocate writes the zeros: there is no call that both reserves and zeroes.
func allocate(file *File, offset, length int64) error {
	return writeZeros(file, offset, length)
}

// waitReadable waits until fd is readable or the timeout passed. poll counts in
// milliseconds; a wait is rather longer than shorter, or the loop would spin.
func waitReadable(fd int, timeout int64) error {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	limit := -1
	if timeout >= 0 {
		limit = int((timeout + 999_999) / 1_000_000)
	}
	_, err := unix.Poll(fds[:], limit)
	if err == unix.EINTR {
		return nil // early, as Park may be
	}
	return err
}
