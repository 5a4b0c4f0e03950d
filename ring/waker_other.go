//go:build unix && !linux

package ring

import (
	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

func (w *Waker) open() error {
	if err := unix.Pipe(w.fds[:]); err != nil {
		return err
	}
	for _, fd := range w.fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			_ = w.Close()
			return err
		}
	}
	return nil
}

var oneKick = []byte{1}

func (w *Waker) write() {
	for {
		_, err := unix.Write(w.fds[1], oneKick)
		if err == nil || err == unix.EAGAIN { // EAGAIN: the pipe is full, so it is readable
			return
		}
		core.Assert(err == unix.EINTR, "an open pipe takes a kick")
	}
}

// read returns how many kicks the pipe had gathered.
func (w *Waker) read() uint64 {
	for {
		n, err := unix.Read(w.fds[0], w.kicks[:])
		if err == nil {
			return uint64(n)
		}
		if err == unix.EAGAIN {
			return 0
		}
		core.Assert(err == unix.EINTR, "an open pipe can be read")
	}
}

// Close releases the descriptors. No thread may kick any more.
func (w *Waker) Close() error {
	err := unix.Close(w.fds[0])
	if errWrite := unix.Close(w.fds[1]); err == nil {
		err = errWrite
	}
	return err
}
