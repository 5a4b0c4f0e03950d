//go:build linux

package main

// The requests of the kernel about attributes.

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (f *FS) String() string { return "forgetful" }

func (f *FS) fillAttr(i *inode, a *fuse.Attr) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a.Ino = i.id
	a.Mode = i.typ | i.perm
	a.Nlink = uint32(i.vnlink)
	a.Uid, a.Gid, a.Rdev = i.uid, i.gid, i.rdev
	a.Blksize = 4096
	switch {
	case i.isReg():
		a.Size = uint64(i.vsize)
	case i.isDir():
		a.Size = 4096
	default:
		a.Size = uint64(len(i.link))
	}
	a.Blocks = (a.Size + 511) / 512
	a.Atime, a.Atimensec = uint64(i.at.Unix()), uint32(i.at.Nanosecond())
	a.Mtime, a.Mtimensec = uint64(i.mt.Unix()), uint32(i.mt.Nanosecond())
	a.Ctime, a.Ctimensec = uint64(i.c.Unix()), uint32(i.c.Nanosecond())
}

// entry answers with an inode.  ns held.
func (f *FS) entry(i *inode, out *fuse.EntryOut) {
	i.nlookup++
	out.NodeId, out.Generation = i.id, f.gen
	f.fillAttr(i, &out.Attr)
}

func (f *FS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	d, s := f.dir(h.NodeId)
	if s != fuse.OK {
		return s
	}
	i := d.vis[name]
	if i == nil {
		return fuse.ENOENT
	}
	f.entry(i, out)
	return fuse.OK
}

func (f *FS) Forget(id, n uint64) {
	f.big.RLock()
	defer f.big.RUnlock()
	f.ns.Lock()
	defer f.ns.Unlock()
	if i := f.nodes[id]; i != nil && i != f.root {
		i.nlookup -= min(n, i.nlookup)
		if i.nlookup == 0 {
			f.maybeFree(i)
		}
	}
}

func (f *FS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i := f.nodes[in.NodeId]
	if i == nil {
		return fuse.Status(syscall.ESTALE)
	}
	f.fillAttr(i, &out.Attr)
	return fuse.OK
}

func (f *FS) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	i := f.nodes[in.NodeId]
	f.ns.Unlock()
	if i == nil {
		return fuse.Status(syscall.ESTALE)
	}
	i.mu.Lock()
	if in.Valid&fuse.FATTR_SIZE != 0 {
		if !i.isReg() {
			i.mu.Unlock()
			return fuse.EINVAL
		}
		i.truncate(int64(in.Size))
	}
	if in.Valid&fuse.FATTR_MODE != 0 {
		i.perm, i.metaDirty = in.Mode&0o7777, true
	}
	if in.Valid&fuse.FATTR_UID != 0 {
		i.uid, i.metaDirty = in.Uid, true
	}
	if in.Valid&fuse.FATTR_GID != 0 {
		i.gid, i.metaDirty = in.Gid, true
	}
	if t, ok := in.GetATime(); ok {
		i.at, i.metaDirty, i.timeDirty = t, true, true
	}
	if t, ok := in.GetMTime(); ok {
		i.mt, i.metaDirty, i.timeDirty = t, true, true
	}
	i.c = time.Now()
	i.mu.Unlock()
	f.ns.Lock()
	defer f.ns.Unlock()
	f.fillAttr(i, &out.Attr)
	return fuse.OK
}

func (f *FS) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	f.leave()
	return fuse.OK
}

func (f *FS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	var st unix.Statfs_t
	if err := unix.Statfs(f.backing, &st); err != nil {
		return status(err)
	}
	out.Blocks, out.Bfree, out.Bavail, out.Files, out.Ffree = st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree
	out.Bsize, out.NameLen, out.Frsize = uint32(st.Bsize), 255, uint32(st.Frsize)
	return fuse.OK
}
