package posix

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// syncAbove makes the names durable by which a folder is reached, up to the root of
// its file system. What is synced inside of a folder is lost with it when the power
// goes before its own name is on the disk. It is done at every start, because the
// one that made the folder may have been killed before it came to this.
func syncAbove(dir string) error {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	for err == nil {
		var same bool
		parent := filepath.Dir(path)
		if parent == path {
			return nil
		}
		if same, err = oneDevice(path, parent); err != nil || !same {
			return err
		}
		err = syncFolder(parent)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EINVAL) {
			return nil // a folder in which this process can make nothing, or one that is not on a disk
		}
		path = parent
	}
	return err
}

// oneDevice says whether two folders lie in one file system.
func oneDevice(a, b string) (bool, error) {
	var one, other unix.Stat_t
	if err := unix.Stat(a, &one); err != nil {
		return false, &fs.PathError{Op: "stat", Path: a, Err: err}
	}
	if err := unix.Stat(b, &other); err != nil {
		return false, &fs.PathError{Op: "stat", Path: b, Err: err}
	}
	return one.Dev == other.Dev, nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
