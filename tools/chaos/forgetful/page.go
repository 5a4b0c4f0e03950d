//go:build linux

package main

// Pages hold what is written and not yet synced. They live outside the Go heap.

import (
	"log"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	pageSize = 4096
	secSize  = 512
	maxWrite = 1 << 20
)

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

func popcount(b uint8) (n int) {
	for ; b != 0; b &= b - 1 {
		n++
	}
	return
}
