//go:build linux

package uring

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	iouring "github.com/iceber/iouring-go/syscall"
)

// Probe says whether io_uring can be used here: nil, or an error that names who
// refuses it. It makes a small ring and runs one operation through it, because
// some sandboxes refuse only at that point.
func Probe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k, err := newKernel(2, 4)
	if err != nil {
		disabled, _ := os.ReadFile("/proc/sys/kernel/io_uring_disabled")
		return refusal(err, strings.TrimSpace(string(disabled)))
	}
	defer k.close()
	entry := k.prepare()
	entry.PrepOperation(iouring.IORING_OP_NOP, -1, 0, 0, 0)
	entry.SetUserData(1)
	for {
		if errno := k.enter(true, 1e9); errno != 0 && errno != syscall.EINTR {
			return refusal(errno, "")
		}
		if _, result, ok := k.completed(); ok {
			if result != 0 {
				return refusal(syscall.Errno(-result), "")
			}
			return nil
		}
	}
}

// refusal says who refuses io_uring. disabled is the sysctl's value, empty where
// there is none.
func refusal(err error, disabled string) error {
	switch {
	case errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("io_uring: the kernel or a sandbox does not have it: %w", err)
	case errors.Is(err, syscall.EPERM) && disabled != "" && disabled != "0":
		return fmt.Errorf("io_uring: switched off by the sysctl kernel.io_uring_disabled=%s: %w", disabled, err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("io_uring: refused, as the seccomp profiles of containers do: %w", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("io_uring: no memory for a ring (on kernels before 5.12 the locked-memory limit counts): %w", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("io_uring: no file descriptor left for a ring: %w", err)
	}
	return fmt.Errorf("io_uring: %w", err)
}
