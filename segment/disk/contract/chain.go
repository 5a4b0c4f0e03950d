package contract

import (
	"unsafe"

	"github.com/pulsemq/pulsemq/core"
)

// chainMax is above what any driver takes, so that a chain that bites its own tail
// is found instead of followed for ever.
const chainMax = 1 << 16

// Chain checks a chain of operations and returns how many there are. What it
// asserts is the submitter's own code; what an operator or a disk can cause is an
// error of the operation instead.
func Chain(op *core.DiskOp) int {
	count := 0
	for ; op != nil; op = op.Next {
		operation(op)
		count++
		core.Assert(count <= chainMax, "a chain has an end")
	}
	core.Assert(count > 0, "a chain has at least one operation")
	return count
}

func operation(op *core.DiskOp) {
	core.Assert(op.Owner != nil, "a disk operation has an owner to be told")
	switch op.Kind {
	case core.DiskRead, core.DiskWrite:
		core.Assert(op.File > 0, "a disk operation names an open file")
		core.Assert(len(op.Buf) > 0 && len(op.Buf)%core.DiskAlignment == 0, "a disk buffer is a multiple of 4 KiB")
		core.Assert(uintptr(unsafe.Pointer(unsafe.SliceData(op.Buf)))%core.DiskAlignment == 0, "a disk buffer is 4 KiB aligned")
		core.Assert(op.Offset >= 0 && op.Offset%core.DiskAlignment == 0, "a disk offset is a multiple of 4 KiB")
	case core.DiskAllocate:
		core.Assert(op.File > 0, "a disk operation names an open file")
		core.Assert(op.Offset >= 0 && op.Offset%core.DiskAlignment == 0, "a disk offset is a multiple of 4 KiB")
		core.Assert(op.Length > 0 && op.Length%core.DiskAlignment == 0, "an allocation is a multiple of 4 KiB")
	case core.DiskTruncate:
		core.Assert(op.File > 0, "a disk operation names an open file")
		core.Assert(op.Length >= 0, "a file size is not negative")
	case core.DiskSync, core.DiskClose:
		core.Assert(op.File > 0, "a disk operation names an open file")
	case core.DiskOpen, core.DiskCreate, core.DiskRemove, core.DiskRename, core.DiskSyncDir, core.DiskMakeDir:
	default:
		core.Assert(false, "a disk operation has a known kind")
	}
}

// Reset clears an operation's results before it is started.
func Reset(op *core.DiskOp) {
	op.N, op.Err = 0, nil
}
