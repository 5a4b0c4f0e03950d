package posix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

func TestFullDiskIsNamed(t *testing.T) {
	op := &core.DiskOp{Kind: core.DiskWrite, File: 3, Offset: 4096}
	for _, number := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if err := Operating(op, number); !errors.Is(err, core.ErrDiskFull) || !errors.Is(err, number) {
			t.Errorf("%v: %v", number, err)
		}
	}
	if err := Operating(op, unix.EIO); errors.Is(err, core.ErrDiskFull) || !errors.Is(err, unix.EIO) {
		t.Errorf("EIO: %v", err)
	}
	if Operating(op, nil) != nil || Operating(op, core.ErrDiskShort) != core.ErrDiskShort {
		t.Error("success or a short write was wrapped")
	}
}

// Zeros are written where a file system cannot reserve.
func TestWriteZeros(t *testing.T) {
	folder, err := OpenFolder(t.TempDir(), FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	file, err := folder.FS().Create("a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 5 << 19 // more than one buffer of zeros
	buf := make([]byte, size)
	for i := range buf {
		buf[i] = 1
	}
	if _, err := file.WriteAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	if err := writeZeros(file.(*File), 1, size-2); err != nil {
		t.Fatal(err)
	}
	if _, err := file.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	for i, b := range buf {
		if want := i == 0 || i == size-1; (b == 1) != want {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}

// An operation that the system puts off again and again fails in the end: it would hold its worker, and the stop, for ever.
// Progress begins the count anew.
func TestAttemptsAreBounded(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	calls := 0
	never := func(int, []byte, int64) (int, error) { calls++; return 0, unix.EAGAIN }
	slow := func(_ int, b []byte, _ int64) (int, error) {
		if calls++; calls%3 != 0 {
			return 0, unix.EINTR
		}
		return min(len(b), core.DiskAlignment), nil
	}
	for name, move := range map[string]func(attempt, int, []byte, int64) (int, error){"read": read, "write": write} {
		calls = 0
		if n, err := move(never, int(file.Fd()), make([]byte, core.DiskAlignment), 0); err != unix.EAGAIN || n != 0 || calls != triesMax+1 {
			t.Errorf("%s: %d bytes, %v after %d attempts", name, n, err, calls)
		}
		calls = 0
		const pages = triesMax
		if n, err := move(slow, int(file.Fd()), make([]byte, pages*core.DiskAlignment), 0); err != nil || n != pages*core.DiskAlignment {
			t.Errorf("%s: %d bytes, %v of one that gets on slowly", name, n, err)
		}
	}
}
