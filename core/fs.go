package core

import "io"

// FS is the blocking view of a data folder, for start-up, recovery, worker jobs
// and offline tools. The shard never calls it while it serves. Paths are
// relative to the data folder with '/' as separator.
type FS interface {
	// Open opens an existing file; it wraps fs.ErrNotExist when there is none.
	Open(path string) (File, error)
	// OpenRead is Open for reading only.
	OpenRead(path string) (File, error)
	// Create makes a new file; it wraps fs.ErrExist when there is one.
	Create(path string) (File, error)
	// MakeDir makes the folder path and its missing parents; an existing one is no error.
	MakeDir(path string) error
	Remove(path string) error
	// RemoveAll removes path and what is below it; a missing path is no error.
	RemoveAll(path string) error
	Rename(path, pathNew string) error
	// SyncDir makes the folder's entries durable.
	SyncDir(path string) error
	// List returns the folder's entries in ascending order of their names.
	List(path string) ([]DirEntry, error)
	// Space is the file system's size and what is free, in bytes.
	Space() (total, free int64, err error)
}

// DirEntry is a name in a folder. Size is 0 for folders.
type DirEntry struct {
	Name  string
	Size  int64
	IsDir bool
}

// File is an open file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync is fdatasync.
	Sync() error
	Size() (int64, error)
	Truncate(size int64) error
	// Allocate reserves and zeroes [offset, offset+length), growing the file.
	Allocate(offset, length int64) error
}
