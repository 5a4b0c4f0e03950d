//go:build linux

package main

// Operations on names wait in the queues of their folders until one of these is synced.

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

type opKind int

const (
	opLink opKind = iota // create, mkdir, symlink, mknod, link
	opRemove
	opRename
	opExchange
)

var opNames = [...]string{"link", "remove", "rename", "exchange"}

type dirop struct {
	seq     uint64
	kind    opKind
	d1, d2  *inode
	n1, n2  string
	ino, t  *inode   // object; overwritten or exchanged object
	dirs    []*inode // directories whose queue this is in
	barrier bool     // takes every earlier op with it (directory moved between parents)
}

func (f *FS) addOp(o *dirop) {
	f.opSeq++
	o.seq = f.opSeq
	o.dirs = append(o.dirs, o.d1)
	if o.d2 != nil && o.d2 != o.d1 {
		o.dirs = append(o.dirs, o.d2)
	}
	// Removing a directory takes its own queue with it.
	if o.kind == opRemove && o.ino.isDir() {
		o.dirs = append(o.dirs, o.ino)
	}
	if o.kind == opRename && o.t != nil && o.t.isDir() {
		o.dirs = append(o.dirs, o.t)
	}
	if o.d2 != nil && o.d2 != o.d1 && (o.ino.isDir() || (o.kind == opExchange && o.t.isDir())) {
		o.barrier = true
	}
	f.pend(o, 1)
	f.ops = append(f.ops, o)
}

func (f *FS) pend(o *dirop, by int) {
	for _, i := range []*inode{o.d1, o.d2, o.ino, o.t} {
		if i != nil {
			i.pend += by
		}
	}
}

// forgetName drops the durable name d/n of t, before it is overwritten or removed.
// overwrite: a rename onto it follows, so the name itself is left for that.
func (f *FS) forgetName(d *inode, n string, t *inode, overwrite bool) error {
	p := f.dpath(d) + "/" + n
	delete(t.dlinks, dlink{d, n})
	tp := filepath.Join(f.trash, strconv.FormatUint(t.id, 10))
	keep := len(t.dlinks) == 0 && f.alive(t)
	var err error
	switch {
	case keep && (t.isDir() || !overwrite):
		err = unix.Rename(p, tp)
	case keep:
		err = unix.Link(p, tp)
	case overwrite:
	case t.isDir():
		err = unix.Rmdir(p)
	default:
		err = unix.Unlink(p)
	}
	if err != nil {
		t.dlinks[dlink{d, n}] = struct{}{}
		return fmt.Errorf("forget %s: %w", p, err)
	}
	if keep {
		t.hidden = true
	}
	delete(d.dur, n)
	return nil
}

// applyOp makes one directory operation durable.  ns held.
func (f *FS) applyOp(o *dirop, touched map[string]bool) error {
	dp, err := f.materialize(o.d1)
	if err != nil {
		return err
	}
	touched[dp] = true
	p1 := dp + "/" + o.n1
	switch o.kind {
	case opLink:
		if t := o.d1.dur[o.n1]; t != nil {
			return fmt.Errorf("link %s: name is taken: %w", p1, syscall.EIO)
		}
		src, err := f.materialize(o.ino)
		if err != nil {
			return err
		}
		if o.ino.hidden {
			if err := unix.Rename(src, p1); err != nil {
				return fmt.Errorf("place %s: %w", p1, err)
			}
			o.ino.hidden = false
		} else if err := unix.Linkat(unix.AT_FDCWD, src, unix.AT_FDCWD, p1, 0); err != nil {
			return fmt.Errorf("link %s: %w", p1, err)
		}
		o.d1.dur[o.n1] = o.ino
		o.ino.dlinks[dlink{o.d1, o.n1}] = struct{}{}
	case opRemove:
		t := o.d1.dur[o.n1]
		if t != o.ino {
			return fmt.Errorf("remove %s: not the durable entry: %w", p1, syscall.EIO)
		}
		return f.forgetName(o.d1, o.n1, t, false)
	case opRename, opExchange:
		dp2, err := f.materialize(o.d2)
		if err != nil {
			return err
		}
		touched[dp2] = true
		p2 := dp2 + "/" + o.n2
		i, t := o.d1.dur[o.n1], o.d2.dur[o.n2]
		if i != o.ino || t != o.t {
			return fmt.Errorf("rename %s to %s: not the durable entries: %w", p1, p2, syscall.EIO)
		}
		if o.kind == opExchange {
			if err := unix.Renameat2(unix.AT_FDCWD, p1, unix.AT_FDCWD, p2, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			delete(i.dlinks, dlink{o.d1, o.n1})
			delete(t.dlinks, dlink{o.d2, o.n2})
			i.dlinks[dlink{o.d2, o.n2}] = struct{}{}
			t.dlinks[dlink{o.d1, o.n1}] = struct{}{}
			o.d1.dur[o.n1], o.d2.dur[o.n2] = t, i
			return nil
		}
		if t != nil {
			if err := f.forgetName(o.d2, o.n2, t, true); err != nil {
				return err
			}
		}
		if err := unix.Rename(p1, p2); err != nil {
			return fmt.Errorf("rename %s to %s: %w", p1, p2, err)
		}
		delete(o.d1.dur, o.n1)
		delete(i.dlinks, dlink{o.d1, o.n1})
		o.d2.dur[o.n2] = i
		i.dlinks[dlink{o.d2, o.n2}] = struct{}{}
	}
	return nil
}
