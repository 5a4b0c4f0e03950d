//go:build unix && !linux

package disk

import (
	"errors"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

var errUringLinux = errors.New("io_uring: only Linux has it")

func probeUring() error { return errUringLinux }

func newUring(*posix.Folder, core.Waker, Bounds) (core.DiskDriver, error) { return nil, errUringLinux }
