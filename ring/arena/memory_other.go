//go:build unix && !linux

package arena

import "golang.org/x/sys/unix"

// reserve maps address space that costs nothing until it is touched.
func reserve(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// preferHuge does nothing: there is no portable way to ask.
func preferHuge([]byte) {}

// release lets the kernel take the memory when it needs it.
func release(bytes []byte) bool { return unix.Madvise(bytes, unix.MADV_FREE) == nil }

func unreserve(mapping []byte) error { return unix.Munmap(mapping) }
