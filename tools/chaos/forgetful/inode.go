//go:build linux

package main

// An inode is a file or a folder, as the mount shows it and as the backing folder holds it.

import (
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type dlink struct {
	dir  *inode
	name string
}

type fallocRange struct{ off, n int64 }

type inode struct {
	id   uint64
	typ  uint32 // S_IFMT bits
	rdev uint32
	link string // symlink target

	// Namespace; guarded by FS.ns.
	vnlink  int // visible links (directories: 1, or 0 once removed)
	nlookup uint64
	opens   int
	pend    int // pending dirops that mention this inode
	loaded  bool
	vis     map[string]*inode // directories: what the mount shows
	dur     map[string]*inode // directories: what BACKING holds
	vparent *inode            // one visible name, for paths in faults and stats
	vname   string
	dlinks  map[dlink]struct{} // known durable names
	hidden  bool               // durable body is in the trash under its id

	fd atomic.Int32 // backing file while open, -1 otherwise

	// Guarded by mu (taken after FS.ns, never the other way round).
	mu        sync.Mutex
	perm      uint32
	uid, gid  uint32
	at, mt, c time.Time
	metaDirty bool
	timeDirty bool
	vsize     int64 // size the mount shows
	dsize     int64 // size of the backing file
	base      int64 // backing bytes [0,base) still show through; base<=vsize, base<=dsize
	pages     map[int64]*page
	fallocs   []fallocRange
}

func (i *inode) isDir() bool { return i.typ == syscall.S_IFDIR }

func (i *inode) isReg() bool { return i.typ == syscall.S_IFREG }

func (i *inode) dataDirty() bool {
	if i.vsize != i.dsize || i.base != i.dsize || len(i.fallocs) > 0 {
		return true
	}
	for _, p := range i.pages {
		if p.dirty != 0 {
			return true
		}
	}
	return false
}

func (f *FS) newInode(typ, perm, uid, gid uint32) *inode {
	now := time.Now()
	f.nextID++
	i := &inode{id: f.nextID, typ: typ, perm: perm & 0o7777, uid: uid, gid: gid, at: now, mt: now, c: now,
		dlinks: map[dlink]struct{}{}}
	i.fd.Store(-1)
	if typ == syscall.S_IFDIR {
		i.vis, i.dur, i.loaded = map[string]*inode{}, map[string]*inode{}, true
	}
	return i
}

func (f *FS) inodeFromStat(st *unix.Stat_t) *inode {
	i := f.newInode(st.Mode&syscall.S_IFMT, st.Mode, st.Uid, st.Gid)
	i.rdev = uint32(st.Rdev)
	i.at, i.mt, i.c = time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())
	i.vnlink = int(st.Nlink)
	if i.isDir() {
		i.vnlink, i.loaded = 1, false
	}
	if i.isReg() {
		i.vsize, i.dsize, i.base = st.Size, st.Size, st.Size
	}
	return i
}

func (f *FS) alive(i *inode) bool { return i.vnlink > 0 || i.opens > 0 || i.nlookup > 0 || i.pend > 0 }

// maybeFree drops an inode nobody can reach any more.  ns held.
func (f *FS) maybeFree(i *inode) {
	if i == f.root || f.nodes[i.id] != i {
		return
	}
	if i.vnlink == 0 && i.opens == 0 && i.isReg() {
		i.mu.Lock()
		i.dropPages()
		i.fallocs = nil
		i.mu.Unlock()
	}
	if f.alive(i) || len(i.dlinks) > 0 {
		return
	}
	if i.hidden {
		os.RemoveAll(f.dpath(i))
		i.hidden = false
	}
	for k, v := range f.byIno {
		if v == i {
			delete(f.byIno, k)
			break
		}
	}
	delete(f.nodes, i.id)
}

func (f *FS) sorted() []*inode {
	l := make([]*inode, 0, len(f.nodes))
	for _, i := range f.nodes {
		l = append(l, i)
	}
	sort.Slice(l, func(a, b int) bool { return l[a].id < l[b].id })
	return l
}
