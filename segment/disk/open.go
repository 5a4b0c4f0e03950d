package disk

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// Bounds says how large a shard's driver is. Zero fields take the defaults.
type Bounds struct {
	// OpsMax is how many operations may be pending. A chain must fit.
	OpsMax int
	// FilesMax is how many files may be open.
	FilesMax int
	// Workers is how many chains run at the same time without io_uring.
	Workers int
}

// Folder is an open data folder.
type Folder struct {
	posix  *posix.Folder
	wanted core.DiskChoice
	choice Choice
}

// Open opens a data folder for a broker, making it when it is missing, and takes
// its lock. It wraps posix.ErrLocked when another process has it.
func Open(dir string, wanted core.DiskChoice) (*Folder, error) {
	choice, err := choose(wanted)
	if err != nil {
		return nil, err
	}
	folder, err := posix.OpenFolder(dir, posix.FolderOptions{Create: true, Lock: true, Direct: choice.Driver == core.DiskUring})
	if err != nil {
		return nil, err
	}
	return &Folder{posix: folder, wanted: wanted, choice: choice}, nil
}

// choose decides which driver a wanted one leads to.
func choose(wanted core.DiskChoice) (Choice, error) {
	switch wanted {
	case core.DiskPosix:
		return Choice{Driver: core.DiskPosix}, nil
	case core.DiskAuto, core.DiskUring:
		err := probeUring()
		switch {
		case err == nil:
			return Choice{Driver: core.DiskUring}, nil
		case wanted == core.DiskUring:
			return Choice{}, fmt.Errorf("disk driver uring: %w; allow io_uring, or choose auto or posix", err)
		}
		return Choice{Driver: core.DiskPosix, Refused: err}, nil
	}
	panic("assertion failed: a disk driver is auto, uring or posix")
}

// Choice is the driver that shards get. It can still differ for one whose ring the
// kernel refuses: Driver says what that one got.
func (f *Folder) Choice() Choice { return f.choice }

// Dir is the folder's path as it was given.
func (f *Folder) Dir() string { return f.posix.Dir() }

// FS is the blocking view of the folder.
func (f *Folder) FS() core.FS { return f.posix.FS() }

// Driver makes a driver for the calling thread, which must be locked to its
// goroutine (runtime.LockOSThread) and make all later calls. The waker is the one
// that this thread announces its sleep on.
func (f *Folder) Driver(waker core.Waker, bounds Bounds) (core.DiskDriver, Choice, error) {
	bounds = bounds.withDefaults()
	choice := f.choice
	if choice.Driver == core.DiskUring {
		driver, err := newUring(f.posix, waker, bounds)
		if err == nil {
			return driver, choice, nil
		}
		if f.wanted == core.DiskUring {
			return nil, choice, err
		}
		choice = Choice{Driver: core.DiskPosix, Refused: err}
	}
	return posix.NewDriver(f.posix, waker, posix.DriverOptions{
		OpsMax: bounds.OpsMax, FilesMax: bounds.FilesMax, Workers: bounds.Workers,
	}), choice, nil
}

func (b Bounds) withDefaults() Bounds {
	if b.OpsMax == 0 {
		b.OpsMax = posix.DriverDefaults.OpsMax
	}
	if b.FilesMax == 0 {
		b.FilesMax = posix.DriverDefaults.FilesMax
	}
	if b.Workers == 0 {
		b.Workers = posix.DriverDefaults.Workers
	}
	return b
}

// Close releases the lock. The drivers must be closed before.
func (f *Folder) Close() error { return f.posix.Close() }
