package ceiling

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Measure writes for a time, or until all files are full. They have no names by then.
func (n NewFiles) Measure(ctx context.Context, a Access, duration time.Duration) (*Measure, error) {
	blocks := n.FileBytes / int64(max(a.Bytes, 1)) // of each file
	if n.Files < 1 || blocks == 0 || a.Operation == Read {
		return nil, fmt.Errorf("writes of %d bytes to %d files of %d", a.Bytes, n.Files, n.FileBytes)
	}
	var files []*File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i := range n.Files {
		f, err := create(n.Folder, i)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		if err := unix.Fallocate(f.fd, 0, 0, n.FileBytes); err != nil {
			return nil, fmt.Errorf("reserve %d bytes: %w", n.FileBytes, err)
		}
	}
	return measure(ctx, a, duration, func(i int64) (f *File, at int64, more bool) {
		if i >= blocks*int64(n.Files) {
			return nil, 0, false
		}
		return files[i%int64(n.Files)], i / int64(n.Files) * int64(a.Bytes), true
	})
}
