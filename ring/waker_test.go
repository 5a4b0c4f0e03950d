package ring

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

var _ core.Waker = (*Waker)(nil)

func newWaker(t testing.TB) *Waker {
	t.Helper()
	w, err := NewWaker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// poll waits for the waker's descriptor and says whether it became readable.
func poll(t testing.TB, w *Waker, timeout time.Duration) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(w.FD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(timeout.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
}

func TestWakerKickWritesOnlyForASleeper(t *testing.T) {
	w := newWaker(t)
	w.Kick()
	if poll(t, w, 0) {
		t.Fatal("a kick of an awake thread reached the descriptor")
	}
	w.Announce()
	w.Kick()
	w.Kick() // the second finds it kicked
	if !poll(t, w, time.Second) {
		t.Fatal("a kick of a sleeper did not reach the descriptor")
	}
	w.Retract()
	if poll(t, w, 0) {
		t.Fatal("Retract left the descriptor readable")
	}
	w.Kick()
	if poll(t, w, 0) {
		t.Fatal("a kick after Retract reached the descriptor")
	}
}

// A kicker suspended between its decision and its write must not leave the
// descriptor readable for ever.
func TestWakerLateWriteIsReadLater(t *testing.T) {
	w := newWaker(t)
	w.Announce()
	if !w.state.CompareAndSwap(stateParked, stateKicked) { // the first half of Kick
		t.Fatal("not parked")
	}
	w.Retract() // the sleeper woke by a timeout
	w.write()   // the second half of Kick
	w.Announce()
	if !poll(t, w, time.Second) {
		t.Fatal("the late write is lost") // one early wake-up is the price
	}
	w.Retract()
	if poll(t, w, 0) {
		t.Fatal("the late write stays readable")
	}
}

// Every value pushed must be seen although the consumer sleeps without a limit
// whenever its ring is empty: a lost wake-up hangs, which the watchdog reports.
func TestWakerLosesNoWakeUp(t *testing.T) {
	const values = 20_000
	w := newWaker(t)
	r := NewSPSC[int](1) // each value is pushed while the consumer is about to sleep
	done := make(chan struct{})
	go func() {
		defer close(done)
		for want := 0; want < values; {
			if v, ok := r.Pop(); ok {
				if v != want {
					t.Errorf("got %d, want %d", v, want)
					return
				}
				want++
				continue
			}
			w.Announce()
			if r.Len() == 0 {
				if !poll(t, w, 5*time.Second) {
					t.Errorf("a wake-up was lost after %d values: the ring holds %d", want, r.Len())
				}
			}
			w.Retract()
		}
	}()
	for i := 0; i < values; {
		if r.Push(i) {
			w.Kick()
			i++
		} else {
			runtime.Gosched()
		}
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("a wake-up was lost: %d values wait in the ring", r.Len())
	}
}

func TestWakerAllocatesNothing(t *testing.T) {
	w := newWaker(t)
	if n := testing.AllocsPerRun(100, func() {
		w.Kick()
		w.Announce()
		w.Kick()
		w.Retract()
	}); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

func BenchmarkWakerKickAwake(b *testing.B) {
	w := newWaker(b)
	for b.Loop() {
		w.Kick()
	}
}

func BenchmarkWakerKickParked(b *testing.B) {
	w := newWaker(b)
	for b.Loop() {
		w.Announce()
		w.Kick()
		w.Retract()
	}
}

// BenchmarkHop is a value's way to a sleeping thread and an answer's way back: two
// rings, two wake-ups.
func BenchmarkHop(b *testing.B) {
	there, back := NewSPSC[int](16), NewSPSC[int](16)
	wakeThere, wakeBack := newWaker(b), newWaker(b)
	receive := func(r *SPSC[int], w *Waker) int {
		for {
			if v, ok := r.Pop(); ok {
				return v
			}
			w.Announce()
			if r.Len() == 0 {
				poll(b, w, 10*time.Second)
			}
			w.Retract()
		}
	}
	go func() {
		runtime.LockOSThread()
		for {
			v := receive(there, wakeThere)
			back.Push(v)
			wakeBack.Kick()
			if v < 0 {
				return
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		there.Push(1)
		wakeThere.Kick()
		receive(back, wakeBack)
	}
	there.Push(-1)
	wakeThere.Kick()
	receive(back, wakeBack)
}
