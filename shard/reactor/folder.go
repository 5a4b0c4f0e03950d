package reactor

import (
	"log/slog"
	"sync"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk"
)

// FolderDisks is Disks on a folder of this machine.
type FolderDisks struct {
	Folder *disk.Folder
	Bounds disk.Bounds
	// Log is told once when io_uring was wanted and is refused. May be nil.
	Log *slog.Logger

	warned *sync.Once
}

// NewFolderDisks are the drivers of an open folder.
func NewFolderDisks(folder *disk.Folder, log *slog.Logger) FolderDisks {
	return FolderDisks{Folder: folder, Log: log, warned: new(sync.Once)}
}

// FS is the blocking view of the folder.
func (d FolderDisks) FS() core.FS { return d.Folder.FS() }

// Driver makes the calling thread's driver.
func (d FolderDisks) Driver(waker core.Waker) (core.DiskDriver, error) {
	driver, choice, err := d.Folder.Driver(waker, d.Bounds)
	if err == nil && choice.Refused != nil && d.Log != nil && d.warned != nil {
		d.warned.Do(func() {
			d.Log.Warn("io_uring cannot be used: worker threads do the disk's work, which is slower", "reason", choice.Refused.Error())
		})
	}
	return driver, err
}
