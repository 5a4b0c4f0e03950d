package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache drops what the kernel keeps of a file.
func dropCache(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	fd := int(file.Fd())
	if err := unix.Fdatasync(fd); err != nil { // what is not on the disk yet cannot be dropped
		return err
	}
	return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
}
