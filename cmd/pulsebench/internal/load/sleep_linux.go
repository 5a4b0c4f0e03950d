package load

import "golang.org/x/sys/unix"

// timerSlack is how many nanoseconds late the kernel may wake this thread; its default is 50 microseconds.
const timerSlack = 1000

// sharpenSleep makes the sleeps of this thread end on time. Without it they end a little later, which is no error.
func sharpenSleep() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) }

// sleep blocks this thread. A signal may end it early: whoever calls it looks at the clock.
func sleep(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	_ = unix.Nanosleep(&t, nil)
}
