//go:build linux

package main

// A torn cut keeps a random part of what was not synced, as a disk may that wrote some of it already.

import (
	"golang.org/x/sys/unix"
)

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
