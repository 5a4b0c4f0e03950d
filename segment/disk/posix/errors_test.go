package posix

import (
	"errors"
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
	if err := writeZeros(file.(*openFile).file, 1, size-2); err != nil {
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
