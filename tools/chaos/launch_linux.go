package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchWord begins the arguments of a chaos that is a launcher: it takes limits upon itself and then becomes the
// broker. Setting them from outside would come too late, since the broker looks at some of them first of all.
const launchWord = "launch"

// launched turns this process into the broker when it was started as a launcher; else it returns.
func launched(arguments []string) {
	if len(arguments) < 2 || arguments[1] != launchWord {
		return
	}
	runtime.LockOSThread()
	fmt.Fprintln(os.Stderr, "chaos:", errors.Join(errors.New("the broker was not launched"), launch(arguments[2:])))
	os.Exit(1)
}

// launch takes limits up to "--" and becomes the program behind it.
func launch(arguments []string) error {
	for i, word := range arguments {
		if word == "--" && i+1 < len(arguments) {
			program, err := exec.LookPath(arguments[i+1])
			if err != nil {
				return err
			}
			return syscall.Exec(program, arguments[i+1:], os.Environ()) // process.Launch chose them
		}
		name, value, _ := strings.Cut(word, "=")
		if err := restrict(name, value); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return errors.New("no program is named behind --")
}

func restrict(name, value string) error {
	if name == "cgroup" {
		return os.WriteFile(filepath.Join(value, "cgroup.procs"), []byte("0"), 0)
	}
	number, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return err
	}
	switch name {
	case "descriptors":
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: number, Max: number})
	case "filebytes":
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: number, Max: number})
	case "refuse-uring":
		return refuseUring(syscall.Errno(number))
	}
	return errors.New("there is no such limit")
}

// refuseUring makes io_uring_setup answer an error in this process and what it becomes, for good, as container profiles
// do (EPERM) and kernels built without it (ENOSYS).
func refuseUring(errno syscall.Errno) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
