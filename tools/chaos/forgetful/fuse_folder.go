//go:build linux

package main

// The requests of the kernel about open folders.

import (
	"sort"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func (f *FS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	d, s := f.dir(in.NodeId)
	if s != fuse.OK {
		return s
	}
	d.opens++
	out.Fh = f.addHandle(d)
	return fuse.OK
}

func (f *FS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	h := f.handle(in.Fh)
	if h == nil {
		return fuse.EIO
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.Offset == 0 || h.list == nil {
		f.ns.Lock()
		d := h.ino
		l := make([]fuse.DirEntry, 0, len(d.vis)+2)
		l = append(l, fuse.DirEntry{Name: ".", Mode: syscall.S_IFDIR, Ino: d.id},
			fuse.DirEntry{Name: "..", Mode: syscall.S_IFDIR, Ino: d.vparent.id})
		for n, i := range d.vis {
			l = append(l, fuse.DirEntry{Name: n, Mode: i.typ, Ino: i.id})
		}
		f.ns.Unlock()
		sort.Slice(l[2:], func(a, b int) bool { return l[2+a].Name < l[2+b].Name })
		h.list = l
	}
	for k := in.Offset; k < uint64(len(h.list)); k++ {
		e := h.list[k]
		e.Off = k + 1
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

func (f *FS) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	a := f.meet("fsyncdir", f.peek(in.Fh), "")
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.st.Fsyncdirs.Add(1)
	if a.errno != 0 {
		return fuse.Status(a.errno)
	}
	h := f.handle(in.Fh)
	if h == nil {
		return fuse.EIO
	}
	f.ns.Lock()
	defer f.ns.Unlock()
	if _, err := f.commit(map[*inode]uint64{h.ino: f.opSeq}); err != nil {
		return status(err)
	}
	if err := f.syncDirMeta(h.ino); err != nil {
		return status(err)
	}
	if f.ext4 {
		return status(f.commitNames(h.ino))
	}
	return fuse.OK
}

func (f *FS) ReleaseDir(in *fuse.ReleaseIn) { f.release(in.Fh) }
