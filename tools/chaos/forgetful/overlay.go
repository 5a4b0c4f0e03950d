//go:build linux

package main

// The overlay of a file is what was written and not yet synced; reads see it over the backing file.

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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

// syncFailed does to the data of an fsync that failed what the kernel may do. mu held.
func (i *inode) syncFailed(after afterFailure) {
	for x, p := range i.pages {
		switch {
		case after == loseDirty: // the pages are marked clean: no later fsync writes them
			p.lost |= p.dirty
			p.dirty = 0
		case after == dropDirty:
			p.dirty = 0
			if p.lost == 0 {
				i.dropPage(x)
			}
		}
	}
}
