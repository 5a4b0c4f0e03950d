package reactor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pinThread keeps the calling thread, which is locked to its goroutine, on one processor.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin a shard to processor %d: %w", cpu, err)
	}
	return nil
}
