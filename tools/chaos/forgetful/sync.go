//go:build linux

package main

// A sync makes a file's data durable, and with --ext4 its names.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// syncInode makes a regular file's data and size (and, unless dataOnly, its
// mode, owner and times) durable.
func (f *FS) syncInode(i *inode, dataOnly bool) error {
	f.ns.Lock()
	_, err := f.materialize(i)
	if err == nil {
		err = f.openBacking(i)
	}
	f.ns.Unlock()
	if err != nil {
		return err
	}
	if i.isReg() {
		i.mu.Lock()
		dirty := i.dataDirty()
		if dirty {
			err = i.apply()
		}
		fd := int(i.fd.Load())
		if err == nil && !dataOnly && i.metaDirty {
			if err = unix.Fchmod(fd, i.perm); err == nil {
				err = unix.Fchown(fd, int(i.uid), int(i.gid))
			}
			if err == nil && i.timeDirty {
				err = unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd),
					[]unix.Timespec{ts(i.at), ts(i.mt)}, 0)
			}
			if err == nil {
				i.metaDirty, i.timeDirty, dirty = false, false, true
			}
		}
		if err == nil && dirty && f.realSync.Load() {
			if dataOnly {
				err = unix.Fdatasync(fd)
			} else {
				err = unix.Fsync(fd)
			}
		}
		i.mu.Unlock()
	}
	if err != nil {
		return err
	}
	if f.ext4 {
		f.ns.Lock()
		defer f.ns.Unlock()
		return f.commitNames(i)
	}
	return nil
}

func ts(t time.Time) unix.Timespec { return unix.NsecToTimespec(t.UnixNano()) }

// syncDirMeta makes a directory's own mode and owner durable.  ns held.
func (f *FS) syncDirMeta(d *inode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.metaDirty {
		return nil
	}
	p := f.dpath(d)
	if p == "" {
		return nil
	}
	if err := unix.Chmod(p, d.perm); err != nil {
		return err
	}
	if err := unix.Chown(p, int(d.uid), int(d.gid)); err != nil {
		return err
	}
	if d.timeDirty {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts(d.at), ts(d.mt)}, 0); err != nil {
			return err
		}
	}
	d.metaDirty, d.timeDirty = false, false
	return nil
}

// syncAll makes everything durable, as an orderly unmount does.  big held for writing.
func (f *FS) syncAll() error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, i := range f.sorted() {
		if i.isReg() && i.vnlink > 0 && (i.dataDirty() || i.metaDirty) {
			i.opens++ // keeps the descriptor
			note(f.syncInode(i, false))
			i.opens--
			f.closeBacking(i)
		}
	}
	need := map[*inode]uint64{}
	for _, o := range f.ops {
		for _, d := range o.dirs {
			need[d] = o.seq
		}
	}
	f.ns.Lock()
	_, err := f.commit(need)
	note(err)
	for _, i := range f.nodes {
		if i.isDir() && i.vnlink > 0 {
			note(f.syncDirMeta(i))
		}
	}
	f.ns.Unlock()
	return first
}
