package report

import (
	"syscall"
	"time"
)

// ProcessorTime is how long this process has kept processors busy so far. Beside a broker on the same machine it tells
// how much of the load is the load client's own.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
