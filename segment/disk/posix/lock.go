package posix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file in the data folder whose lock means "a broker uses this
// folder". FS.List does not show it.
const lockName = "LOCK"

// ErrLocked reports a data folder that another process uses.
var ErrLocked = errors.New("data folder is in use")

// takeLock locks the folder. The lock belongs to the open file, so the kernel ends
// it however the process ends; what the file says is only for the error message.
func takeLock(root *os.Root, dir string) (*os.File, error) {
	file, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open the data folder's lock file: %w", err)
	}
	err = retryInterrupted(func() error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	switch {
	case err == unix.EWOULDBLOCK:
		err = fmt.Errorf("%w: %s holds %s/%s; stop it, or choose another folder", ErrLocked, holder(file), dir, lockName)
	case err != nil:
		err = fmt.Errorf("lock the data folder %s: %w", dir, err)
	default:
		text := strconv.Itoa(os.Getpid()) + "\n"
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt([]byte(text), 0)
		}
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = nil // a full disk must not keep a broker from starting
		}
		if err != nil {
			err = fmt.Errorf("write the data folder's lock file: %w", err)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// holder says which process wrote the lock file.
func holder(file *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	pid, errNumber := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || errNumber != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// retryInterrupted repeats a system call that a signal interrupted.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
