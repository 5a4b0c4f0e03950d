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

func (w *Waker) write() {
	one := [8]byte{}
	binary.NativeEndian.PutUint64(one[:], 1)
	for {
		_, err := unix.Write(w.fds[1], one[:])
		if err == nil || err == unix.EAGAIN { // EAGAIN: the counter is full, so it is readable
			return
		}
		core.Assert(err == unix.EINTR, "an open eventfd takes a kick")
	}
}

// read returns how many kicks the eventfd had gathered.
func (w *Waker) read() uint64 {
	var count [8]byte
	for {
		_, err := unix.Read(w.fds[0], count[:])
		if err == nil {
			return binary.NativeEndian.Uint64(count[:])
		}
		if err == unix.EAGAIN {
			return 0
		}
		core.Assert(err == unix.EINTR, "an open eventfd can be read")
	}
}

// Close releases the descriptor. No thread may kick any more.
func (w *Waker) Close() error { return unix.Close(w.fds[0]) }
