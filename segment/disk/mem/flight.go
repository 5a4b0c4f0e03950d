package mem

import (
	"hash/crc32"

	"github.com/pulsemq/pulsemq/core"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flight is a chain in flight. ops are those not ended yet; the first is next.
type flight struct {
	ops    []flyingOp
	due    int64 // when the first may end; set when it becomes the first
	timed  bool
	failed bool
}

// flyingOp is an operation as it was submitted, to notice changes.
type flyingOp struct {
	op       *core.DiskOp
	copy     core.DiskOp
	checksum uint32
}

func newFlyingOp(op *core.DiskOp) flyingOp {
	flying := flyingOp{op: op, copy: *op}
	if op.Kind == core.DiskWrite {
		flying.checksum = crc32.Checksum(op.Buf, castagnoli)
	}
	return flying
}

// check asserts that the owner kept its hands off the operation.
func (f *flyingOp) check() {
	now, then := f.op, &f.copy
	core.Assert(now.Kind == then.Kind && now.File == then.File && now.Path == then.Path &&
		now.PathNew == then.PathNew && now.Offset == then.Offset && now.Length == then.Length &&
		now.Next == then.Next && now.Owner == then.Owner && len(now.Buf) == len(then.Buf) &&
		(len(now.Buf) == 0 || &now.Buf[0] == &then.Buf[0]), "an operation in flight is not changed")
	if now.Kind == core.DiskWrite {
		core.Assert(crc32.Checksum(now.Buf, castagnoli) == f.checksum, "a buffer being written is not changed")
	}
}

func usesFile(kind core.DiskOpKind) bool {
	switch kind {
	case core.DiskClose, core.DiskRead, core.DiskWrite, core.DiskSync, core.DiskAllocate, core.DiskTruncate:
		return true
	}
	return false
}

// usesOf counts the chain's own operations on a file.
func (c *flight) usesOf(id core.FileID) int {
	count := 0
	for i := range c.ops {
		if usesFile(c.ops[i].op.Kind) && c.ops[i].op.File == id {
			count++
		}
	}
	return count
}
