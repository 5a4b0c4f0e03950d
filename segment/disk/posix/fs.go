package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// FS is the blocking view of a Folder. Any thread may use it.
type FS struct{ folder *Folder }

var _ core.FS = FS{}

// FS returns the folder's blocking view.
func (f *Folder) FS() FS { return FS{f} }

// Open opens an existing file.
func (s FS) Open(path string) (core.File, error) { return s.open(path, os.O_RDWR) }

// OpenRead opens an existing file for reading.
func (s FS) OpenRead(path string) (core.File, error) {
	file, err := s.folder.open(path, os.O_RDONLY, false)
	if err != nil {
		return nil, operating(err)
	}
	readAsAsked(file)
	return file, nil
}

// Create makes a new file.
func (s FS) Create(path string) (core.File, error) {
	return s.open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (s FS) open(path string, flag int) (core.File, error) {
	file, err := s.folder.open(path, flag, false)
	if err != nil {
		return nil, operating(err) // and no File, which would not be nil in the interface
	}
	return file, nil
}

// MakeDir makes a folder and its missing parents.
func (s FS) MakeDir(path string) error { return operating(s.folder.makeDir(path)) }

// Remove removes a file or an empty folder.
func (s FS) Remove(path string) error { return operating(s.folder.remove(path)) }

// RemoveAll removes path and what is below it.
func (s FS) RemoveAll(path string) error { return operating(s.folder.removeAll(path)) }

// Rename moves path to pathNew, replacing it.
func (s FS) Rename(path, pathNew string) error { return operating(s.folder.rename(path, pathNew)) }

// SyncDir makes the folder's entries durable.
func (s FS) SyncDir(path string) error { return operating(s.folder.syncDir(path)) }

// List returns the folder's entries in ascending order of their names. What
// vanishes while it looks is left out.
func (s FS) List(path string) ([]core.DirEntry, error) {
	path, err := contract.Path(path)
	if err != nil {
		return nil, err
	}
	folder, err := s.folder.root.Open(path)
	if err != nil {
		return nil, operating(err)
	}
	defer folder.Close()
	found, err := folder.ReadDir(-1)
	if err != nil {
		return nil, operating(err)
	}
	entries := make([]core.DirEntry, 0, len(found))
	for _, one := range found {
		if path == "." && one.Name() == lockName {
			continue
		}
		entry := core.DirEntry{Name: one.Name(), IsDir: one.IsDir()}
		if !entry.IsDir {
			info, err := one.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, operating(err)
			}
			entry.Size = info.Size()
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b core.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Space is the file system's size and what the broker's user may still take.
func (s FS) Space() (total, free int64, err error) {
	var stat unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(s.folder.dir, &stat) }); err != nil {
		return 0, 0, fmt.Errorf("ask for the space of %s: %w", s.folder.dir, err)
	}
	unit := int64(stat.Bsize)
	return int64(stat.Blocks) * unit, int64(stat.Bavail) * unit, nil
}

// operating makes an error of the system one of the port's.
func operating(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", core.ErrDiskFull, err)
	}
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return fmt.Errorf("%w: %w", core.ErrDiskFiles, err)
	}
	return err
}
