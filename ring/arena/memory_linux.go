package arena

import "golang.org/x/sys/unix"

// reserve maps address space that costs nothing until it is touched.
func reserve(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
}

// preferHuge asks for huge pages. A kernel without them works too, only slower,
// so its refusal is no error.
func preferHuge(bytes []byte) { _ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) }

// release gives the memory back to the kernel; it reads as zeros afterwards.
func release(bytes []byte) bool { return unix.Madvise(bytes, unix.MADV_DONTNEED) == nil }

func unreserve(mapping []byte) error { return unix.Munmap(mapping) }
