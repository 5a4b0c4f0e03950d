package netio

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// wake ends the wait of a reactor's gnet loop. It is one end of a socket pair
// whose other end is a connection of the loop: gnet's own ways of waking a loop
// (Execute, Wake, AsyncWrite) allocate each time.
//
// Kick costs a load while a wake-up is under way: shards kick once per batch of
// answers, and only the first kick before the reactor's turn writes.
type wake struct {
	pending atomic.Bool
	file    *os.File      // its Write is safe against a concurrent close
	peer    *net.UnixConn // until it is given to the loop
}

func newWake() (*wake, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair to wake a reactor: %w", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	file := os.NewFile(uintptr(fds[0]), "wake")
	other := os.NewFile(uintptr(fds[1]), "wake")
	defer other.Close() // FileConn has its own copy
	var peer net.Conn
	if err == nil {
		peer, err = net.FileConn(other)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("prepare a socket pair to wake a reactor: %w", err)
	}
	return &wake{file: file, peer: peer.(*net.UnixConn)}, nil
}

var wakeByte = []byte{1}

// Kick makes the reactor take a turn soon. Any thread may call it.
func (w *wake) Kick() {
	if w.pending.Load() || !w.pending.CompareAndSwap(false, true) {
		return
	}
	// It cannot be full: at most one byte is under way. When it is closed there is
	// nobody to wake.
	_, _ = w.file.Write(wakeByte)
}

// taken is called by the reactor before it looks into its rings, so that what is
// published after its look kicks again.
func (w *wake) taken() { w.pending.Store(false) }

func (w *wake) close() {
	w.file.Close()
	if w.peer != nil {
		w.peer.Close()
	}
}
