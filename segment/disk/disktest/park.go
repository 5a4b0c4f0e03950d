package disktest

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// A kick from another thread ends a park that has no limit.
func testWaker(f *fixture) {
	for range 20 {
		kicked := make(chan struct{})
		f.Waker.Announce()
		go func() {
			f.Waker.Kick()
			close(kicked)
		}()
		for parked := true; parked; {
			if err := f.Driver.Park(-1); err != nil { // hangs when the kick is lost
				f.Fatal(err)
			}
			select {
			case <-kicked:
				parked = false
			default: // Park may return early
			}
		}
		f.Waker.Retract()
	}
}

func testParkTimeout(f *fixture) {
	const timeout = 5 * time.Millisecond
	start := time.Now()
	f.Waker.Announce()
	for time.Since(start) < timeout {
		if err := f.Driver.Park(int64(timeout)); err != nil {
			f.Fatal(err)
		}
	}
	f.Waker.Retract()
	f.Waker.Announce()
	if err := f.Driver.Park(0); err != nil {
		f.Fatal(err)
	}
	f.Waker.Retract()
}

// A park without limit and without a kick ends when an operation does.
func testParkCompletion(f *fixture) {
	file := f.create("a")
	for i := range 20 {
		f.submit(write(file, int64(i*page), filled(page, 1)), sync(file), named(core.DiskSyncDir, "."))
		for f.Driver.Pending() > 0 {
			n := f.Driver.Reap(f.out[:])
			for _, op := range f.out[:n] {
				if op.Err != nil {
					f.Fatal(op.Err)
				}
			}
			if n == 0 {
				f.Waker.Announce()
				if err := f.Driver.Park(-1); err != nil {
					f.Fatal(err)
				}
				f.Waker.Retract()
			}
		}
	}
}
