package posix

import (
	"errors"
	"os"
)

// resolver does the operations on names that come again and again under load. Its
// paths were checked; it must not follow a symbolic link out of the folder.
type resolver interface {
	// open returns a descriptor, and its owner when that is not the caller.
	open(path string, flag int) (fd int, owner *os.File, err error)
	remove(path string) error
	rename(path, pathNew string) error
	syncDir(path string) error
	close() error
}

// rooted resolves names with os.Root: on every system, at the price of some objects
// on the heap for each part of a path.
type rooted struct{ root *os.Root }

func (r rooted) open(path string, flag int) (int, *os.File, error) {
	file, err := r.root.OpenFile(path, flag, fileMode)
	if err != nil {
		return -1, nil, err
	}
	return int(file.Fd()), file, nil
}

func (r rooted) remove(path string) error          { return r.root.Remove(path) }
func (r rooted) rename(path, pathNew string) error { return r.root.Rename(path, pathNew) }

func (r rooted) syncDir(path string) error {
	folder, err := r.root.OpenFile(path, os.O_RDONLY|openFolder, 0)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (r rooted) close() error { return nil } // the root is the Folder's
