//go:build !linux

package host

import "errors"

// UsageOf is for Linux.
func UsageOf(int) (Usage, error) {
	return Usage{}, errors.New("what a process takes can be read on Linux only")
}
