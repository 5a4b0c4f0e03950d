//go:build !linux

package load

import "time"

func sharpenSleep() {}

func sleep(nanoseconds int64) { time.Sleep(time.Duration(nanoseconds)) }
