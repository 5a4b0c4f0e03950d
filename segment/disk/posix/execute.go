package posix

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

// Execute runs one operation to its end, blocking, and stores N and Err in it.
// file is the open file that op.File names. For an open or a create op.File is the
// id that was reserved, 0 when there was none, and the new file is returned.
func (f *Folder) Execute(op *core.DiskOp, file *File) *File {
	var err error
	op.N = 0
	switch op.Kind {
	case core.DiskOpen, core.DiskCreate:
		flag := os.O_RDWR
		if op.Kind == core.DiskCreate {
			flag |= os.O_CREATE | os.O_EXCL
		}
		if op.File == 0 {
			err = fmt.Errorf("as many files are open as one shard may have: %w", unix.EMFILE)
		} else {
			file, err = f.open(op.Path, flag, f.direct)
		}
	case core.DiskClose:
		err = file.close()
	case core.DiskRead:
		op.N, err = read(unix.Pread, file.fd, op.Buf, op.Offset)
	case core.DiskWrite:
		op.N, err = write(unix.Pwrite, file.fd, op.Buf, op.Offset)
	case core.DiskSync:
		err = syncData(file)
	case core.DiskAllocate:
		err = allocate(file, op.Offset, op.Length)
	case core.DiskTruncate:
		err = file.truncate(op.Length)
	case core.DiskRemove:
		err = f.remove(op.Path)
	case core.DiskRename:
		err = f.rename(op.Path, op.PathNew)
	case core.DiskSyncDir:
		err = f.syncDir(op.Path)
	case core.DiskMakeDir:
		err = f.makeDir(op.Path)
	}
	op.Err = Operating(op, err)
	return file
}

// Operating wraps an error of the system with what was tried. ErrDiskShort stays
// as it is.
func Operating(op *core.DiskOp, err error) error {
	if err == nil || err == core.ErrDiskShort {
		return err
	}
	if op.Path != "" {
		return fmt.Errorf("disk: %s %q: %w", op.Kind, op.Path, operating(err))
	}
	return fmt.Errorf("disk: %s file %d at %d: %w", op.Kind, op.File, op.Offset, operating(err))
}

// triesMax bounds the attempts at something that get nowhere, before the failure is believed.
const triesMax = 1000

// attempt is pread or pwrite.
type attempt func(fd int, buf []byte, offset int64) (int, error)

// passes says whether an error of the system asks for another attempt.
func passes(err error, tries int) bool {
	return (err == unix.EINTR || err == unix.EAGAIN) && tries < triesMax
}

// read fills buf as far as the file reaches. The system may return less in the
// middle of a file; only a return of nothing is the end.
func read(pread attempt, fd int, buf []byte, offset int64) (int, error) {
	done := 0
	for tries := 0; done < len(buf); tries++ {
		n, err := pread(fd, buf[done:], offset+int64(done))
		switch {
		case passes(err, tries):
			continue
		case err != nil:
			return done, err
		case n == 0:
			return done, nil
		}
		done, tries = done+n, 0
		if n%core.DiskAlignment != 0 {
			return done, nil // an unaligned rest is the file's end, and cannot be read on with O_DIRECT
		}
	}
	return done, nil
}

// write stores all of buf. A write that was stored in part goes on behind the whole
// pages of it, as it does with io_uring; why it was short shows then.
func write(pwrite attempt, fd int, buf []byte, offset int64) (int, error) {
	done, stored := 0, 0
	for tries := 0; ; tries++ {
		n, err := pwrite(fd, buf[done:], offset+int64(done))
		switch {
		case passes(err, tries):
			continue
		case err != nil:
			return stored, err
		}
		if stored = done + n; stored == len(buf) {
			return stored, nil
		}
		if whole := stored &^ (core.DiskAlignment - 1); whole > done {
			done, tries = whole, 0
		}
		if tries >= triesMax {
			return stored, core.ErrDiskShort
		}
	}
}
