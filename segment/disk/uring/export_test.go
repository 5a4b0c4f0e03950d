//go:build linux

package uring

// Setups is how many ways there are to make a ring.
func Setups() int { return len(setups) }

// FromSetup leaves out the ways before the given one, as an older kernel does, and
// returns what undoes it.
func FromSetup(first int) (restore func()) {
	saved := setups
	setups = setups[first:]
	return func() { setups = saved }
}
