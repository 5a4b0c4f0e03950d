package host

import "time"

// Usage is what a process has taken so far.
type Usage struct {
	Processor time.Duration
	Resident  int64 // bytes of memory now
}
