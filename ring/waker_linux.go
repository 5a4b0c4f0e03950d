package ring

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

func (w *Waker) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	w.fds = [2]int{fd, fd}
	return nil
}

// oneKick is what a kick adds to the eventfd's counter.
var oneKick = binary.NativeEndian.AppendUint64(nil, 1)

func (w *Waker) write() {
	for {
		_, err := unix.Write(w.fds[1], oneKick)
		if err == nil || err == unix.EAGAIN { // EAGAIN: the counter is full, so it is readable
			return
		}
		core.Assert(err == unix.EINTR, "an open eventfd takes a kick")
	}
}

// read returns how many kicks the eventfd had gathered.
func (w *Waker) read() uint64 {
	for {
		_, err := unix.Read(w.fds[0], w.kicks[:])
		if err == nil {
			return binary.NativeEndian.Uint64(w.kicks[:])
		}
		if err == unix.EAGAIN {
			return 0
		}
		core.Assert(err == unix.EINTR, "an open eventfd can be read")
	}
}

// Close releases the descriptor. No thread may kick any more.
func (w *Waker) Close() error { return unix.Close(w.fds[0]) }
