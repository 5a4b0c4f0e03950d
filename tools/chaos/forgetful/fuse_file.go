//go:build linux

package main

// The requests of the kernel about open files.

import (
	"fmt"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func (f *FS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
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
	return f.openIno(i, out)
}

func (f *FS) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if a := f.meetName("create", in.NodeId, name); a.errno != 0 {
		return fuse.Status(a.errno)
	}
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i, s := f.create(&in.InHeader, name, syscall.S_IFREG, in.Mode)
	if s != fuse.OK {
		return s
	}
	if s = f.openIno(i, &out.OpenOut); s != fuse.OK {
		return s
	}
	f.entry(i, &out.EntryOut)
	return fuse.OK
}

func (f *FS) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.ns.Lock()
	defer f.ns.Unlock()
	i := f.newInode(syscall.S_IFREG, in.Mode, in.Uid, in.Gid)
	i.vparent, i.vname = f.nodes[in.NodeId], fmt.Sprintf("#tmpfile%d", i.id)
	f.nodes[i.id] = i
	if s := f.openIno(i, &out.OpenOut); s != fuse.OK {
		return s
	}
	f.entry(i, &out.EntryOut)
	return fuse.OK
}

func (f *FS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	a := f.meet("read", f.peek(in.Fh), "")
	if !f.enter() {
		return nil, fuse.EIO
	}
	defer f.leave()
	f.st.Reads.Add(1)
	if a.errno != 0 {
		return nil, fuse.Status(a.errno)
	}
	h := f.handle(in.Fh)
	if h == nil {
		return nil, fuse.EIO
	}
	i := h.ino
	i.mu.Lock()
	n, err := i.read(buf, int64(in.Offset))
	i.mu.Unlock()
	if err != nil {
		return nil, status(err)
	}
	f.st.BytesRead.Add(int64(n))
	if a.short {
		n = shorten(n)
	}
	if a.flip {
		flip(buf[:n])
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

func (f *FS) Writev(c <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if len(data) == 1 {
		return f.Write(c, in, data[0])
	}
	var b []byte
	for _, d := range data {
		b = append(b, d...)
	}
	return f.Write(c, in, b)
}

func (f *FS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	a := f.meet("write", f.peek(in.Fh), "")
	if !f.enter() {
		return 0, fuse.EIO
	}
	defer f.leave()
	f.st.Writes.Add(1)
	if a.errno != 0 {
		return 0, fuse.Status(a.errno)
	}
	h := f.handle(in.Fh)
	if h == nil {
		return 0, fuse.EIO
	}
	if a.short {
		data = data[:shorten(len(data))]
	}
	if a.flip {
		data = append([]byte(nil), data...)
		flip(data)
	}
	i, off := h.ino, int64(in.Offset)
	var err error
	switch {
	case in.Flags&syscall.O_SYNC == syscall.O_SYNC: // O_SYNC, RWF_SYNC
		f.st.Dsync.Add(1)
		i.mu.Lock()
		err = i.write(data, off)
		i.mu.Unlock()
		if err == nil {
			err = f.syncInode(i, false)
		}
	case in.Flags&syscall.O_DSYNC != 0: // O_DSYNC, RWF_DSYNC
		f.st.Dsync.Add(1)
		f.ns.Lock()
		if _, err = f.materialize(i); err == nil {
			err = f.openBacking(i)
		}
		f.ns.Unlock()
		if err == nil {
			i.mu.Lock()
			if err = i.dsyncWrite(data, off); err == nil && f.realSync.Load() {
				err = unix.Fdatasync(int(i.fd.Load()))
			}
			i.mu.Unlock()
		}
		if err == nil && f.ext4 {
			f.ns.Lock()
			err = f.commitNames(i)
			f.ns.Unlock()
		}
	default:
		i.mu.Lock()
		err = i.write(data, off)
		i.mu.Unlock()
	}
	if err != nil {
		return 0, status(err)
	}
	f.st.BytesWritten.Add(int64(len(data)))
	return uint32(len(data)), fuse.OK
}

func (f *FS) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	a := f.meet("fallocate", f.peek(in.Fh), "")
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	if a.errno != 0 {
		return fuse.Status(a.errno)
	}
	h := f.handle(in.Fh)
	if h == nil {
		return fuse.EIO
	}
	i := h.ino
	off, end := int64(in.Offset), int64(in.Offset+in.Length)
	if off < 0 || end <= off {
		return fuse.EINVAL
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	keep := in.Mode&unix.FALLOC_FL_KEEP_SIZE != 0
	var err error
	switch in.Mode &^ unix.FALLOC_FL_KEEP_SIZE {
	case 0:
	case unix.FALLOC_FL_PUNCH_HOLE:
		if !keep {
			return fuse.Status(syscall.EOPNOTSUPP)
		}
		return status(i.zero(off, end))
	case unix.FALLOC_FL_ZERO_RANGE:
		err = i.zero(off, end)
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if err != nil {
		return status(err)
	}
	i.fallocs = append(i.fallocs, fallocRange{off, end - off})
	if !keep && end > i.vsize {
		i.truncate(end)
	}
	return fuse.OK
}

func (f *FS) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	a := f.meet("fsync", f.peek(in.Fh), "")
	if !f.enter() {
		return fuse.EIO
	}
	defer f.leave()
	f.st.Fsyncs.Add(1)
	h := f.handle(in.Fh)
	if h == nil {
		return fuse.EIO
	}
	if a.errno != 0 {
		h.ino.mu.Lock()
		h.ino.syncFailed(a.after)
		h.ino.mu.Unlock()
		return fuse.Status(a.errno)
	}
	return status(f.syncInode(h.ino, in.FsyncFlags&1 != 0))
}

func (f *FS) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	f.leave()
	return fuse.OK
}

func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.release(in.Fh) }
