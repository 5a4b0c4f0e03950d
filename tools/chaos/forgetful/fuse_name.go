//go:build linux

package main

// The requests of the kernel that change names.

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// create adds a new inode under a name.  ns held.
func (f *FS) create(h *fuse.InHeader, name string, typ, perm uint32) (*inode, fuse.Status) {
	if len(name) > 255 {
		return nil, fuse.Status(syscall.ENAMETOOLONG)
	}
	d, s := f.dir(h.NodeId)
	if s != fuse.OK {
		return nil, s
	}
	if d.vnlink == 0 {
		return nil, fuse.ENOENT
	}
	if d.vis[name] != nil {
		return nil, fuse.Status(syscall.EEXIST)
	}
	i := f.newInode(typ, perm, h.Uid, h.Gid)
	i.vnlink, i.vparent, i.vname = 1, d, name
	f.nodes[i.id] = i
	d.vis[name] = i
	f.touch(d)
	f.addOp(&dirop{kind: opLink, d1: d, n1: name, ino: i})
	return i, fuse.OK
}

func (f *FS) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i, s := f.create(&in.InHeader, name, in.Mode&syscall.S_IFMT, in.Mode)
	if s == fuse.OK {
		i.rdev = in.Rdev
		f.entry(i, out)
	}
	return s
}

func (f *FS) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if a := f.meetName("mkdir", in.NodeId, name); a.errno != 0 {
		return fuse.Status(a.errno)
	}
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i, s := f.create(&in.InHeader, name, syscall.S_IFDIR, in.Mode)
	if s == fuse.OK {
		f.entry(i, out)
	}
	return s
}

func (f *FS) Symlink(_ <-chan struct{}, h *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i, s := f.create(h, name, syscall.S_IFLNK, 0o777)
	if s == fuse.OK {
		i.link = to
		f.entry(i, out)
	}
	return s
}

func (f *FS) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	if !f.enter() {
		return nil, fuse.EIO
	}
	defer f.leave()
	i := f.node(h.NodeId)
	if i == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	return []byte(i.link), fuse.OK
}

func (f *FS) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if a := f.meetName("link", in.NodeId, name); a.errno != 0 {
		return fuse.Status(a.errno)
	}
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	if len(name) > 255 {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	d, s := f.dir(in.NodeId)
	if s != fuse.OK {
		return s
	}
	i := f.nodes[in.Oldnodeid]
	if i == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if d.vis[name] != nil {
		return fuse.Status(syscall.EEXIST)
	}
	i.vnlink++
	i.vparent, i.vname = d, name
	d.vis[name] = i
	f.touch(d)
	f.addOp(&dirop{kind: opLink, d1: d, n1: name, ino: i})
	f.entry(i, out)
	return fuse.OK
}

func (f *FS) remove(h *fuse.InHeader, name string, dir bool) fuse.Status {
	if a := f.meetName("unlink", h.NodeId, name); a.errno != 0 {
		return fuse.Status(a.errno)
	}
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
	if i.isDir() != dir {
		if dir {
			return fuse.ENOTDIR
		}
		return fuse.EISDIR
	}
	if dir {
		if err := f.load(i); err != nil {
			return status(err)
		}
		if len(i.vis) > 0 {
			return fuse.Status(syscall.ENOTEMPTY)
		}
	}
	delete(d.vis, name)
	i.vnlink--
	f.touch(d)
	f.addOp(&dirop{kind: opRemove, d1: d, n1: name, ino: i})
	f.maybeFree(i)
	return fuse.OK
}

func (f *FS) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.remove(h, name, false)
}

func (f *FS) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.remove(h, name, true)
}

func (f *FS) Rename(_ <-chan struct{}, in *fuse.RenameIn, n1, n2 string) fuse.Status {
	if a := f.meetName("rename", in.NodeId, n1); a.errno != 0 {
		return fuse.Status(a.errno)
	}
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	if len(n2) > 255 {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	if in.Flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return fuse.EINVAL
	}
	d1, s := f.dir(in.NodeId)
	if s != fuse.OK {
		return s
	}
	d2, s := f.dir(in.Newdir)
	if s != fuse.OK {
		return s
	}
	i, t := d1.vis[n1], d2.vis[n2]
	if i == nil || d2.vnlink == 0 {
		return fuse.ENOENT
	}
	if in.Flags&unix.RENAME_EXCHANGE != 0 {
		if t == nil {
			return fuse.ENOENT
		}
		if t == i {
			return fuse.OK
		}
		d1.vis[n1], d2.vis[n2] = t, i
		i.vparent, i.vname, t.vparent, t.vname = d2, n2, d1, n1
		f.addOp(&dirop{kind: opExchange, d1: d1, d2: d2, n1: n1, n2: n2, ino: i, t: t})
		return fuse.OK
	}
	if t != nil {
		if in.Flags&unix.RENAME_NOREPLACE != 0 {
			return fuse.Status(syscall.EEXIST)
		}
		if t == i {
			return fuse.OK
		}
		if t.isDir() {
			if !i.isDir() {
				return fuse.EISDIR
			}
			if err := f.load(t); err != nil {
				return status(err)
			}
			if len(t.vis) > 0 {
				return fuse.Status(syscall.ENOTEMPTY)
			}
		} else if i.isDir() {
			return fuse.ENOTDIR
		}
		t.vnlink--
	}
	delete(d1.vis, n1)
	d2.vis[n2] = i
	i.vparent, i.vname = d2, n2
	f.touch(d1)
	f.touch(d2)
	f.addOp(&dirop{kind: opRename, d1: d1, d2: d2, n1: n1, n2: n2, ino: i, t: t})
	if t != nil {
		f.maybeFree(t)
	}
	return fuse.OK
}
