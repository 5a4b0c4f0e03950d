//go:build linux

package main

// The file system as a whole: the tables that everything else looks things up in.

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

type devino struct{ dev, ino uint64 }

type counters struct {
	Writes, Dsync, Reads, Fsyncs, Fsyncdirs, BytesWritten, BytesRead, Cuts, Faults atomic.Int64
}

type FS struct {
	fuse.RawFileSystem
	backing, trash string
	ext4           bool
	realSync       atomic.Bool // syncs reach the disk below
	torn           bool
	tornSeed       int64
	tornBlock      int64

	big   sync.RWMutex // cut and restore take it for writing
	isCut bool
	gen   uint64

	ns     sync.Mutex
	nodes  map[uint64]*inode
	byIno  map[devino]*inode
	root   *inode
	nextID uint64
	ops    []*dirop
	opSeq  uint64

	hmu     sync.RWMutex
	handles map[uint64]*handle
	nextFh  uint64

	fmu        sync.Mutex
	rules      []*rule
	armed      atomic.Int32 // how many rules
	ruleNumber int64
	injected   map[string]int64

	st counters
}

func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return fuse.Status(e)
	}
	return fuse.EIO
}

// enter starts a request; false means the power is off.
func (f *FS) enter() bool {
	f.big.RLock()
	if f.isCut {
		f.big.RUnlock()
		return false
	}
	return true
}

func (f *FS) leave() { f.big.RUnlock() }

// reset forgets all memory.  big held for writing (or not yet serving).
func (f *FS) reset() error {
	for _, i := range f.nodes {
		if fd := i.fd.Swap(-1); fd >= 0 {
			unix.Close(int(fd))
		}
		i.dropPages()
	}
	if err := os.RemoveAll(f.trash); err != nil {
		return err
	}
	if err := os.Mkdir(f.trash, 0o700); err != nil {
		return err
	}
	f.nodes = map[uint64]*inode{}
	f.byIno = map[devino]*inode{}
	f.ops = nil
	f.gen++
	var st unix.Stat_t
	if err := unix.Lstat(f.backing, &st); err != nil {
		return err
	}
	f.root = f.inodeFromStat(&st)
	f.root.id = 1
	f.root.nlookup = 1
	f.root.vparent = f.root
	f.nodes[1] = f.root
	return nil
}
