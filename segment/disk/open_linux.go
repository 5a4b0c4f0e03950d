package disk

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
	"github.com/pulsemq/pulsemq/segment/disk/uring"
)

func probeUring() error { return uring.Probe() }

func newUring(folder *posix.Folder, waker core.Waker, bounds Bounds) (core.DiskDriver, error) {
	options := uring.Defaults
	options.OpsMax, options.FilesMax = bounds.OpsMax, bounds.FilesMax
	return uring.New(folder, waker, options)
}
