package netio

import "golang.org/x/sys/unix"

// pinThread has the calling thread run on one processor only.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
