package ceiling

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDiskIsMeasuredAndLeftClean(t *testing.T) {
	folder := t.TempDir()
	file, err := Disk{Folder: folder, FileBytes: 4 << 20}.Open(t.Context())
	if errors.Is(err, unix.EINVAL) {
		t.Skip("this file system has no direct I/O")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("while it is measured there is %v, %v", left, err)
	}
	for _, a := range []Access{{Write, 64 << 10, 4}, {WriteSync, 4096, 1}, {Read, 1 << 20, 2}} {
		m, err := file.Measure(t.Context(), a, 5*time.Millisecond)
		if err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		if m.Operations < 1 || m.Bytes != m.Operations*int64(a.Bytes) || m.Latency.TotalCount() != m.Operations || m.MegabytesPerSecond() <= 0 {
			t.Errorf("%+v: %+v", a, m)
		}
	}
	if _, err := file.Measure(t.Context(), Access{Write, 100, 1}, time.Millisecond); err == nil {
		t.Error("direct I/O of 100 bytes")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("called off"))
	if _, err := file.Measure(ended, Access{Write, 4096, 1}, time.Hour); err == nil || err.Error() != "called off" {
		t.Errorf("called off, it says %v", err)
	}
	if Align(1) != 4096 || Align(4096) != 4096 || Align(4097) != 8192 {
		t.Error("sizes are not aligned")
	}
}

func TestNewFilesAreWrittenOnce(t *testing.T) {
	folder := t.TempDir()
	files := NewFiles{Folder: folder, Files: 3, FileBytes: 64 << 10}
	for _, operation := range []Operation{Write, WriteSync} {
		m, err := files.Measure(t.Context(), Access{operation, 16 << 10, 2}, time.Hour)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Operations != 12 || m.Bytes != 3*64<<10 {
			t.Errorf("%d writes of %d bytes to three files of four blocks", m.Operations, m.Bytes)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("there is still %v, %v", left, err)
		}
	}
	if _, err := files.Measure(t.Context(), Access{Read, 4096, 1}, time.Second); err == nil {
		t.Error("files that hold nothing were read")
	}
}
