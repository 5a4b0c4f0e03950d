package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pulsemq/pulsemq/core"
)

// Indexes and states are files that are read and written as a whole.

// readFile reads a whole small file.
func readFile(files core.FS, path string, bytesMax int64) ([]byte, error) {
	f, err := files.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > bytesMax {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are expected", path, size, bytesMax)
	}
	return readWhole(f, path, make([]byte, size))
}

// readInto reads a whole file of at most len(room) bytes into room.
func readInto(files core.FS, path string, room []byte) ([]byte, error) {
	f, err := files.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > int64(len(room)) {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are expected", path, size, len(room))
	}
	return readWhole(f, path, room[:size])
}

func readWhole(f core.File, path string, b []byte) ([]byte, error) {
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("%s: read %d of %d bytes: %w", path, n, len(b), err)
	}
	return b, nil
}

// newSuffix names a file that is not complete yet; recovery removes such files.
const newSuffix = ".new"

// removeIfThere takes away what a failed try left.
func removeIfThere(files core.FS, name string) error {
	if err := files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile makes a file anew, replacing what an earlier try left under its name.
func writeFile(files core.FS, name string, b []byte, durable bool) error {
	f, err := files.Create(name)
	if errors.Is(err, fs.ErrExist) {
		if err := removeIfThere(files, name); err != nil {
			return err
		}
		f, err = files.Create(name)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, removeIfThere(files, name)))
	}
	return nil
}
