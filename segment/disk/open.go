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
	// Workers is how many chains run at the same time on KindPosix.
	Workers int
}

// Folder is an open data folder.
type Folder struct {
	posix  *posix.Folder
	wanted Kind
	choice Choice
}

// Open opens a data folder for a broker, making it when it is missing, and takes
// its lock. It wraps posix.ErrLocked when another process has it.
func Open(dir string, kind Kind) (*Folder, error) {
	choice, err := choose(kind)
	if err != nil {
		return nil, err
	}
	folder, err := posix.OpenFolder(dir, posix.FolderOptions{Create: true, Lock: true, Direct: choice.Kind == KindUring})
	if err != nil {
		return nil, err
	}
	return &Folder{posix: folder, wanted: kind, choice: choice}, nil
}

// choose decides which driver a wanted kind leads to.
func choose(kind Kind) (Choice, error) {
	switch kind {
	case KindPosix:
		return Choice{Kind: KindPosix}, nil
	case KindAuto, KindUring:
		err := probeUring()
		switch {
		case err == nil:
			return Choice{Kind: KindUring}, nil
		case kind == KindUring:
			return Choice{}, fmt.Errorf("disk driver uring: %w; allow io_uring, or choose auto or posix", err)
		}
		return Choice{Kind: KindPosix, Refused: err}, nil
	}
	_, err := ParseKind(string(kind))
	return Choice{}, err
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
	if choice.Kind == KindUring {
		driver, err := newUring(f.posix, waker, bounds)
		if err == nil {
			return driver, choice, nil
		}
		if f.wanted == KindUring {
			return nil, choice, err
		}
		choice = Choice{Kind: KindPosix, Refused: err}
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
