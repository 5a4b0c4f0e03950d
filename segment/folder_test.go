package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// folder is a core.FS in memory that knows what a power cut leaves: of a file
// what was synced, of a folder the entries that were synced.
type folder struct {
	mu      sync.Mutex
	live    map[string]*folderFile
	durable map[string]*folderFile
	dirs    map[string]bool
	// steps counts changing operations; at failAt every one from there on fails.
	steps, failAt int
	reads         int
	garble        bool // reads come back with a bit changed
}

type folderFile struct {
	data, synced []byte
}

var errFolderCut = errors.New("injected: the power is off")

func newFolder() *folder {
	return &folder{live: map[string]*folderFile{}, durable: map[string]*folderFile{}, dirs: map[string]bool{}}
}

// cut returns what a power cut leaves.
func (f *folder) cut() *folder {
	c := newFolder()
	maps.Copy(c.dirs, f.dirs)
	for name, file := range f.durable {
		twin := &folderFile{data: slices.Clone(file.synced), synced: slices.Clone(file.synced)}
		c.live[name], c.durable[name] = twin, twin
	}
	return c
}

// put makes a file, durable at once.
func (f *folder) put(name string, b []byte) {
	file := &folderFile{data: slices.Clone(b), synced: slices.Clone(b)}
	f.live[name], f.durable[name] = file, file
	f.dirs[path.Dir(name)] = true
}

func (f *folder) get(t testing.TB, name string) []byte {
	t.Helper()
	file := f.live[name]
	if file == nil {
		t.Fatalf("no file %s", name)
	}
	return file.data
}

func (f *folder) names() []string { return slices.Sorted(maps.Keys(f.live)) }

func (f *folder) step() error {
	f.steps++
	if f.failAt > 0 && f.steps >= f.failAt {
		return errFolderCut
	}
	return nil
}

func (f *folder) Open(name string) (core.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.live[name]
	if file == nil {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return &folderHandle{f, file}, nil
}
func (f *folder) OpenRead(name string) (core.File, error) { return f.Open(name) }

func (f *folder) Create(name string) (core.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return nil, err
	}
	if f.live[name] != nil {
		return nil, fmt.Errorf("create %s: %w", name, fs.ErrExist)
	}
	f.live[name] = &folderFile{}
	return &folderHandle{f, f.live[name]}, nil
}

func (f *folder) MakeDir(name string) error { f.dirs[name] = true; return nil }

func (f *folder) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live[name] == nil {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	if err := f.step(); err != nil {
		return err
	}
	delete(f.live, name)
	return nil
}

func (f *folder) RemoveAll(name string) error {
	maps.DeleteFunc(f.live, func(n string, _ *folderFile) bool { return n == name || strings.HasPrefix(n, name+"/") })
	return nil
}

func (f *folder) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	if f.live[from] == nil {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	f.live[to] = f.live[from]
	delete(f.live, from)
	return nil
}

func (f *folder) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	maps.DeleteFunc(f.durable, func(n string, _ *folderFile) bool { return path.Dir(n) == name && f.live[n] == nil })
	for n, file := range f.live {
		if path.Dir(n) == name {
			f.durable[n] = file
		}
	}
	return nil
}

func (f *folder) List(name string) ([]core.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]core.DirEntry{}
	for n, file := range f.live {
		rest := n
		if name != "." && name != "" {
			var under bool
			if rest, under = strings.CutPrefix(n, name+"/"); !under {
				continue
			}
		}
		if first, _, deep := strings.Cut(rest, "/"); deep {
			found[first] = core.DirEntry{Name: first, IsDir: true}
		} else {
			found[rest] = core.DirEntry{Name: rest, Size: int64(len(file.data))}
		}
	}
	if len(found) == 0 && !f.dirs[name] {
		return nil, fmt.Errorf("list %s: %w", name, fs.ErrNotExist)
	}
	var entries []core.DirEntry
	for _, n := range slices.Sorted(maps.Keys(found)) {
		entries = append(entries, found[n])
	}
	return entries, nil
}

func (f *folder) Space() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }

type folderHandle struct {
	in   *folder
	file *folderFile
}

func (h *folderHandle) ReadAt(b []byte, at int64) (int, error) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	h.in.reads++
	if at >= int64(len(h.file.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.file.data[at:])
	if h.in.garble && n > 0 {
		b[n/2] ^= 4
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *folderHandle) WriteAt(b []byte, at int64) (int, error) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if err := h.in.step(); err != nil {
		n := min(len(b)/2, len(b))
		h.grow(at + int64(n))
		copy(h.file.data[at:], b[:n])
		return n, err
	}
	h.grow(at + int64(len(b)))
	return copy(h.file.data[at:], b), nil
}

func (h *folderHandle) grow(size int64) {
	if n := size - int64(len(h.file.data)); n > 0 {
		h.file.data = append(h.file.data, make([]byte, n)...)
	}
}

func (h *folderHandle) Sync() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if err := h.in.step(); err != nil {
		return err
	}
	h.file.synced = slices.Clone(h.file.data)
	return nil
}

func (h *folderHandle) Size() (int64, error) { return int64(len(h.file.data)), nil }

func (h *folderHandle) Truncate(size int64) error {
	h.grow(size)
	h.file.data = h.file.data[:size]
	return nil
}

func (h *folderHandle) Allocate(offset, length int64) error {
	h.grow(offset + length)
	return nil
}

func (h *folderHandle) Close() error { return nil }
