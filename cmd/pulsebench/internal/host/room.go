package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FreeBytes is how much room the disk of a folder has for programs without privileges.
func FreeBytes(folder string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("the room on the disk of %s: %w", folder, err)
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil
}
