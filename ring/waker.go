package ring

import (
	"fmt"
	"sync/atomic"
)

// The sleeper's state. Kick moves parked to kicked, at most once per sleep, and
// only the one who moved it writes to the descriptor.
const (
	stateAwake uint32 = iota
	stateParked
	stateKicked
)

// Waker implements core.Waker with an eventfd (a pipe where there is none).
//
// The race it closes: a producer that publishes a value and then sees "awake"
// does not write, so the sleeper must look at its queues again after it has
// announced its sleep. Both sides store first and load after that; Go's atomics
// are sequentially consistent, so at least one of them sees the other.
type Waker struct {
	_     [lineBytes]byte
	state atomic.Uint32
	_     [lineBytes]byte

	fds [2]int // to read from, to write to; the same one for an eventfd

	// owed counts kicks whose write has not been read yet. A kicker may be
	// suspended between its move to kicked and its write; without this count the
	// late write would leave the descriptor readable for ever, and every park
	// would return at once. Sleeper only.
	owed  uint64
	kicks [8]byte // what was read; here so that reading allocates nothing. Sleeper only.
}

// NewWaker opens the descriptor.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("open a waker: %w", err)
	}
	return w, nil
}

// Kick wakes the sleeper if it has announced its sleep. Any thread may call it.
func (w *Waker) Kick() {
	if w.state.Load() != stateParked {
		return
	}
	if w.state.CompareAndSwap(stateParked, stateKicked) {
		w.write()
	}
}

// Announce says that the sleeper is about to sleep. It must look at its queues
// once more before it does.
func (w *Waker) Announce() { w.state.Store(stateParked) }

// Retract says that the sleeper is awake and reads what kickers have written.
func (w *Waker) Retract() {
	if w.state.Swap(stateAwake) == stateKicked {
		w.owed++
	}
	if w.owed > 0 {
		w.owed -= min(w.owed, w.read())
	}
}

// FD is the descriptor to poll for reading.
func (w *Waker) FD() int { return w.fds[0] }
