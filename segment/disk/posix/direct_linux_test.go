package posix

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the file system refuses O_DIRECT a file works through the page cache.
func TestDirectRefused(t *testing.T) {
	file, err := os.Open("/proc/self/status") // procfs has no O_DIRECT
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	setDirect(&File{fd: int(file.Fd())})
	if flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_DIRECT != 0 {
		t.Fatalf("flags %#x, %v", flags, err)
	}
	if text, err := io.ReadAll(file); err != nil || len(text) == 0 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
