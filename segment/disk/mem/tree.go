package mem

import (
	"io/fs"
	"strings"
	"syscall"

	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// node is a file or a folder. Names are in the folders, so a node can be renamed,
// and lives on without a name while it is open or a crash may bring its name back.
type node struct {
	file   *fileData // nil for a folder
	folder *folder   // nil for a file
	opens  int       // open handles of a file
	linked bool      // it has a name now
}

// folder is a folder's entries, now and as the last SyncDir left them.
type folder struct {
	entries map[string]*node
	durable map[string]*node
}

func newFile() *node { return &node{file: newFileData(), linked: true} }

func newFolder() *node {
	return &node{folder: &folder{entries: map[string]*node{}, durable: map[string]*node{}}, linked: true}
}

// change is one namespace operation that no SyncDir has made safe yet. All its
// edits happen in a crash, or none: a rename is atomic.
type change struct{ edits []edit }

// edit gives a name in a folder a new meaning; a nil node removes it.
type edit struct {
	folder *node
	name   string
	node   *node
}

// find walks to the node that a valid path names.
func (s *FS) find(path string) (*node, error) {
	at := s.root
	if path == "." {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if at.folder == nil {
			return nil, syscall.ENOTDIR
		}
		next := at.folder.entries[name]
		if next == nil {
			return nil, syscall.ENOENT
		}
		at = next
	}
	return at, nil
}

// parent finds the folder that path is in, and the last name of path.
func (s *FS) parent(path string) (*node, string, error) {
	above, name := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		above, name = path[:i], path[i+1:]
	}
	at, err := s.find(above)
	if err == nil && at.folder == nil {
		err = syscall.ENOTDIR
	}
	return at, name, err
}

// apply makes a change visible, and remembers it as not yet safe.
func (s *FS) apply(c change) {
	for _, e := range c.edits {
		if e.node == nil {
			delete(e.folder.folder.entries, e.name)
		} else {
			e.folder.folder.entries[e.name] = e.node
		}
	}
	s.changes = append(s.changes, c)
}

func (s *FS) create(path string) (*node, error) {
	above, name, err := s.parent(path)
	if err != nil {
		return nil, err
	}
	if above.folder.entries[name] != nil {
		return nil, syscall.EEXIST
	}
	n := newFile()
	s.apply(change{[]edit{{above, name, n}}})
	return n, nil
}

func (s *FS) openNode(path string) (*node, error) {
	n, err := s.find(path)
	if err != nil {
		return nil, err
	}
	if n.file == nil {
		return nil, syscall.EISDIR
	}
	return n, nil
}

func (s *FS) makeDir(path string) error {
	if path == "." {
		return nil
	}
	at := s.root
	for name := range strings.SplitSeq(path, "/") {
		if at.folder == nil {
			return syscall.ENOTDIR
		}
		next := at.folder.entries[name]
		if next == nil {
			next = newFolder()
			s.apply(change{[]edit{{at, name, next}}})
		}
		at = next
	}
	if at.folder == nil {
		return syscall.EEXIST
	}
	return nil
}

func (s *FS) remove(path string) error {
	above, name, err := s.parent(path)
	if err != nil {
		return err
	}
	n := above.folder.entries[name]
	if n == nil {
		return syscall.ENOENT
	}
	if n.folder != nil && len(n.folder.entries) > 0 {
		return syscall.ENOTEMPTY
	}
	s.apply(change{[]edit{{above, name, nil}}})
	s.unlink(n)
	return nil
}

// removeAll removes from the leaves up, as the system does it: a crash may find
// any part of it done.
func (s *FS) removeAll(path string) error {
	n, err := s.find(path)
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if n.folder != nil {
		for _, name := range namesOf(n.folder.entries) {
			if err := s.removeAll(path + "/" + name); err != nil {
				return err
			}
		}
	}
	return s.remove(path)
}

func (s *FS) rename(path, pathNew string) error {
	above, name, err := s.parent(path)
	if err != nil {
		return err
	}
	n := above.folder.entries[name]
	if n == nil {
		return syscall.ENOENT
	}
	aboveNew, nameNew, err := s.parent(pathNew)
	if err != nil {
		return err
	}
	if pathNew == path {
		return nil
	}
	if strings.HasPrefix(pathNew, path+"/") {
		return syscall.EINVAL // a folder cannot move below itself
	}
	replaced := aboveNew.folder.entries[nameNew]
	if replaced != nil {
		switch {
		case replaced.folder != nil && n.folder == nil:
			return syscall.EISDIR
		case replaced.folder == nil && n.folder != nil:
			return syscall.ENOTDIR
		case replaced.folder != nil && len(replaced.folder.entries) > 0:
			return syscall.ENOTEMPTY
		}
	}
	s.apply(change{[]edit{{above, name, nil}, {aboveNew, nameNew, n}}})
	if replaced != nil {
		s.unlink(replaced)
	}
	return nil
}

// syncDir makes the folder's entries safe. A rename that touches it becomes safe
// as a whole, as in a journaling file system.
func (s *FS) syncDir(path string) error {
	n, err := s.find(path)
	if err != nil {
		return err
	}
	if n.folder == nil {
		return syscall.ENOTDIR
	}
	kept := s.changes[:0]
	for _, c := range s.changes {
		touches := false
		for _, e := range c.edits {
			touches = touches || e.folder == n
		}
		if touches {
			c.makeDurable()
		} else {
			kept = append(kept, c)
		}
	}
	clear(s.changes[len(kept):])
	s.changes = kept
	return nil
}

func (c change) makeDurable() {
	for _, e := range c.edits {
		if e.node == nil {
			delete(e.folder.folder.durable, e.name)
		} else {
			e.folder.folder.durable[e.name] = e.node
		}
	}
}

// unlink takes the name from a node; its space is free when nobody has it open.
func (s *FS) unlink(n *node) {
	n.linked = false
	s.reclaim(n)
}

func (s *FS) reclaim(n *node) {
	if n.file != nil && !n.linked && n.opens == 0 {
		s.used -= int64(len(n.file.pages)) * pageBytes
	}
}

// cleanPath checks a path as every disk does.
func cleanPath(path string, file bool) (string, error) {
	if file {
		return contract.FilePath(path)
	}
	return contract.Path(path)
}

// pathError gives an errno the form that the os package gives it.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
