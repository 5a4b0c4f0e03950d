//go:build linux

package main

// A handle is an open file or folder; a cut kills it for good.

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

type handle struct {
	ino  *inode
	gen  uint64
	mu   sync.Mutex
	list []fuse.DirEntry
}

func (f *FS) addHandle(i *inode) uint64 {
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.nextFh++
	f.handles[f.nextFh] = &handle{ino: i, gen: f.gen}
	return f.nextFh
}

// handle finds an open handle; nil if it is from before a power cut.
func (f *FS) handle(fh uint64) *handle {
	f.hmu.RLock()
	defer f.hmu.RUnlock()
	h := f.handles[fh]
	if h == nil || h.gen != f.gen {
		return nil
	}
	return h
}

// peek is handle for use before enter.
func (f *FS) peek(fh uint64) *inode {
	if f.armed.Load() == 0 {
		return nil
	}
	f.big.RLock()
	defer f.big.RUnlock()
	if h := f.handle(fh); h != nil {
		return h.ino
	}
	return nil
}

func (f *FS) openIno(i *inode, out *fuse.OpenOut) fuse.Status {
	i.opens++
	if err := f.openBacking(i); err != nil {
		i.opens--
		return status(err)
	}
	out.Fh = f.addHandle(i)
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	return fuse.OK
}

func (f *FS) release(fh uint64) {
	f.big.RLock()
	defer f.big.RUnlock()
	h := f.handle(fh)
	f.hmu.Lock()
	delete(f.handles, fh)
	f.hmu.Unlock()
	if h == nil {
		return
	}
	f.ns.Lock()
	defer f.ns.Unlock()
	h.ino.opens--
	f.closeBacking(h.ino)
	f.maybeFree(h.ino)
}
