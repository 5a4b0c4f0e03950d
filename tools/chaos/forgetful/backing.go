//go:build linux

package main

// The backing file of an inode is what a cut leaves of it. Only a sync changes it, and what was written synchronously.

import (
	"path/filepath"
	"sort"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
