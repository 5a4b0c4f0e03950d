package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// New files and folders are for the broker's own user and group.
const (
	fileMode   fs.FileMode = 0o640
	folderMode fs.FileMode = 0o750
)

// FolderOptions says how a data folder is opened.
type FolderOptions struct {
	// Create makes the folder, and the ones above it, when it is missing.
	Create bool
	// Lock keeps other processes out. Offline tools that only read do without.
	Lock bool
	// Direct makes a Driver bypass the page cache where the file system can do it.
	Direct bool
}

// Folder is an open data folder. Any thread may use it.
type Folder struct {
	dir    string
	root   *os.Root
	names  resolver
	lock   *os.File // nil without FolderOptions.Lock
	direct bool
	spares spares

	reclaimer reclaimer
}

// OpenFolder opens a data folder and takes its lock. It wraps ErrLocked when
// another process has it.
func OpenFolder(dir string, options FolderOptions) (*Folder, error) {
	if options.Create {
		if err := os.MkdirAll(dir, folderMode); err != nil {
			return nil, fmt.Errorf("make the data folder: %w", err)
		}
		if err := syncAbove(dir); err != nil {
			return nil, fmt.Errorf("make the data folder durable: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	f := &Folder{dir: dir, root: root, direct: options.Direct}
	if f.names, err = newResolver(root); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	if options.Lock {
		if f.lock, err = takeLock(root, dir); err != nil {
			_ = errors.Join(f.names.close(), root.Close())
			return nil, err
		}
	}
	return f, nil
}

// Dir is the folder's path as it was given.
func (f *Folder) Dir() string { return f.dir }

// Close releases the lock. Files that are still open stay usable.
func (f *Folder) Close() error {
	f.reclaimer.close()
	var err error
	if f.lock != nil {
		err = f.lock.Close() // the lock ends with its descriptor
	}
	return errors.Join(err, f.names.close(), f.root.Close())
}

// errIrregular reports a folder, a pipe or a device under the name of a file.
var errIrregular = errors.New("not a regular file")

// open opens a file; direct asks for I/O past the page cache, which a file system
// may refuse: then the file works through the cache.
func (f *Folder) open(path string, flag int, direct bool) (*File, error) {
	path, err := contract.FilePath(path)
	if err != nil {
		return nil, err
	}
	fd, owner, err := f.names.open(path, flag)
	if err != nil {
		return nil, err
	}
	file := f.spares.get()
	file.folder, file.path, file.fd, file.owner = f, path, fd, owner
	var stat unix.Stat_t
	err = file.stat(&stat)
	if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = file.failed("open", errIrregular)
	}
	if err != nil {
		_ = file.close()
		return nil, err
	}
	if direct {
		// Set after opening: a create with O_DIRECT that the file system refuses
		// would fail and still leave the new file behind.
		setDirect(file)
	}
	return file, nil
}

func (f *Folder) makeDir(path string) error {
	path, err := contract.Path(path)
	if err != nil {
		return err
	}
	if path == "." {
		return nil
	}
	return f.root.MkdirAll(path, folderMode)
}

func (f *Folder) remove(path string) error {
	path, err := contract.FilePath(path)
	if err != nil {
		return err
	}
	return f.unlink(path)
}

// unlink takes a name away. What a large file holds is given back little by little.
func (f *Folder) unlink(path string) error {
	file, err := f.open(path, os.O_RDWR, false)
	if err != nil {
		return f.names.remove(path) // it is no file, or there is none
	}
	size, err := file.size()
	if err != nil || size <= reclaimStepBytes {
		_ = file.close()
		return f.names.remove(path)
	}
	err = f.names.remove(path)
	f.reclaimer.take(file)
	return err
}

func (f *Folder) removeAll(path string) error {
	path, err := contract.FilePath(path)
	if err != nil {
		return err
	}
	// Each file by itself, and then what is left: the folders, what could not be removed, and a
	// symbolic link, which a walk would follow.
	if info, err := f.root.Lstat(path); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return f.root.RemoveAll(path)
	}
	_ = fs.WalkDir(f.root.FS(), path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_ = f.unlink(name)
		}
		return nil
	})
	return f.root.RemoveAll(path)
}

func (f *Folder) rename(path, pathNew string) error {
	path, err := contract.FilePath(path)
	if err != nil {
		return err
	}
	if pathNew, err = contract.FilePath(pathNew); err != nil {
		return err
	}
	return f.names.rename(path, pathNew)
}

func (f *Folder) syncDir(path string) error {
	path, err := contract.Path(path)
	if err != nil {
		return err
	}
	return f.names.syncDir(path)
}
