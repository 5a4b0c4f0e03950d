package mem

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

// FS is the file system and its blocking view.
//
// Its methods take a lock, because worker jobs of a broker under test may run
// beside the shard. A simulation uses it from one goroutine and stays
// deterministic; the lock is then never contended.
type FS struct {
	mu        sync.Mutex
	root      *node
	changes   []change // namespace operations that are not safe yet, in their order
	fileBytes int64    // how large a file may become
	capacity  int64
	used      int64
	faults    []*Fault
	drivers   []*Driver
}

var _ core.FS = (*FS)(nil)

// capacityDefault is what an FS can hold unless SetCapacity says otherwise.
const capacityDefault = math.MaxInt64 / 2

// New returns an empty file system.
func New() *FS { return &FS{root: newFolder(), capacity: capacityDefault, fileBytes: fileBytesMax} }

// SetFileBytes lets no file be written or reserved beyond a size, as RLIMIT_FSIZE
// does: not in place either, when it is larger already.
func (s *FS) SetFileBytes(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fileBytes = min(limit, fileBytesMax)
}

// SetCapacity makes the file system hold at most bytes, in pages of 4 KiB. What is
// stored already stays: a capacity below it is a full disk.
func (s *FS) SetCapacity(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = bytes
}

// Space is the capacity and what is free of it.
func (s *FS) Space() (total, free int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capacity, max(s.capacity-s.used, 0), nil
}

// Open opens an existing file.
func (s *FS) Open(path string) (core.File, error) { return s.open(core.DiskOpen, path, true) }

// OpenRead opens an existing file for reading.
func (s *FS) OpenRead(path string) (core.File, error) { return s.open(core.DiskOpen, path, false) }

// Create makes a new file.
func (s *FS) Create(path string) (core.File, error) { return s.open(core.DiskCreate, path, true) }

func (s *FS) open(kind core.DiskOpKind, path string, writable bool) (core.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.openOp(kind, path)
	if err != nil {
		return nil, operating(err)
	}
	return &openFile{fs: s, node: n, path: path, writable: writable}, nil
}

// openOp is an open or a create as both views do it; the node has one open more.
func (s *FS) openOp(kind core.DiskOpKind, path string) (*node, error) {
	clean, err := cleanPath(path, true)
	if err != nil {
		return nil, err
	}
	if err := s.fail(kind, path); err != nil {
		return nil, pathError(kind.String(), path, err)
	}
	var n *node
	if kind == core.DiskCreate {
		n, err = s.create(clean)
	} else {
		n, err = s.openNode(clean)
	}
	if err != nil {
		return nil, pathError(kind.String(), path, err)
	}
	n.opens++
	return n, nil
}

// MakeDir makes a folder and its missing parents.
func (s *FS) MakeDir(path string) error { return s.pathOp(core.DiskMakeDir, path, "") }

// Remove removes a file or an empty folder.
func (s *FS) Remove(path string) error { return s.pathOp(core.DiskRemove, path, "") }

// Rename moves path to pathNew, replacing it.
func (s *FS) Rename(path, pathNew string) error { return s.pathOp(core.DiskRename, path, pathNew) }

// SyncDir makes the folder's entries durable.
func (s *FS) SyncDir(path string) error { return s.pathOp(core.DiskSyncDir, path, "") }

func (s *FS) pathOp(kind core.DiskOpKind, path, pathNew string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return operating(s.namespace(kind, path, pathNew))
}

// namespace is an operation on names as both views do it.
func (s *FS) namespace(kind core.DiskOpKind, path, pathNew string) error {
	clean, err := cleanPath(path, kind == core.DiskRemove || kind == core.DiskRename)
	if err != nil {
		return err
	}
	fault := s.match(kind, path)
	if err := fault.failure(); err != nil {
		return pathError(kind.String(), path, err)
	}
	if fault != nil && fault.Action == FaultLie {
		return nil
	}
	switch kind {
	case core.DiskMakeDir:
		err = s.makeDir(clean)
	case core.DiskRemove:
		err = s.remove(clean)
	case core.DiskSyncDir:
		err = s.syncDir(clean)
	case core.DiskRename:
		var cleanNew string
		if cleanNew, err = cleanPath(pathNew, true); err != nil {
			return err
		}
		err = s.rename(clean, cleanNew)
	}
	return pathError(kind.String(), path, err)
}

// RemoveAll removes path and what is below it.
func (s *FS) RemoveAll(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clean, err := cleanPath(path, true)
	if err != nil {
		return err
	}
	if err := s.fail(core.DiskRemove, path); err != nil {
		return operating(pathError("remove", path, err))
	}
	return pathError("remove", path, s.removeAll(clean))
}

// List returns the folder's entries in ascending order of their names.
func (s *FS) List(path string) ([]core.DirEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clean, err := cleanPath(path, false)
	if err != nil {
		return nil, err
	}
	n, err := s.find(clean)
	if err == nil && n.folder == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("list", path, err)
	}
	entries := make([]core.DirEntry, 0, len(n.folder.entries))
	for _, name := range namesOf(n.folder.entries) {
		entry := core.DirEntry{Name: name, IsDir: n.folder.entries[name].folder != nil}
		if !entry.IsDir {
			entry.Size = n.folder.entries[name].file.size
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func namesOf(entries map[string]*node) []string { return slices.Sorted(maps.Keys(entries)) }

// operating makes an error one of the port's.
func operating(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", core.ErrDiskFull, err)
	}
	return err
}

// openFile implements core.File.
type openFile struct {
	fs       *FS
	node     *node
	path     string
	writable bool
	closed   bool
}

// use runs a method under the lock if the file is open.
func (f *openFile) use(kind core.DiskOpKind, method func() error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError(kind.String(), f.path, syscall.EBADF)
	}
	if !f.writable && kind != core.DiskRead && kind != core.DiskClose && kind != core.DiskSync {
		return pathError(kind.String(), f.path, syscall.EBADF)
	}
	err := method()
	if err == io.EOF {
		return err
	}
	return operating(pathError(kind.String(), f.path, err))
}

func (f *openFile) ReadAt(p []byte, offset int64) (n int, err error) {
	err = f.use(core.DiskRead, func() (err error) {
		if n, err = f.fs.read(f.node, f.path, p, offset); err == nil && n < len(p) {
			err = io.EOF
		}
		return err
	})
	return n, err
}

func (f *openFile) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.use(core.DiskWrite, func() (err error) {
		n, err = f.fs.write(f.node, f.path, p, offset)
		return err
	})
	return n, err
}

func (f *openFile) Sync() error {
	return f.use(core.DiskSync, func() error { return f.fs.sync(f.node, f.path) })
}

func (f *openFile) Truncate(size int64) error {
	return f.use(core.DiskTruncate, func() error { return f.fs.truncate(f.node, f.path, size) })
}

func (f *openFile) Allocate(offset, length int64) error {
	return f.use(core.DiskAllocate, func() error { return f.fs.allocate(f.node, f.path, offset, length) })
}

func (f *openFile) Size() (size int64, err error) {
	err = f.use(core.DiskRead, func() error {
		size = f.node.file.size
		return nil
	})
	return size, err
}

func (f *openFile) Close() error {
	return f.use(core.DiskClose, func() error {
		f.closed = true
		return f.fs.closeNode(f.node, f.path)
	})
}
