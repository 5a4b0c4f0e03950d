//go:build linux

package main

// Folders and paths: where an inode is visible, and where its durable body lies.

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// dpath is where the inode's durable body is in the backing tree, "" if it has none.
func (f *FS) dpath(i *inode) string {
	if i == f.root {
		return f.backing
	}
	if i.hidden {
		return filepath.Join(f.trash, strconv.FormatUint(i.id, 10))
	}
	for l := range i.dlinks {
		return f.dpath(l.dir) + "/" + l.name
	}
	return ""
}

// vpath is one visible path, relative to the mount, starting with "/".
func (f *FS) vpath(i *inode) string {
	if i == f.root {
		return "/"
	}
	s := ""
	for n := 0; i != nil && i != f.root && n < 4096; n++ {
		s = "/" + i.vname + s
		i = i.vparent
	}
	return s
}

// load reads a directory's durable entries on first use.  ns held.
func (f *FS) load(d *inode) error {
	if d.loaded {
		return nil
	}
	p := f.dpath(d)
	ents, err := os.ReadDir(p)
	if err != nil {
		return err
	}
	for _, e := range ents {
		name := e.Name()
		var st unix.Stat_t
		if err := unix.Lstat(p+"/"+name, &st); err != nil {
			return err
		}
		key := devino{st.Dev, st.Ino}
		var i *inode
		if st.Nlink > 1 && st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			i = f.byIno[key]
		}
		if i == nil {
			i = f.inodeFromStat(&st)
			if i.typ == syscall.S_IFLNK {
				if i.link, err = os.Readlink(p + "/" + name); err != nil {
					return err
				}
			}
			if st.Nlink > 1 && !i.isDir() {
				f.byIno[key] = i
			}
			f.nodes[i.id] = i
			i.vparent, i.vname = d, name
		}
		i.dlinks[dlink{d, name}] = struct{}{}
		d.vis[name], d.dur[name] = i, i
	}
	d.loaded = true
	return nil
}

// dir finds a live directory by node id and loads it.  ns held.
func (f *FS) dir(id uint64) (*inode, fuse.Status) {
	d := f.nodes[id]
	if d == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	if !d.isDir() {
		return nil, fuse.ENOTDIR
	}
	if err := f.load(d); err != nil {
		return nil, status(err)
	}
	return d, fuse.OK
}

func (f *FS) node(id uint64) *inode {
	f.ns.Lock()
	defer f.ns.Unlock()
	return f.nodes[id]
}

func (f *FS) touch(d *inode) {
	d.mu.Lock()
	d.mt = time.Now()
	d.c = d.mt
	d.mu.Unlock()
}
