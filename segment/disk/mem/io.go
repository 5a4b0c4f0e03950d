package mem

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

// fileBytesMax is how large a file can become, as ext4 has it with 4 KiB blocks.
const fileBytesMax = 16 << 40

// The operations on open files, as both views do them. The caller holds the lock.

func (s *FS) read(n *node, path string, p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, syscall.EINVAL
	}
	fault := s.match(core.DiskRead, path)
	if err := fault.failure(); err != nil {
		return 0, err
	}
	done := n.file.readAt(p, offset)
	if fault != nil && fault.Action == FaultFlip && done > 0 {
		fault.flip(p[:done])
	}
	return done, nil
}

func (s *FS) write(n *node, path string, p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, syscall.EINVAL
	}
	if offset > fileBytesMax-int64(len(p)) {
		return 0, syscall.EFBIG
	}
	if fits := max(0, s.fileBytes-offset); fits < int64(len(p)) { // as the system does: what fits is written
		if fits == 0 {
			return 0, syscall.EFBIG
		}
		n, err := s.write(n, path, p[:fits], offset)
		if err == nil {
			err = syscall.EFBIG
		}
		return n, err
	}
	fault := s.match(core.DiskWrite, path)
	if err := fault.failure(); err != nil {
		return 0, err
	}
	if err := s.take(n, offset, int64(len(p))); err != nil {
		return 0, err
	}
	if fault == nil {
		n.file.writeAt(p, offset)
		return len(p), nil
	}
	switch fault.Action {
	case FaultFlip:
		flipped := append([]byte(nil), p...)
		fault.flip(flipped)
		n.file.writeAt(flipped, offset)
		return len(p), nil
	case FaultShort:
		stored := min(fault.Bytes, len(p)-1)
		n.file.writeAt(p[:stored], offset)
		return stored, core.ErrDiskShort
	case FaultTear:
		n.file.writeAt(p[:min(fault.Bytes, len(p))], offset)
		return 0, fault.error()
	}
	n.file.writeAt(p, offset)
	return len(p), nil
}

func (s *FS) sync(n *node, path string) error {
	fault := s.match(core.DiskSync, path)
	if err := fault.failure(); err != nil {
		n.file.failSync()
		return err
	}
	if fault == nil || fault.Action != FaultLie {
		n.file.sync()
	}
	return nil
}

func (s *FS) allocate(n *node, path string, offset, length int64) error {
	if offset < 0 || length <= 0 {
		return syscall.EINVAL
	}
	if offset > s.fileBytes-length {
		return syscall.EFBIG
	}
	if err := s.fail(core.DiskAllocate, path); err != nil {
		return err
	}
	if err := s.take(n, offset, length); err != nil {
		return err
	}
	n.file.allocate(offset, length)
	return nil
}

func (s *FS) truncate(n *node, path string, size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	if err := s.fail(core.DiskTruncate, path); err != nil {
		return err
	}
	s.used -= n.file.truncate(size) * pageBytes
	return nil
}

func (s *FS) closeNode(n *node, path string) error {
	err := s.fail(core.DiskClose, path)
	n.opens-- // a close that fails closes all the same
	s.reclaim(n)
	return err
}

// take reserves the space of a range, or says that the disk is full.
func (s *FS) take(n *node, offset, length int64) error {
	bytes := n.file.pagesNew(offset, length) * pageBytes
	if bytes > 0 && s.used+bytes > s.capacity {
		return syscall.ENOSPC
	}
	s.used += bytes
	return nil
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// onFile does an operation on an open file.
func (s *FS) onFile(op *core.DiskOp, n *node, path string) (err error) {
	switch op.Kind {
	case core.DiskRead:
		op.N, err = s.read(n, path, op.Buf, op.Offset)
	case core.DiskWrite:
		op.N, err = s.write(n, path, op.Buf, op.Offset)
	case core.DiskSync:
		err = s.sync(n, path)
	case core.DiskAllocate:
		err = s.allocate(n, path, op.Offset, op.Length)
	case core.DiskTruncate:
		err = s.truncate(n, path, op.Length)
	case core.DiskClose:
		err = s.closeNode(n, path)
	}
	return err
}

// wrap says what was tried, as the other disks do.
func wrap(op *core.DiskOp, err error) error {
	if err == nil || err == core.ErrDiskShort {
		return err
	}
	if op.Path != "" {
		return fmt.Errorf("disk: %s %q: %w", op.Kind, op.Path, operating(err))
	}
	return fmt.Errorf("disk: %s file %d at %d: %w", op.Kind, op.File, op.Offset, operating(err))
}
