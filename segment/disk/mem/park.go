package mem

import "golang.org/x/sys/unix"

// waitReadable waits until fd is readable or the timeout passed (nanoseconds,
// negative without limit); it may return early.
func waitReadable(fd int, timeout int64) error {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	limit := -1
	if timeout >= 0 {
		limit = int((timeout + 999_999) / 1_000_000)
	}
	if _, err := unix.Poll(fds[:], limit); err != unix.EINTR {
		return err
	}
	return nil
}
