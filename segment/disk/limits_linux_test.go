package disk

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
)

// use is an open folder with a driver, on this thread.
type use struct {
	testing.TB
	driver core.DiskDriver
	waker  core.Waker
}

func newUse(t *testing.T, dir string, kind core.DiskChoice) *use {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	folder, err := Open(dir, kind)
	if err != nil {
		t.Skip(err)
	}
	waker, err := ring.NewWaker()
	if err != nil {
		t.Fatal(err)
	}
	driver, _, err := folder.Driver(waker, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = driver.Close()
		_ = folder.Close()
		_ = waker.Close()
	})
	return &use{t, driver, waker}
}

// do runs a chain to its end.
func (u *use) do(ops ...*core.DiskOp) {
	u.Helper()
	for i, op := range ops {
		op.Owner = ignore{}
		if i > 0 {
			ops[i-1].Next = op
		}
	}
	if !u.driver.Submit(ops[0]) {
		u.Fatal("no room")
	}
	var out [8]*core.DiskOp
	for u.driver.Pending() > 0 {
		if err := u.driver.Flush(); err != nil {
			u.Fatal(err)
		}
		if u.driver.Reap(out[:]) == 0 {
			u.waker.Announce()
			if err := u.driver.Park(-1); err != nil {
				u.Fatal(err)
			}
			u.waker.Retract()
		}
	}
}

func (u *use) create(path string) core.FileID {
	u.Helper()
	op := &core.DiskOp{Kind: core.DiskCreate, Path: path}
	if u.do(op); op.Err != nil {
		u.Fatal(op.Err)
	}
	return op.File
}

const limitEnv = "PULSEMQ_TEST_FILE_LIMIT"

// A write that the kernel stores in part goes on, and says then why it was short.
// The file size limit of a process makes one for real.
func TestShortWrite(t *testing.T) {
	for _, kind := range []core.DiskChoice{core.DiskUring, core.DiskPosix} {
		t.Run(kind.String(), func(t *testing.T) {
			if os.Getenv(limitEnv) == "" {
				test := exec.Command(os.Args[0], "-test.run=^TestShortWrite$/^"+kind.String()+"$", "-test.v")
				test.Env = append(os.Environ(), limitEnv+"=1")
				out, err := test.CombinedOutput()
				if strings.Contains(string(out), "--- SKIP") {
					t.Skip("the limited process skipped")
				}
				if err != nil || !strings.Contains(string(out), "--- PASS: TestShortWrite/"+kind.String()) {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			u := newUse(t, t.TempDir(), kind)
			file := u.create("a")
			const pages = 3
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: pages * core.DiskAlignment, Max: unix.RLIM_INFINITY}); err != nil {
				t.Skip(err)
			}
			write := &core.DiskOp{Kind: core.DiskWrite, File: file, Buf: disktest.Buffer(4 * core.DiskAlignment)}
			sync := &core.DiskOp{Kind: core.DiskSync, File: file}
			later := &core.DiskOp{Kind: core.DiskSyncDir}
			u.do(write, sync, later)
			if !errors.Is(write.Err, unix.EFBIG) || write.N != pages*core.DiskAlignment {
				t.Errorf("wrote %d, %v", write.N, write.Err)
			}
			if sync.Err != core.ErrDiskCanceled || later.Err != core.ErrDiskCanceled {
				t.Errorf("after a short write: %v, %v", sync.Err, later.Err)
			}
		})
	}
}

// A full file system is told as such by writes, allocations and creates, and is no
// obstacle to removing.
func TestFullFileSystem(t *testing.T) {
	for _, kind := range []core.DiskChoice{core.DiskUring, core.DiskPosix} {
		t.Run(kind.String(), func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
				t.Skipf("a small file system cannot be mounted here: %v", err)
			}
			// Registered before the folder's own clean-up, so that it runs after it.
			t.Cleanup(func() {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			u := newUse(t, dir, kind)
			file := u.create("a")
			allocate := &core.DiskOp{Kind: core.DiskAllocate, File: file, Length: 1 << 20}
			if u.do(allocate); !errors.Is(allocate.Err, core.ErrDiskFull) || !errors.Is(allocate.Err, unix.ENOSPC) {
				t.Errorf("allocation: %v", allocate.Err)
			}
			var write *core.DiskOp
			for i := range int64(100) {
				write = &core.DiskOp{Kind: core.DiskWrite, File: file, Offset: i * core.DiskAlignment, Buf: disktest.Buffer(core.DiskAlignment)}
				sync := &core.DiskOp{Kind: core.DiskSync, File: file}
				if u.do(write, sync); write.Err != nil {
					if sync.Err != core.ErrDiskCanceled {
						t.Errorf("the sync behind a failed write: %v", sync.Err)
					}
					break
				}
			}
			if !errors.Is(write.Err, core.ErrDiskFull) {
				t.Errorf("write: %v", write.Err)
			}
			remove := &core.DiskOp{Kind: core.DiskRemove, Path: "a"}
			if u.do(remove, &core.DiskOp{Kind: core.DiskClose, File: file}); remove.Err != nil {
				t.Errorf("remove: %v", remove.Err)
			}
			file = u.create("b")
			write = &core.DiskOp{Kind: core.DiskWrite, File: file, Buf: disktest.Buffer(core.DiskAlignment)}
			if u.do(write); write.Err != nil {
				t.Errorf("write when there is space again: %v", write.Err)
			}
			u.do(&core.DiskOp{Kind: core.DiskClose, File: file})
		})
	}
}
