package disk

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
)

// refusedEnv tells the test binary that it is the process without io_uring.
const refusedEnv = "PULSEMQ_TEST_IOURING_REFUSED"

// In a process whose seccomp filter refuses io_uring, as containers do, auto takes
// worker threads and says why, uring is an error, and the disk works.
func TestFallsBackWhenRefused(t *testing.T) {
	if os.Getenv(refusedEnv) == "" {
		test := exec.Command(os.Args[0], "-test.run=^TestFallsBackWhenRefused$", "-test.v")
		test.Env = append(os.Environ(), refusedEnv+"=1")
		out, err := test.CombinedOutput()
		if strings.Contains(string(out), "--- SKIP") {
			t.Skip("the process without io_uring could not be made: no seccomp here")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFallsBackWhenRefused") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	refuseUring(t)
	dir := t.TempDir()
	if _, err := Open(dir, core.DiskUring); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "seccomp") {
		t.Fatalf("uring: %v", err)
	}
	folder, err := Open(dir, core.DiskAuto)
	if err != nil {
		t.Fatal(err)
	}
	if c := folder.Choice(); c.Driver != core.DiskPosix || !errors.Is(c.Refused, unix.EPERM) {
		t.Fatalf("chose %+v", c)
	}
	waker, err := ring.NewWaker()
	if err != nil {
		t.Fatal(err)
	}
	driver, _, err := folder.Driver(waker, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	op := &core.DiskOp{Kind: core.DiskCreate, Path: "a", Owner: ignore{}}
	if !driver.Submit(op) {
		t.Fatal("no room")
	}
	var out [1]*core.DiskOp
	for driver.Reap(out[:]) == 0 {
		waker.Announce()
		if err := driver.Park(-1); err != nil {
			t.Fatal(err)
		}
		waker.Retract()
	}
	if op.Err != nil {
		t.Fatal(op.Err)
	}
	if err := driver.Close(); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
}

type ignore struct{}

func (ignore) Complete(*core.DiskOp) {}

// refuseUring makes io_uring_setup answer EPERM in the whole process, for good.
func refuseUring(t *testing.T) {
	const setup = 425
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: setup, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skipf("no seccomp here: %v", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		t.Skipf("no seccomp here: %v", errno)
	}
}
