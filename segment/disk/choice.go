package disk

import "github.com/pulsemq/pulsemq/core"

// Choice is the driver that a wanted one led to.
type Choice struct {
	// Driver is core.DiskUring or core.DiskPosix.
	Driver core.DiskChoice
	// Refused is why io_uring is not used although it was wanted; nil otherwise. The
	// caller logs it as one warning.
	Refused error
}
