//go:build linux

// forgetful: a FUSE loopback file system that simulates power loss exactly.
//
// BACKING always holds exactly the durable state.  Everything not yet synced
// (file data, sizes, directory operations) lives only in this process's memory.
// A power cut is therefore "forget the memory".  See README.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	pageSize = 4096
	secSize  = 512
	maxWrite = 1 << 20
)

// ---------------------------------------------------------------- inodes ---

// page is 4 KiB of overlay.  data == nil means all zeros.  dirty: one bit per
// 512-byte sector, to be written at the next sync.  lost: sectors that stay
// visible but that no later fsync writes out (after "fail fsync-lose").
type page struct {
	data        []byte
	dirty, lost uint8
}

// Overlay pages come from a free list outside the Go heap: fresh memory is slow
// to touch in a virtual machine, and a synced page is at once good for the next.
// Pages are not cleared: only sectors with a bit in dirty or lost are ever used.
var arena struct {
	sync.Mutex
	free [][]byte
}

const arenaChunk = 16 << 20

func getPage() []byte {
	arena.Lock()
	defer arena.Unlock()
	if len(arena.free) == 0 {
		m, err := unix.Mmap(-1, 0, arenaChunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			log.Fatalf("forgetful: out of memory: %v", err)
		}
		unix.Madvise(m, unix.MADV_HUGEPAGE)
		for o := arenaChunk - pageSize; o >= 0; o -= pageSize {
			arena.free = append(arena.free, m[o:o+pageSize:o+pageSize])
		}
	}
	p := arena.free[len(arena.free)-1]
	arena.free = arena.free[:len(arena.free)-1]
	return p
}

func (i *inode) dropPage(x int64) {
	if p := i.pages[x]; p != nil {
		if p.data != nil {
			arena.Lock()
			arena.free = append(arena.free, p.data)
			arena.Unlock()
			p.data = nil
		}
		delete(i.pages, x)
	}
}

func (i *inode) dropPages() {
	for x := range i.pages {
		i.dropPage(x)
	}
	i.pages = nil
}

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

// readBase reads what shows through from the backing file: zeros from base on.
func (i *inode) readBase(dst []byte, off int64) error {
	n := min(max(i.base-off, 0), int64(len(dst)))
	got := 0
	fd := int(i.fd.Load())
	if n > 0 && fd < 0 {
		return syscall.EIO // cannot happen: a durable body is opened with the handle
	}
	for int64(got) < n {
		k, err := unix.Pread(fd, dst[got:n], off+int64(got))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if k == 0 {
			break
		}
		got += k
	}
	clear(dst[got:])
	return nil
}

func (i *inode) read(dst []byte, off int64) (int, error) {
	if off >= i.vsize {
		return 0, nil
	}
	dst = dst[:min(int64(len(dst)), i.vsize-off)]
	end := off + int64(len(dst))
	covered := len(i.pages) > 0
	if covered {
		for x := off / pageSize; x*pageSize < end; x++ {
			if p := i.pages[x]; p == nil || p.dirty|p.lost != 0xff {
				covered = false
				break
			}
		}
	}
	if !covered {
		if err := i.readBase(dst, off); err != nil {
			return 0, err
		}
	}
	if len(i.pages) > 0 {
		for pos := off; pos < end; {
			step := min(pageSize-pos%pageSize, end-pos)
			if p := i.pages[pos/pageSize]; p != nil {
				mask := p.dirty | p.lost
				for q := pos; q < pos+step; {
					k := min(secSize-q%secSize, pos+step-q)
					if mask>>(q%pageSize/secSize)&1 != 0 {
						if p.data == nil {
							clear(dst[q-off : q-off+k])
						} else {
							copy(dst[q-off:q-off+k], p.data[q%pageSize:])
						}
					}
					q += k
				}
			}
			pos += step
		}
	}
	return len(dst), nil
}

// write puts data into the overlay.
func (i *inode) write(data []byte, off int64) error {
	end := off + int64(len(data))
	if i.pages == nil {
		i.pages = map[int64]*page{}
	}
	for pos := off; pos < end; {
		x, po := pos/pageSize, pos%pageSize
		n := min(pageSize-po, end-pos)
		p := i.pages[x]
		if p == nil {
			p = &page{}
			i.pages[x] = p
		}
		if p.data == nil {
			p.data = getPage()
			if p.dirty|p.lost != 0 { // it was a page of zeros
				clear(p.data)
			}
		}
		s0, s1 := po/secSize, (po+n-1)/secSize
		fill := func(s int64) error {
			if (p.dirty|p.lost)>>s&1 != 0 {
				return nil
			}
			return i.readBase(p.data[s*secSize:(s+1)*secSize], x*pageSize+s*secSize)
		}
		if po%secSize != 0 {
			if err := fill(s0); err != nil {
				return err
			}
		}
		if (po+n)%secSize != 0 && (s1 != s0 || po%secSize == 0) {
			if err := fill(s1); err != nil {
				return err
			}
		}
		copy(p.data[po:po+n], data[pos-off:])
		m := uint8(uint16(1)<<(s1+1) - uint16(1)<<s0)
		p.dirty |= m
		p.lost &^= m
		pos += n
	}
	i.vsize = max(i.vsize, end)
	i.mt = time.Now()
	i.c = i.mt
	return nil
}

// zero makes [off,end) read as zeros without changing the size.
func (i *inode) zero(off, end int64) error {
	size := i.vsize
	end = min(end, size)
	var z [pageSize]byte
	for pos := off; pos < end; {
		x, po := pos/pageSize, pos%pageSize
		n := min(pageSize-po, end-pos)
		p := i.pages[x]
		switch {
		case p == nil && pos >= i.base: // nothing there
		case po == 0 && (n == pageSize || end == size):
			if i.pages == nil {
				i.pages = map[int64]*page{}
			}
			i.dropPage(x)
			i.pages[x] = &page{dirty: 0xff}
		default:
			if err := i.write(z[:n], pos); err != nil {
				return err
			}
		}
		pos += n
	}
	i.mt = time.Now()
	i.c = i.mt
	return nil
}

func (i *inode) truncate(n int64) {
	if n < i.vsize {
		last := n / pageSize
		for x, p := range i.pages {
			if x > last || (x == last && n%pageSize == 0) {
				i.dropPage(x)
			} else if x == last && p.data != nil {
				clear(p.data[n%pageSize:])
			}
		}
		i.base = min(i.base, n)
	}
	i.vsize = n
	i.mt = time.Now()
	i.c = i.mt
}

// seg is a run of bytes to write, or to punch out, in the backing file.
type seg struct {
	off  int64
	bufs [][]byte
	n    int64
	hole bool
}

// segments lists the dirty sectors below limit that pick chooses.
func (i *inode) segments(limit int64, pick func(x int64, dirty uint8) uint8) []seg {
	idx := make([]int64, 0, len(i.pages))
	for x, p := range i.pages {
		if p.dirty != 0 {
			idx = append(idx, x)
		}
	}
	sort.Slice(idx, func(a, b int) bool { return idx[a] < idx[b] })
	var out []seg
	for _, x := range idx {
		p := i.pages[x]
		mask := pick(x, p.dirty)
		for s := int64(0); s < 8; {
			if mask>>s&1 == 0 {
				s++
				continue
			}
			e := s
			for e < 8 && mask>>e&1 != 0 {
				e++
			}
			off := x*pageSize + s*secSize
			n := min((e-s)*secSize, limit-off)
			if n > 0 {
				var l *seg
				if len(out) > 0 {
					l = &out[len(out)-1]
				}
				hole := p.data == nil
				if l != nil && l.hole == hole && l.off+l.n == off && (hole || len(l.bufs) < 512) {
					l.n += n
				} else {
					out = append(out, seg{off: off, n: n, hole: hole})
					l = &out[len(out)-1]
				}
				if !hole {
					l.bufs = append(l.bufs, p.data[s*secSize:s*secSize+n])
				}
			}
			s = e
		}
	}
	return out
}

func writeSegs(fd int, segs []seg) error {
	for _, s := range segs {
		if s.hole {
			err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.off, s.n)
			if err == nil {
				continue
			}
			z := make([]byte, pageSize)
			for o := int64(0); o < s.n; o += pageSize {
				if err := pwriteAll(fd, z[:min(pageSize, s.n-o)], s.off+o); err != nil {
					return err
				}
			}
			continue
		}
		bufs, off := s.bufs, s.off
		for len(bufs) > 0 {
			n, err := unix.Pwritev(fd, bufs, off)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return syscall.EIO
			}
			off += int64(n)
			for len(bufs) > 0 && n >= len(bufs[0]) {
				n -= len(bufs[0])
				bufs = bufs[1:]
			}
			if n > 0 {
				bufs[0] = bufs[0][n:]
			}
		}
	}
	return nil
}

func pwriteAll(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, off)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return syscall.EIO
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// apply makes the visible data and size the backing file's.  mu held.
func (i *inode) apply() (err error) {
	fd := int(i.fd.Load())
	defer func() {
		if err != nil { // partly applied, as an unacknowledged sync may be
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil {
				i.dsize = st.Size
				i.base = min(i.base, i.dsize)
			}
		}
	}()
	if i.base < i.dsize {
		if err = unix.Ftruncate(fd, i.base); err != nil {
			return
		}
		i.dsize = i.base
	}
	for _, r := range i.fallocs {
		if e := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, r.off, r.n); e == syscall.ENOSPC {
			return e
		}
	}
	segs := i.segments(i.vsize, func(_ int64, d uint8) uint8 { return d })
	if err = writeSegs(fd, segs); err != nil {
		return
	}
	real := i.dsize
	for _, s := range segs {
		if !s.hole {
			real = max(real, s.off+s.n)
		}
	}
	if real != i.vsize {
		if err = unix.Ftruncate(fd, i.vsize); err != nil {
			return
		}
	}
	i.dsize, i.base, i.fallocs = i.vsize, i.vsize, nil
	for x, p := range i.pages {
		p.dirty = 0
		if p.lost == 0 {
			i.dropPage(x)
		}
	}
	if len(i.pages) == 0 {
		i.pages = nil
	}
	return nil
}

// dsyncWrite makes just this write durable.  mu held.
func (i *inode) dsyncWrite(data []byte, off int64) error {
	fd := int(i.fd.Load())
	end := off + int64(len(data))
	if i.base != i.dsize { // a truncation is still volatile: keep a visible copy too
		if err := i.write(data, off); err != nil {
			return err
		}
		if err := pwriteAll(fd, data, off); err != nil {
			return err
		}
		i.dsize = max(i.dsize, end)
		return nil
	}
	if err := pwriteAll(fd, data, off); err != nil {
		return err
	}
	for pos := off; pos < end; {
		k := min(secSize-pos%secSize, end-pos)
		if p := i.pages[pos/pageSize]; p != nil {
			bit := uint8(1) << (pos % pageSize / secSize)
			if k == secSize {
				p.dirty &^= bit
				p.lost &^= bit
			} else if (p.dirty|p.lost)&bit != 0 {
				if p.data == nil {
					p.data = getPage()
					clear(p.data)
				}
				copy(p.data[pos%pageSize:], data[pos-off:pos-off+k])
			}
			if p.dirty|p.lost == 0 {
				i.dropPage(pos / pageSize)
			}
		}
		pos += k
	}
	i.dsize = max(i.dsize, end)
	i.base = i.dsize
	i.vsize = max(i.vsize, end)
	i.mt = time.Now()
	i.c = i.mt
	return nil
}

// -------------------------------------------------------- directory ops ---

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

// -------------------------------------------------------------------- FS ---

type handle struct {
	ino  *inode
	gen  uint64
	mu   sync.Mutex
	list []fuse.DirEntry
}

type devino struct{ dev, ino uint64 }

type fault struct {
	kind, op, sub string
	n, seen       int64
	plus          bool
	errno         syscall.Errno
	ms            int64
}

type counters struct {
	Writes, Dsync, Reads, Fsyncs, Fsyncdirs, BytesWritten, BytesRead, Cuts, Faults atomic.Int64
}

type FS struct {
	fuse.RawFileSystem
	backing, trash string
	ext4, realSync bool
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

	fmu     sync.Mutex
	faults  []*fault
	nfaults atomic.Int32

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

// materialize gives the inode an (empty) durable body in the trash if it has none. ns held.
func (f *FS) materialize(i *inode) (string, error) {
	if p := f.dpath(i); p != "" {
		return p, nil
	}
	p := filepath.Join(f.trash, strconv.FormatUint(i.id, 10))
	i.mu.Lock()
	perm, uid, gid := i.perm, i.uid, i.gid
	i.mu.Unlock()
	var err error
	switch i.typ {
	case syscall.S_IFDIR:
		err = unix.Mkdir(p, perm)
	case syscall.S_IFLNK:
		err = unix.Symlink(i.link, p)
	case syscall.S_IFREG:
		var fd int
		fd, err = unix.Open(p, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, perm)
		if err == nil {
			if i.opens > 0 {
				i.fd.Store(int32(fd))
			} else {
				unix.Close(fd)
			}
		}
	default:
		err = unix.Mknod(p, i.typ|perm, int(i.rdev))
	}
	if err != nil {
		return "", err
	}
	if err := unix.Lchown(p, int(uid), int(gid)); err != nil && (uid != 0 || gid != 0) {
		return "", err
	}
	i.hidden = true
	return p, nil
}

// openBacking opens the durable body if there is one.  ns held.
func (f *FS) openBacking(i *inode) error {
	if i.fd.Load() >= 0 || !i.isReg() {
		return nil
	}
	p := f.dpath(i)
	if p == "" {
		return nil
	}
	fd, err := unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	i.fd.Store(int32(fd))
	return nil
}

func (f *FS) closeBacking(i *inode) {
	if i.opens == 0 {
		if fd := i.fd.Swap(-1); fd >= 0 {
			unix.Close(int(fd))
		}
	}
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

// commit makes durable, for each directory in need, its operations up to that
// sequence number, in order, with whatever those depend on.  ns held.
func (f *FS) commit(need map[*inode]uint64) (int, error) {
	if len(f.ops) == 0 || len(need) == 0 {
		return 0, nil
	}
	var all uint64
	take := make([]bool, len(f.ops))
	n := 0
	for k := len(f.ops) - 1; k >= 0; k-- {
		o := f.ops[k]
		hit := o.seq <= all
		for _, d := range o.dirs {
			hit = hit || o.seq <= need[d]
		}
		if !hit {
			continue
		}
		take[k] = true
		n++
		for _, d := range o.dirs {
			need[d] = max(need[d], o.seq)
		}
		if o.barrier {
			all = max(all, o.seq)
		}
	}
	if n == 0 {
		return 0, nil
	}
	touched := map[string]bool{}
	var rest, done []*dirop
	var err error
	for k, o := range f.ops {
		if take[k] && err == nil {
			if err = f.applyOp(o, touched); err == nil {
				done = append(done, o)
				continue
			}
			log.Printf("forgetful: commit: %v", err)
		}
		rest = append(rest, o)
	}
	f.ops = rest
	for _, o := range done {
		f.pend(o, -1)
	}
	for _, o := range done {
		for _, i := range []*inode{o.ino, o.t, o.d1, o.d2} {
			if i != nil {
				f.maybeFree(i)
			}
		}
	}
	if f.realSync {
		for p := range touched {
			if fd, e := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); e == nil {
				if e := unix.Fsync(fd); e != nil && err == nil {
					err = e
				}
				unix.Close(fd)
			}
		}
	}
	return len(done), err
}

// commitNames makes durable the names of a file and, where they have none yet,
// of the directories above it (--ext4).  ns held.
func (f *FS) commitNames(i *inode) error {
	if len(f.ops) == 0 || i.vnlink == 0 {
		return nil
	}
	want := map[*inode]bool{i: true}
	need := map[*inode]uint64{}
	for changed := true; changed; {
		changed = false
		for _, o := range f.ops {
			if !(want[o.ino] || (o.kind == opExchange && want[o.t])) || o.kind == opRemove {
				continue
			}
			for _, d := range o.dirs {
				if need[d] < o.seq {
					need[d] = o.seq
					changed = true
				}
				if d != f.root && len(d.dlinks) == 0 && !want[d] {
					want[d] = true
					changed = true
				}
			}
		}
	}
	_, err := f.commit(need)
	return err
}

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
		if err == nil && dirty && f.realSync {
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

func (f *FS) sorted() []*inode {
	l := make([]*inode, 0, len(f.nodes))
	for _, i := range f.nodes {
		l = append(l, i)
	}
	sort.Slice(l, func(a, b int) bool { return l[a].id < l[b].id })
	return l
}

// ------------------------------------------------------------ power loss ---

func hash(seed int64, s string, n int64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	z := h.Sum64() ^ uint64(seed)*0x9e3779b97f4a7c15 ^ uint64(n)*0xd1b54a32d192ed03
	for k := 0; k < 2; k++ {
		z += 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}

type cutReport struct {
	Torn         bool   `json:"torn"`
	Seed         int64  `json:"seed"`
	DirtyFiles   int    `json:"dirty_files"`
	DirtyBlocks  int64  `json:"dirty_blocks"`
	KeptBlocks   int64  `json:"kept_blocks"`
	DirtyDirOps  int    `json:"dirty_dir_ops"`
	KeptDirOps   int    `json:"kept_dir_ops"`
	AlreadyCut   bool   `json:"already_cut"`
	BlockSize    int64  `json:"block_size"`
	ErrorMessage string `json:"error,omitempty"`
}

func (f *FS) cut(torn bool, seed int64) cutReport {
	f.big.Lock()
	defer f.big.Unlock()
	r := cutReport{Torn: torn, Seed: seed, BlockSize: f.tornBlock}
	if f.isCut {
		r.AlreadyCut = true
		return r
	}
	f.isCut = true
	f.st.Cuts.Add(1)
	fail := func(err error) {
		if err != nil && r.ErrorMessage == "" {
			r.ErrorMessage = err.Error()
		}
	}
	r.DirtyDirOps = len(f.ops)
	// Names as the application last saw them key the choices, so that the same
	// seed chooses alike whatever order files were first touched in.
	names := map[*inode]string{}
	var dirty []*inode
	for _, i := range f.sorted() {
		if i.isReg() && i.dataDirty() && (i.vnlink > 0 || i.opens > 0) {
			dirty = append(dirty, i)
			names[i] = f.vpath(i)
			for _, p := range i.pages {
				r.DirtyBlocks += int64(len(blocks(p.dirty, f.tornBlock)))
			}
		}
	}
	r.DirtyFiles = len(dirty)
	if torn {
		per := map[*inode][]uint64{}
		for _, o := range f.ops {
			for _, d := range o.dirs {
				per[d] = append(per[d], o.seq)
			}
		}
		need := map[*inode]uint64{}
		for d, seqs := range per {
			if k := hash(seed, "dir:"+f.vpath(d), 0) % uint64(len(seqs)+1); k > 0 {
				need[d] = seqs[k-1]
			}
		}
		n, err := f.commit(need)
		r.KeptDirOps = n
		fail(err)
		for _, i := range dirty {
			if len(i.dlinks) == 0 {
				continue // no durable name: nobody can see it again
			}
			i.opens++
			err := f.openBacking(i)
			if err == nil {
				var n int64
				n, err = f.tear(i, seed, names[i])
				r.KeptBlocks += n
			}
			fail(err)
		}
	}
	fail(f.reset())
	return r
}

// blocks lists the sector masks of the whole blocks dirty in a page.
func blocks(dirty uint8, size int64) []uint8 {
	if dirty == 0 {
		return nil
	}
	if size >= pageSize {
		return []uint8{dirty}
	}
	var l []uint8
	for s := 0; s < 8; s++ {
		if dirty>>s&1 != 0 {
			l = append(l, 1<<s)
		}
	}
	return l
}

// tear keeps a random subset of a file's dirty blocks.
func (f *FS) tear(i *inode, seed int64, name string) (kept int64, err error) {
	fd := int(i.fd.Load())
	limit := i.vsize
	size := i.dsize
	if i.base < i.dsize { // un-synced truncation: kept or undone
		if hash(seed, "trunc:"+name, 0)&1 == 0 {
			if err = unix.Ftruncate(fd, i.base); err != nil {
				return
			}
			size = i.base
		} else {
			limit = i.base // blocks written after it went to space it freed
		}
	}
	pickSize := hash(seed, "size:"+name, 0) % 4
	if pickSize == 0 { // the size change is lost, and with it all beyond
		limit = min(limit, size)
	}
	segs := i.segments(limit, func(x int64, d uint8) (m uint8) {
		for _, b := range blocks(d, f.tornBlock) {
			if hash(seed, "block:"+name, x*8+int64(b))&1 == 0 {
				m |= b
				if x*pageSize < limit {
					kept++
				}
			}
		}
		return
	})
	if err = writeSegs(fd, segs); err != nil {
		return
	}
	if pickSize == 1 && limit > size { // the size change is kept whole
		err = unix.Ftruncate(fd, limit)
	}
	return
}

func (f *FS) restore() error {
	f.big.Lock()
	defer f.big.Unlock()
	if !f.isCut {
		return errors.New("not cut")
	}
	f.isCut = false
	return nil
}

// ---------------------------------------------------------------- faults ---

type action struct {
	errno       syscall.Errno
	lose        bool
	flip, short bool
}

// fault counts an operation against the armed faults.  Call before enter.
func (f *FS) fault(op string, i *inode, name string) (a action) {
	if f.nfaults.Load() == 0 {
		return
	}
	f.ns.Lock()
	path := ""
	if i != nil {
		path = f.vpath(i)
	}
	f.ns.Unlock()
	if name != "" {
		path = strings.TrimSuffix(path, "/") + "/" + name
	}
	var stall int64
	f.fmu.Lock()
	for _, x := range f.faults {
		lose := x.op == "fsync-lose" && op == "fsync"
		if (x.op != op && !lose) || !strings.Contains(path, x.sub) {
			continue
		}
		x.seen++
		if x.kind != "stall" && x.seen != x.n && !(x.plus && x.seen > x.n) {
			continue
		}
		f.st.Faults.Add(1)
		switch x.kind {
		case "stall":
			stall = max(stall, x.ms)
		case "fail":
			a.errno, a.lose = x.errno, lose
		case "flip":
			a.flip = true
		case "short":
			a.short = true
		}
	}
	f.fmu.Unlock()
	for end := time.Now().Add(time.Duration(stall) * time.Millisecond); stall > 0 && time.Now().Before(end); {
		time.Sleep(min(5*time.Millisecond, time.Until(end)))
		f.big.RLock()
		off := f.isCut
		f.big.RUnlock()
		if off || f.nfaults.Load() == 0 {
			break
		}
	}
	return
}

func flip(b []byte) {
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
}

// ------------------------------------------------------- FUSE: namespace ---

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

func (f *FS) touch(d *inode) {
	d.mu.Lock()
	d.mt = time.Now()
	d.c = d.mt
	d.mu.Unlock()
}

func (f *FS) node(id uint64) *inode {
	f.ns.Lock()
	defer f.ns.Unlock()
	return f.nodes[id]
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
	if a := f.faultAt("mkdir", in.NodeId, name); a.errno != 0 {
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
	if a := f.faultAt("link", in.NodeId, name); a.errno != 0 {
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
	if a := f.faultAt("unlink", h.NodeId, name); a.errno != 0 {
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
	if a := f.faultAt("rename", in.NodeId, n1); a.errno != 0 {
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

func (f *FS) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	if !f.enter() {
		return fuse.EIO
	}
	f.leave()
	return fuse.OK
}

func (f *FS) faultAt(op string, dir uint64, name string) action {
	if f.nfaults.Load() == 0 {
		return action{}
	}
	f.big.RLock()
	d := f.node(dir)
	f.big.RUnlock()
	return f.fault(op, d, name)
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

// ----------------------------------------------------------- FUSE: files ---

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
	if f.nfaults.Load() == 0 {
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
	if a := f.faultAt("create", in.NodeId, name); a.errno != 0 {
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
	a := f.fault("read", f.peek(in.Fh), "")
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
	a := f.fault("write", f.peek(in.Fh), "")
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
	if a.short && len(data) > 1 {
		n := len(data) / 2
		if n >= secSize {
			n -= n % secSize
		}
		data = data[:n]
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
			if err = i.dsyncWrite(data, off); err == nil && f.realSync {
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
	a := f.fault("fallocate", f.peek(in.Fh), "")
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
	a := f.fault("fsync", f.peek(in.Fh), "")
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
		if a.lose { // the kernel marks the pages clean: no later fsync writes them
			h.ino.mu.Lock()
			for _, p := range h.ino.pages {
				p.lost |= p.dirty
				p.dirty = 0
			}
			h.ino.mu.Unlock()
		}
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

func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.release(in.Fh) }
func (f *FS) ReleaseDir(in *fuse.ReleaseIn)                 { f.release(in.Fh) }

// ----------------------------------------------------- FUSE: directories ---

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
	a := f.fault("fsyncdir", f.peek(in.Fh), "")
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

// ---------------------------------------------------------------- control ---

func (f *FS) stats() map[string]any {
	f.big.Lock()
	defer f.big.Unlock()
	var dirtyBytes, lost int64
	files := 0
	for _, i := range f.nodes {
		if !i.isReg() || !i.dataDirty() {
			for _, p := range i.pages {
				lost += int64(popcount(p.lost)) * secSize
			}
			continue
		}
		files++
		for _, p := range i.pages {
			dirtyBytes += int64(popcount(p.dirty)) * secSize
			lost += int64(popcount(p.lost)) * secSize
		}
	}
	return map[string]any{
		"writes": f.st.Writes.Load(), "dsync_writes": f.st.Dsync.Load(), "reads": f.st.Reads.Load(),
		"fsyncs": f.st.Fsyncs.Load(), "fsyncdirs": f.st.Fsyncdirs.Load(),
		"bytes_written": f.st.BytesWritten.Load(), "bytes_read": f.st.BytesRead.Load(),
		"dirty_bytes": dirtyBytes, "lost_bytes": lost, "dirty_files": files, "dirty_dir_ops": len(f.ops),
		"cuts": f.st.Cuts.Load(), "faults_fired": f.st.Faults.Load(), "cut": f.isCut,
	}
}

func popcount(b uint8) (n int) {
	for ; b != 0; b &= b - 1 {
		n++
	}
	return
}

// dirtyList names what a cut would lose.
func (f *FS) dirtyList() map[string]any {
	f.big.Lock()
	defer f.big.Unlock()
	ops := []string{}
	for _, o := range f.ops {
		s := fmt.Sprintf("%s %s/%s", opNames[o.kind], strings.TrimSuffix(f.vpath(o.d1), "/"), o.n1)
		if o.d2 != nil {
			s += fmt.Sprintf(" %s/%s", strings.TrimSuffix(f.vpath(o.d2), "/"), o.n2)
		}
		ops = append(ops, s)
	}
	files := map[string]any{}
	for _, i := range f.sorted() {
		if i.isReg() && i.dataDirty() {
			n := 0
			for _, p := range i.pages {
				n += popcount(p.dirty) * secSize
			}
			files[f.vpath(i)] = map[string]int64{"dirty_bytes": int64(n), "size": i.vsize, "durable_size": i.dsize}
		}
	}
	return map[string]any{"dir_ops": ops, "files": files}
}

func jsonLine(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "err " + err.Error()
	}
	return string(b)
}

func errnoByName(s string) (syscall.Errno, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 4096 {
		return syscall.Errno(n), nil
	}
	for n := syscall.Errno(1); n < 134; n++ {
		if unix.ErrnoName(n) == strings.ToUpper(s) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("unknown errno %q", s)
}

var faultOps = map[string]string{
	"fail":  " write read fsync fsync-lose fsyncdir create mkdir link unlink rename fallocate ",
	"stall": " write read fsync fsyncdir create mkdir link unlink rename fallocate ",
	"flip":  " read write ",
	"short": " write ",
}

func parseFault(w []string) (*fault, error) {
	use := errors.New("usage: fail OP N[+] ERRNO [SUBSTR] | stall OP MS [SUBSTR] | flip read|write N[+] [SUBSTR] | short write N[+] [SUBSTR]")
	if len(w) < 3 {
		return nil, use
	}
	x := &fault{kind: w[0], op: w[1]}
	if !strings.Contains(faultOps[x.kind], " "+x.op+" ") {
		return nil, fmt.Errorf("%s %s: not supported; %v", x.kind, x.op, use)
	}
	rest := w[3:]
	if x.kind == "stall" {
		ms, err := strconv.ParseInt(w[2], 10, 64)
		if err != nil || ms < 0 {
			return nil, use
		}
		x.ms = ms
	} else {
		s, plus := strings.CutSuffix(w[2], "+")
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			return nil, use
		}
		x.n, x.plus = n, plus
	}
	if x.kind == "fail" {
		if len(rest) == 0 {
			return nil, use
		}
		e, err := errnoByName(rest[0])
		if err != nil {
			return nil, err
		}
		x.errno, rest = e, rest[1:]
	}
	x.sub = strings.Join(rest, " ")
	return x, nil
}

func (f *FS) command(line string) string {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "err empty command"
	}
	switch w[0] {
	case "cut":
		torn, seed := f.torn, f.tornSeed
		if torn { // each cut of one run tears differently, and the run repeats exactly
			seed += f.st.Cuts.Load()
		}
		if len(w) == 2 && w[1] == "clean" {
			torn, seed = false, 0
		} else if len(w) == 3 && w[1] == "--torn" {
			n, err := strconv.ParseInt(w[2], 10, 64)
			if err != nil {
				return "err bad seed"
			}
			torn, seed = true, n
		} else if len(w) > 1 {
			return "err usage: cut [clean | --torn SEED]"
		}
		r := f.cut(torn, seed)
		if r.ErrorMessage != "" {
			return "err " + jsonLine(r)
		}
		return "ok " + jsonLine(r)
	case "restore":
		if err := f.restore(); err != nil {
			return "err " + err.Error()
		}
		return "ok"
	case "sync":
		f.big.Lock()
		defer f.big.Unlock()
		if f.isCut {
			return "err cut"
		}
		if err := f.syncAll(); err != nil {
			return "err " + err.Error()
		}
		return "ok"
	case "stats":
		return jsonLine(f.stats())
	case "dirty":
		return jsonLine(f.dirtyList())
	case "fail", "stall", "flip", "short":
		x, err := parseFault(w)
		if err != nil {
			return "err " + err.Error()
		}
		f.fmu.Lock()
		f.faults = append(f.faults, x)
		f.nfaults.Store(int32(len(f.faults)))
		f.fmu.Unlock()
		return "ok"
	case "clear":
		f.fmu.Lock()
		f.faults = nil
		f.nfaults.Store(0)
		f.fmu.Unlock()
		return "ok"
	}
	return "err unknown command; cut, restore, sync, stats, dirty, fail, stall, flip, short, clear"
}

func (f *FS) serveCtl(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			s := bufio.NewScanner(c)
			for s.Scan() {
				if _, err := fmt.Fprintln(c, f.command(s.Text())); err != nil {
					return
				}
			}
		}()
	}
}

// ------------------------------------------------------------------- main ---

const usage = `usage: forgetful BACKING MOUNTPOINT --ctl UNIX_SOCKET [options]
  --torn SEED         cut keeps a random subset of un-synced blocks and a random
                      prefix of each directory's un-synced operations
  --torn-block N      4096 (default) or 512
  --ext4              fsync of a file also makes its names durable
  --trash DIR         make the trash, .NAME.forgetful, in DIR: bodies without a
                      durable name (default: beside BACKING; same file system)
  --no-real-sync      do not call fsync on the backing files (faster)
  --debug             log every FUSE request
`

func main() {
	log.SetFlags(0)
	f := &FS{RawFileSystem: fuse.NewDefaultRawFileSystem(), realSync: true, tornBlock: 4096,
		handles: map[uint64]*handle{}, nextID: 1}
	var pos []string
	var ctl string
	debug := false
	args := os.Args[1:]
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		name, val, has := strings.Cut(a, "=")
		next := func() string {
			if has {
				return val
			}
			if len(args) == 0 {
				fmt.Fprint(os.Stderr, usage)
				os.Exit(2)
			}
			v := args[0]
			args = args[1:]
			return v
		}
		var err error
		switch name {
		case "--ctl":
			ctl = next()
		case "--torn":
			f.torn = true
			f.tornSeed, err = strconv.ParseInt(next(), 10, 64)
		case "--torn-block":
			f.tornBlock, err = strconv.ParseInt(next(), 10, 64)
			if err == nil && f.tornBlock != 4096 && f.tornBlock != 512 {
				err = errors.New("must be 4096 or 512")
			}
		case "--ext4":
			f.ext4 = true
		case "--trash":
			f.trash = next()
		case "--no-real-sync":
			f.realSync = false
		case "--debug":
			debug = true
		default:
			if strings.HasPrefix(a, "-") {
				err = errors.New("unknown option")
			}
			pos = append(pos, a)
		}
		if err != nil {
			log.Fatalf("forgetful: %s: %v", a, err)
		}
	}
	if len(pos) != 2 || ctl == "" {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	unix.Umask(0)
	var rl unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &rl) == nil {
		rl.Cur = rl.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &rl)
	}
	var err error
	if f.backing, err = filepath.Abs(pos[0]); err == nil {
		f.backing, err = filepath.EvalSymlinks(f.backing)
	}
	if err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	mnt, _ := filepath.Abs(pos[1])
	if f.trash == "" {
		f.trash = filepath.Dir(f.backing)
	}
	if f.trash, err = filepath.Abs(f.trash); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	f.trash = filepath.Join(f.trash, "."+filepath.Base(f.backing)+".forgetful")
	lock, err := unix.Open(f.backing, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		log.Fatalf("forgetful: %s: %v (served already?)", f.backing, err)
	}
	if err := f.reset(); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	var sb, st unix.Stat_t
	if unix.Stat(f.backing, &sb) != nil || unix.Stat(f.trash, &st) != nil || sb.Dev != st.Dev {
		log.Fatalf("forgetful: %s must be on the same file system as %s; use --trash", f.trash, f.backing)
	}
	os.Remove(ctl)
	l, err := net.Listen("unix", ctl)
	if err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	opts := &fuse.MountOptions{
		DirectMount: true, AllowOther: os.Geteuid() == 0, FsName: "forgetful", Name: "forgetful",
		MaxWrite: maxWrite, MaxBackground: 128, DisableXAttrs: true, DisableReadDirPlus: true,
		ExtraCapabilities: fuse.CAP_ASYNC_DIO, Debug: debug, Options: []string{"default_permissions"},
	}
	srv, err := fuse.NewServer(f, mnt, opts)
	if err != nil {
		l.Close()
		log.Fatalf("forgetful: mount %s: %v", mnt, err)
	}
	go srv.Serve()
	if err := srv.WaitMount(); err != nil {
		log.Fatalf("forgetful: %v", err)
	}
	go f.serveCtl(l)
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-sig
		if err := srv.Unmount(); err != nil { // busy: detach it
			unix.Unmount(mnt, unix.MNT_DETACH)
			time.Sleep(50 * time.Millisecond)
			f.finish(l)
			os.Exit(0)
		}
	}()
	fmt.Println("ready")
	srv.Wait()
	f.finish(l)
}

// finish is an orderly unmount: what is still volatile is written out.
func (f *FS) finish(l net.Listener) {
	l.Close()
	f.big.Lock()
	defer f.big.Unlock()
	if !f.isCut {
		if err := f.syncAll(); err != nil {
			log.Printf("forgetful: flush at unmount: %v", err)
		}
	}
	f.isCut = true
	os.RemoveAll(f.trash)
}
