package posix

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// DriverOptions bounds a Driver.
type DriverOptions struct {
	// OpsMax is how many operations may be pending. A chain must fit.
	OpsMax int
	// FilesMax is how many files may be open.
	FilesMax int
	// Workers is how many chains run at the same time.
	Workers int
}

// DriverDefaults is what a shard gets unless it asks for something else. Eight
// workers keep an NVMe drive busy; more would only take the cores from others.
var DriverDefaults = DriverOptions{OpsMax: 1024, FilesMax: 16384, Workers: 8}

// Driver implements core.DiskDriver on worker threads.
//
// Invariant: every pending operation is in queue, with a worker, or in done, and
// each of the channels has room for all of them, so no send ever waits.
type Driver struct {
	folder  *Folder
	waker   core.Waker
	options DriverOptions
	table   *Table
	pending int

	queue   chan *core.DiskOp // first operations of chains
	done    chan ended
	workers sync.WaitGroup

	// ready is how many are in done. It is an atomic beside the channel because Park
	// looks at it after the sleep was announced: len(done) may be read before the
	// announcement is visible, and a wake-up would be lost.
	ready atomic.Int32
}

// ended is an operation on its way back, with the file that it opened.
type ended struct {
	op   *core.DiskOp
	file *File
}

var _ core.DiskDriver = (*Driver)(nil)

// NewDriver starts the workers. The waker is the one that the loop which calls
// Park announces its sleep on.
func NewDriver(folder *Folder, waker core.Waker, options DriverOptions) *Driver {
	core.Assert(options.OpsMax > 0 && options.Workers > 0, "a driver has room for an operation and a worker to do it")
	d := &Driver{
		folder:  folder,
		waker:   waker,
		options: options,
		table:   NewTable(options.FilesMax),
		queue:   make(chan *core.DiskOp, options.OpsMax),
		done:    make(chan ended, options.OpsMax),
	}
	for range options.Workers {
		d.workers.Go(d.work)
	}
	return d
}

// Submit takes a chain, or returns false when it does not fit.
func (d *Driver) Submit(op *core.DiskOp) bool {
	count := contract.Chain(op)
	core.Assert(count <= d.options.OpsMax, "a chain fits the disk's queue")
	if d.pending+count > d.options.OpsMax {
		return false
	}
	for each := op; each != nil; each = each.Next {
		if UsesFile(each.Kind) {
			d.table.Get(each.File) // asserts that it is open, before anything is taken
		}
	}
	for each := op; each != nil; each = each.Next {
		contract.Reset(each)
		if OpensFile(each.Kind) {
			each.File = d.table.Reserve()
		}
	}
	d.pending += count
	d.queue <- op
	return true
}

// UsesFile says that an operation of this kind is on an open file.
func UsesFile(kind core.DiskOpKind) bool {
	switch kind {
	case core.DiskClose, core.DiskRead, core.DiskWrite, core.DiskSync, core.DiskAllocate, core.DiskTruncate:
		return true
	}
	return false
}

// OpensFile says that an operation of this kind opens a file.
func OpensFile(kind core.DiskOpKind) bool { return kind == core.DiskOpen || kind == core.DiskCreate }

// work runs chains until the queue is closed.
func (d *Driver) work() {
	for op := range d.queue {
		failed := false
		for op != nil {
			next := op.Next // the owner may use op again as soon as it is in done
			var file *File
			if failed {
				op.Err = core.ErrDiskCanceled
			} else {
				if UsesFile(op.Kind) {
					file = d.table.Get(op.File)
				}
				file = d.folder.Execute(op, file)
				failed = op.Err != nil
			}
			d.done <- ended{op, file}
			d.ready.Add(1)
			d.waker.Kick()
			op = next
		}
	}
}

// Flush does nothing: a submitted chain is with the workers already.
func (d *Driver) Flush() error { return nil }

// Reap stores ended operations in out and returns how many.
func (d *Driver) Reap(out []*core.DiskOp) int {
	count := min(len(out), int(d.ready.Load()))
	for i := range count {
		e := <-d.done
		d.settle(e)
		out[i] = e.op
	}
	if count > 0 {
		d.ready.Add(-int32(count))
		d.pending -= count
	}
	return count
}

// settle keeps the file table, which belongs to the shard's thread.
func (d *Driver) settle(e ended) {
	switch e.op.Kind {
	case core.DiskOpen, core.DiskCreate:
		if e.op.Err == nil {
			d.table.Set(e.op.File, e.file)
		} else if e.op.File != 0 {
			d.table.Remove(e.op.File)
			e.op.File = 0
		}
	case core.DiskClose:
		if e.op.Err != core.ErrDiskCanceled {
			d.table.Remove(e.op.File) // also after an error: the descriptor is gone
		}
	}
}

// Pending is the number of operations submitted and not yet reaped.
func (d *Driver) Pending() int { return d.pending }

// Park waits until there is something to reap, the waker was kicked, or the timeout passed.
func (d *Driver) Park(timeout int64) error {
	if d.ready.Load() > 0 {
		return nil
	}
	if err := waitReadable(d.waker.FD(), timeout); err != nil {
		return fmt.Errorf("disk: wait for the waker: %w", err)
	}
	return nil
}

// Close ends the workers and closes the files that are still open.
func (d *Driver) Close() error {
	core.Assert(d.pending == 0, "a disk is closed when nothing is pending")
	close(d.queue)
	d.workers.Wait()
	d.table.Close()
	return nil
}
