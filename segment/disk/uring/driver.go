//go:build linux

package uring

import (
	"fmt"
	"math/bits"
	"syscall"

	iouring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/contract"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// Options bounds a Driver.
type Options struct {
	// OpsMax is how many operations may be pending. A chain must fit.
	OpsMax int
	// FilesMax is how many files may be open.
	FilesMax int
	// NameWorkers is how many operations on names run at the same time.
	NameWorkers int
}

// Defaults is what a shard gets unless it asks for something else. Making a segment is a row of syncs of folders, and
// those of several files share the file system's commits: 128 of them take a second on two workers, beside a load.
var Defaults = Options{OpsMax: 1024, FilesMax: 16384, NameWorkers: 8}

// opsLimit keeps the queues within what the kernel allows: 32768 submissions.
const opsLimit = 16384

// wakerUser is the user data of the poll on the waker; slots are numbered from 0.
const wakerUser = ^uint64(0)

// Driver implements core.DiskDriver on io_uring.
//
// Invariants: every pending operation has a slot or is in ended; each slot has at
// most one submission entry and one completion outstanding, and the queues are
// larger than that, so neither ever overflows.
type Driver struct {
	kernel  *kernel
	waker   core.Waker
	options Options
	table   *posix.Table
	names   *names
	places

	pending int // submitted and not reaped
	native  int // completions of operations outstanding in the kernel
	polling bool
	broken  error // of an enter in Reap, which cannot return it; Flush and Park do

	ended            []*core.DiskOp // a ring of operations to reap
	endedMask        uint32
	endedAt, endedTo uint32
}

var _ core.DiskDriver = (*Driver)(nil)

// New makes a driver for the calling thread, which must be locked to its goroutine
// and make all later calls. The waker is the one that the thread announces its
// sleep on.
func New(folder *posix.Folder, waker core.Waker, options Options) (*Driver, error) {
	core.Assert(options.OpsMax > 0 && options.OpsMax <= opsLimit, "a ring has room for 1 to 16384 operations")
	core.Assert(options.NameWorkers > 0, "a driver has a worker for names")
	size := 1 << bits.Len(uint(options.OpsMax)) // above OpsMax: the waker's poll needs an entry too
	k, err := newKernel(size, 2*size)
	if err != nil {
		return nil, refusal(err, "")
	}
	return &Driver{
		kernel:    k,
		waker:     waker,
		options:   options,
		table:     posix.NewTable(options.FilesMax),
		names:     newNames(folder, waker, options),
		places:    newPlaces(options.OpsMax),
		ended:     make([]*core.DiskOp, size),
		endedMask: uint32(size - 1),
	}, nil
}

// Submit takes a chain, or returns false when it does not fit.
func (d *Driver) Submit(op *core.DiskOp) bool {
	count := contract.Chain(op)
	core.Assert(count <= d.options.OpsMax, "a chain fits the disk's queue")
	if d.pending+count > d.options.OpsMax {
		return false
	}
	for each := op; each != nil; each = each.Next {
		if posix.UsesFile(each.Kind) {
			d.table.Get(each.File) // asserts that it is open, before anything is taken
		}
	}
	d.pending += count
	number := d.takeChain()
	last := int32(slotNone)
	for ; op != nil; op = op.Next {
		contract.Reset(op)
		at := d.takeSlot()
		s := &d.slots[at]
		s.op, s.chain = op, number
		switch {
		case posix.UsesFile(op.Kind):
			s.file = d.table.Get(op.File)
		case posix.OpensFile(op.Kind):
			op.File = d.table.Reserve()
		}
		if last == slotNone {
			d.chains[number].first = at
		} else {
			d.slots[last].next = at
		}
		last = at
	}
	d.start(number)
	return true
}

// Flush hands the prepared entries to the kernel.
func (d *Driver) Flush() error {
	if d.broken != nil || d.kernel.prepared() == 0 {
		return d.broken
	}
	return d.enter(false, 0)
}

// enter calls the kernel. That a signal interrupted it, or that it has no memory
// or too many completions right now, shows in what is still prepared; the loop
// comes back.
func (d *Driver) enter(wait bool, timeout int64) error {
	before := d.kernel.prepared()
	errno := d.kernel.enter(wait, timeout)
	if left := d.kernel.prepared(); left > 0 && left < before {
		d.mend()
	}
	switch errno {
	case 0, syscall.EINTR, syscall.EAGAIN, syscall.EBUSY, syscall.ETIME:
		return nil
	case syscall.EEXIST:
		return fmt.Errorf("disk: io_uring_enter on another thread than the ring was made on: %w", errno)
	}
	return fmt.Errorf("disk: io_uring_enter: %w", errno)
}

// Reap stores ended operations in out and returns how many.
func (d *Driver) Reap(out []*core.DiskOp) int {
	d.gather()
	count := 0
	for count < len(out) && d.endedAt != d.endedTo {
		at := &d.ended[d.endedAt&d.endedMask]
		out[count], *at = *at, nil
		d.endedAt++
		count++
	}
	d.pending -= count
	return count
}

// gather moves what has ended from the kernel and the workers to ended, and starts
// the runs that waited for it.
func (d *Driver) gather() {
	k := d.kernel
	if (d.native > 0 || d.polling) && k.completionsEmpty() && k.completionsWait() {
		d.nudge()
	}
	for {
		user, result, ok := k.completed()
		if !ok {
			break
		}
		if user == wakerUser {
			d.polling = false
			continue
		}
		d.native--
		d.complete(int32(user), result)
	}
	for {
		e, ok := d.names.reap()
		if !ok {
			break
		}
		d.settle(e)
	}
	if k.prepared() > 0 {
		d.nudge() // runs that follow a run, without waiting for the loop's next turn
	}
}

// nudge is an enter whose error shows at the next Flush or Park.
func (d *Driver) nudge() {
	if err := d.enter(false, 0); err != nil {
		d.broken = err
	}
}

// Pending is the number of operations submitted and not yet reaped.
func (d *Driver) Pending() int { return d.pending }

// Park waits until there is something to reap, the waker was kicked, or the timeout passed.
func (d *Driver) Park(timeout int64) error {
	if d.broken != nil {
		return d.broken
	}
	if !d.polling {
		// A poll and not a read: a non-blocking eventfd answers a read at once.
		entry := d.kernel.prepare()
		entry.PrepOperation(iouring.IORING_OP_POLL_ADD, int32(d.waker.FD()), 0, 0, 0)
		entry.SetOpFlags(pollIn)
		entry.SetUserData(wakerUser)
		d.polling = true
	}
	ready := d.endedAt != d.endedTo || d.names.ready() || !d.kernel.completionsEmpty()
	return d.enter(!ready && timeout != 0, timeout)
}

// pollIn is POLLIN as the poll operation takes it: the kernel reads the halves of
// the word swapped on big-endian machines, of which the broker supports none.
const pollIn = unix.POLLIN

// Close ends the workers, releases the ring and closes the files still open.
func (d *Driver) Close() error {
	core.Assert(d.pending == 0, "a disk is closed when nothing is pending")
	d.names.close()
	d.table.Close()
	return d.kernel.close()
}

// end puts an operation in ended and frees its slot.
func (d *Driver) end(at int32, err error) {
	op := d.slots[at].op
	op.Err = err
	d.giveSlot(at)
	d.ended[d.endedTo&d.endedMask] = op
	d.endedTo++
}
