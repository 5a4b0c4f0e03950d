//go:build !linux

package host

import (
	"errors"
	"time"
)

// Stolen is for Linux.
func Stolen() (time.Duration, error) {
	return 0, errors.New("what the host takes can be read on Linux only")
}
