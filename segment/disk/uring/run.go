//go:build linux

package uring

import (
	"syscall"
	"unsafe"

	iouring "github.com/iceber/iouring-go/syscall"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// triesMax bounds how often an operation is started again after EAGAIN, EINTR or a
// write that stored nothing, before the failure is believed.
const triesMax = 1000

// linkable operations share a run. A read ends a run of its own, because a short
// one would break the link.
func linkable(kind core.DiskOpKind) bool { return kind == core.DiskWrite || kind == core.DiskSync }

// start starts the run at the beginning of a chain.
func (d *Driver) start(number int32) {
	c := &d.chains[number]
	at := c.first
	switch kind := d.slots[at].op.Kind; {
	case kind == core.DiskRead:
		c.running = 1
		d.prepare(at)
	case linkable(kind):
		c.vector = 0
		for at != slotNone && linkable(d.slots[at].op.Kind) {
			entry := d.prepare(at)
			c.running++
			for joined := d.slots[at].joined; joined > 0; joined-- {
				at = d.slots[at].next // waits until the entry has come back
			}
			if at = d.slots[at].next; at != slotNone && linkable(d.slots[at].op.Kind) {
				entry.SetFlags(iouring.IOSQE_FLAGS_IO_LINK)
			}
		}
	default:
		c.running = 1
		d.slots[at].state = slotRuns
		d.names.submit(at, &d.slots[at])
	}
}

// prepare makes the submission entry of a read, a sync, or a write with those that join it.
func (d *Driver) prepare(at int32) *submission {
	s := &d.slots[at]
	s.state, s.split, s.joined = slotRuns, false, 0
	s.tries++
	entry := d.kernel.prepare()
	fd := int32(s.file.FD())
	switch op := s.op; op.Kind {
	case core.DiskRead:
		rest := op.Buf[s.done:]
		entry.PrepOperation(iouring.IORING_OP_READ, fd, address(rest), uint32(len(rest)), uint64(op.Offset)+uint64(s.done))
	case core.DiskWrite:
		rest := op.Buf[s.done:]
		if vector := d.join(at); vector != nil {
			entry.PrepOperation(iouring.IORING_OP_WRITEV, fd, vectorAddress(vector), uint32(len(vector)), uint64(op.Offset)+uint64(s.done))
			break
		}
		entry.PrepOperation(iouring.IORING_OP_WRITE, fd, address(rest), uint32(len(rest)), uint64(op.Offset)+uint64(s.done))
	case core.DiskSync:
		entry.PrepOperation(iouring.IORING_OP_FSYNC, fd, 0, 0, 0)
		entry.SetOpFlags(iouring.IORING_FSYNC_DATASYNC)
	}
	entry.SetUserData(uint64(at))
	d.native++
	return entry
}

// address of a buffer; its operation, which the slot holds, keeps it alive.
func address(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }

// mend repairs a run that the kernel took only in part. It ends a chain of links
// where a submission ends, so that the rest would start at once, before its
// predecessors: the rest becomes no-ops, which start again in their turn.
func (d *Driver) mend() {
	k := d.kernel
	mask := uint32(len(k.sqes) - 1)
	head := k.sqTail - uint32(k.prepared())
	previous := &k.sqes[(head-1)&mask]
	for linked(previous) && head != k.sqTail {
		entry := &k.sqes[head&mask]
		more := linked(entry)
		user := userOf(entry)
		d.slots[user].split = true
		entry.Reset()
		entry.PrepOperation(iouring.IORING_OP_NOP, -1, 0, 0, 0)
		entry.SetUserData(user)
		if !more {
			return
		}
		head++
	}
}

// entryHead mirrors the first bytes of a submission entry, whose fields the
// package that defines it does not let others read.
type entryHead struct {
	opcode, flags uint8
	_             [30]byte
	user          uint64
}

func linked(entry *submission) bool {
	return (*entryHead)(unsafe.Pointer(entry)).flags&iouring.IOSQE_FLAGS_IO_LINK != 0
}

func userOf(entry *submission) uint64 { return (*entryHead)(unsafe.Pointer(entry)).user }

// complete takes the kernel's answer to one entry.
func (d *Driver) complete(at int32, result int32) {
	s := &d.slots[at]
	op := s.op
	number := s.chain
	d.chains[number].running--
	errno := syscall.Errno(0)
	if result < 0 {
		errno = syscall.Errno(-result)
	}
	switch {
	case s.split || errno == syscall.ECANCELED:
		s.state = slotAgain // or canceled, when one before it failed
	case (errno == syscall.EAGAIN || errno == syscall.EINTR) && s.tries < triesMax:
		s.state = slotAgain
	case errno != 0:
		s.state = slotFailed
		op.Err = posix.Operating(op, errno)
	case op.Kind == core.DiskWrite:
		d.stored(at, int(result))
	case op.Kind == core.DiskRead:
		s.done += int(result)
		op.N = s.done
		s.state = slotSucceeded
		if result > 0 && s.done < len(op.Buf) && s.done%core.DiskAlignment == 0 {
			s.state = slotAgain // less than the file may have; only nothing, or an odd rest, is its end
			s.tries = 0
		}
	default:
		s.state = slotSucceeded
	}
	d.advance(number)
}

// writeOn goes on with a write that was stored in part: behind the whole pages of
// it, since no other place may be written with O_DIRECT. Why it was short shows
// then, such as that the disk is full. The kernel has broken the links behind it,
// so the rest of the run starts again with it.
func (d *Driver) writeOn(s *slot) {
	done := s.op.N &^ (core.DiskAlignment - 1)
	if done > s.done {
		s.done, s.tries = done, 0
	}
	s.state = slotAgain
	if s.tries >= triesMax {
		s.state = slotFailed
		s.op.Err = core.ErrDiskShort
	}
}

// advance ends the operations at the beginning of a chain that have succeeded.
// When the run is over it cancels the rest, starts again, or starts the next run.
func (d *Driver) advance(number int32) {
	c := &d.chains[number]
	for c.first != slotNone && d.slots[c.first].state == slotSucceeded {
		at := c.first
		c.first = d.slots[at].next
		d.end(at, nil)
	}
	if c.running > 0 {
		return
	}
	if c.first == slotNone {
		d.giveChain(number)
		return
	}
	if d.slots[c.first].state != slotFailed {
		d.start(number)
		return
	}
	err := d.slots[c.first].op.Err
	for at := c.first; at != slotNone; {
		next := d.slots[at].next
		if op := d.slots[at].op; posix.OpensFile(op.Kind) && err == core.ErrDiskCanceled {
			d.unreserve(op)
		}
		d.end(at, err)
		at, err = next, core.ErrDiskCanceled
	}
	d.giveChain(number)
}

// settle takes a worker's answer to an operation on names.
func (d *Driver) settle(e namesEnded) {
	s := &d.slots[e.slot]
	op := s.op
	switch {
	case posix.OpensFile(op.Kind) && op.Err == nil:
		d.table.Set(op.File, e.file)
	case posix.OpensFile(op.Kind):
		d.unreserve(op)
	case op.Kind == core.DiskClose:
		d.table.Remove(op.File) // also after an error: the descriptor is gone
	}
	s.state = slotSucceeded
	if op.Err != nil {
		s.state = slotFailed
	}
	d.chains[s.chain].running--
	d.advance(s.chain)
}

// unreserve gives back the id of a file that was not opened.
func (d *Driver) unreserve(op *core.DiskOp) {
	if op.File != 0 {
		d.table.Remove(op.File)
		op.File = 0
	}
}
