//go:build linux

package uring

import (
	"unsafe"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// vectorMax bounds the writes of a chain that one entry makes.
	vectorMax = 8

	// vectorBytesMax bounds their bytes, so that a sync of another file does not wait long
	// behind them. One write alone may be larger.
	vectorBytesMax = 2 << 20
)

// iovec is struct iovec. It holds no pointer: the operation, which the slot holds, keeps its buffer alive.
type iovec struct{ base, bytes uint64 }

// join takes the writes behind the one at a slot that go on in its file where it ends: one entry
// makes them all, since a disk takes a large write in little more time than a small one, and the
// links would have each wait for the one before. It returns nil when there is only the one. The
// kernel copies the vector when the entry is submitted.
func (d *Driver) join(at int32) []iovec {
	s := &d.slots[at]
	from, to := int(s.chain)*vectorMax+int(d.chains[s.chain].vector), (int(s.chain)+1)*vectorMax
	vector := d.vectors[from:from:to]
	total, end := 0, s.op.Offset+int64(s.done)
	for each := at; each != slotNone && len(vector) < cap(vector); each = d.slots[each].next {
		next := &d.slots[each]
		rest := next.op.Buf[next.done:]
		if next.op.Kind != core.DiskWrite || next.file != s.file || next.op.Offset+int64(next.done) != end ||
			len(vector) > 0 && total+len(rest) > vectorBytesMax {
			break
		}
		total += len(rest)
		end += int64(len(rest))
		vector = append(vector, iovec{address(rest), uint64(len(rest))})
	}
	if len(vector) < 2 {
		return nil
	}
	s.joined = int32(len(vector)) - 1
	d.chains[s.chain].vector += int32(len(vector))
	return vector
}

// vectorAddress is where the kernel reads a vector, which is a part of Driver.vectors.
func vectorAddress(v []iovec) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(v)))) }

// stored shares out among its operations what a write has stored, in their order. The first that
// lacks something goes on there, and those behind it start again with it.
func (d *Driver) stored(at int32, bytes int) {
	for n := d.slots[at].joined; n >= 0; n-- {
		s := &d.slots[at]
		took := min(bytes, len(s.op.Buf)-s.done)
		bytes -= took
		s.op.N, s.state = s.done+took, slotSucceeded
		at = s.next
		if s.op.N == len(s.op.Buf) {
			continue
		}
		d.writeOn(s)
		return
	}
}
