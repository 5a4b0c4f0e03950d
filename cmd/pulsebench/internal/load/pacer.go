package load

import (
	"runtime"
	"time"
)

// paceSleepMax bounds one sleep, so that a run that is called off ends soon.
const paceSleepMax = int64(50 * time.Millisecond)

// pace wakes a sender whenever something becomes due, until its schedule ends.
//
// It sleeps in a system call on a thread of its own. The runtime's timers are late by up to a millisecond when the
// program is otherwise idle, and that would be measured as the broker's.
func pace(s *Sender) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sharpenSleep()
	for {
		s.mu.Lock()
		now := s.spec.Clock()
		at, more := s.spec.Schedule.Wake(now)
		done := s.err != nil || s.over(now)
		s.mu.Unlock()
		if done {
			s.tend()
			return
		}
		if !more {
			at = s.spec.Schedule.end
		}
		if wait := at - now; wait > 0 {
			sleep(min(wait, paceSleepMax))
		}
		s.tend()
	}
}

// pump keeps a sender sending that has no answers to wait for. What slows it down is the broker that stops reading.
func pump(s *Sender) {
	for {
		s.tend()
		s.mu.Lock()
		now := s.spec.Clock()
		done, pause := s.err != nil || s.over(now), s.paused-now
		s.mu.Unlock()
		if done {
			s.tend()
			return
		}
		if pause > 0 {
			time.Sleep(time.Duration(pause))
		}
	}
}
