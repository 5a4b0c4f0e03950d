package mem

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// DriverOptions says how a Driver behaves. The zero value is a disk that ends
// operations at the next Reap, in the order of their submission.
type DriverOptions struct {
	// OpsMax bounds the pending operations; zero is 1024.
	OpsMax int
	// FilesMax bounds the open files; zero is 16384.
	FilesMax int
	// Reorder lets independent chains overtake each other, and a Reap return fewer
	// operations than it could, as Seed says.
	Reorder bool
	Seed    uint64
	// Clock is the driver's time. Without one, time is the number of Reaps.
	Clock core.Clock
	// LatencyMin and LatencyMax bound the time that each operation takes.
	LatencyMin, LatencyMax int64
	// Waker is waited for by Park when nothing is pending. Without one Park returns
	// at once, as a simulation wants it.
	Waker core.Waker
}

// Driver implements core.DiskDriver over an FS. Operations happen in Reap, not in
// Submit: until then a crash finds them not done, or done without the answer.
type Driver struct {
	fs      *FS
	options DriverOptions
	random  *rand.Rand
	files   []handle // FileID-1 -> file
	chains  []*flight
	flying  map[*core.DiskOp]bool
	pending int
	reaps   int64
}

// handle is an open file of a driver.
type handle struct {
	node *node // nil is free
	path string
	uses int // operations in flight
}

var _ core.DiskDriver = (*Driver)(nil)

// Driver opens a driver on the file system.
func (s *FS) Driver(options DriverOptions) *Driver {
	if options.OpsMax == 0 {
		options.OpsMax = 1024
	}
	if options.FilesMax == 0 {
		options.FilesMax = 16384
	}
	d := &Driver{
		fs:      s,
		options: options,
		random:  rand.New(rand.NewPCG(options.Seed, 0x6d656d)),
		flying:  map[*core.DiskOp]bool{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drivers = append(s.drivers, d)
	return d
}

// Submit takes a chain, or returns false when it does not fit.
func (d *Driver) Submit(op *core.DiskOp) bool {
	count := contract.Chain(op)
	core.Assert(count <= d.options.OpsMax, "a chain fits the disk's queue")
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.pending+count > d.options.OpsMax {
		return false
	}
	chain := &flight{ops: make([]flyingOp, 0, count)}
	for each := op; each != nil; each = each.Next {
		core.Assert(!d.flying[each], "an operation in flight is not submitted again")
		d.flying[each] = true
		contract.Reset(each)
		if usesFile(each.Kind) {
			h := d.handle(each.File)
			if each.Kind == core.DiskClose {
				core.Assert(h.uses == chain.usesOf(each.File), "a file is closed when nothing else uses it")
			}
			h.uses++
		}
		if each.Kind == core.DiskOpen || each.Kind == core.DiskCreate {
			each.File = 0
		}
		chain.ops = append(chain.ops, newFlyingOp(each))
	}
	d.chains = append(d.chains, chain)
	d.pending += count
	return true
}

func (d *Driver) handle(id core.FileID) *handle {
	core.Assert(id > 0 && int(id) <= len(d.files), "a file id comes from an open")
	h := &d.files[id-1]
	core.Assert(h.node != nil, "a file is used before it is closed")
	return h
}

// Flush does nothing: what was submitted is in flight.
func (d *Driver) Flush() error { return nil }

// now is the driver's time.
func (d *Driver) now() int64 {
	if d.options.Clock != nil {
		return d.options.Clock.Monotonic()
	}
	return d.reaps
}

// Reap ends operations that are due and stores them in out.
func (d *Driver) Reap(out []*core.DiskOp) int {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.reaps++
	limit := len(out)
	if d.options.Reorder && limit > 0 {
		limit = d.random.IntN(limit + 1)
	}
	count := 0
	for count < limit {
		chain := d.choose()
		if chain == nil {
			break
		}
		out[count] = d.end(chain)
		count++
	}
	return count
}

// choose finds a chain whose first operation is due, or nil.
func (d *Driver) choose() *flight {
	now := d.now()
	var due []*flight
	for _, chain := range d.chains {
		if d.dueAt(chain, now) <= now {
			if !d.options.Reorder {
				return chain
			}
			due = append(due, chain)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return due[d.random.IntN(len(due))]
}

// dueAt is when a chain's first operation may end. Its time is drawn when it
// becomes the first.
func (d *Driver) dueAt(chain *flight, now int64) int64 {
	if !chain.timed {
		chain.timed = true
		chain.due = now + d.options.LatencyMin
		if spread := d.options.LatencyMax - d.options.LatencyMin; spread > 0 {
			chain.due += d.random.Int64N(spread + 1)
		}
		if !chain.failed {
			op := chain.ops[0].op
			chain.due += d.fs.delay(op.Kind, d.pathOf(op))
		}
	}
	return chain.due
}

// Due is the earliest time at which a pending operation may end, so that a
// simulator knows how far to move its clock.
func (d *Driver) Due() (at int64, pending bool) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	now := d.now()
	for i, chain := range d.chains {
		if due := d.dueAt(chain, now); i == 0 || due < at {
			at = due
		}
	}
	return at, len(d.chains) > 0
}

func (d *Driver) pathOf(op *core.DiskOp) string {
	if usesFile(op.Kind) {
		return d.handle(op.File).path
	}
	return op.Path
}

// end does the chain's first operation.
func (d *Driver) end(chain *flight) *core.DiskOp {
	flying := &chain.ops[0]
	op := flying.op
	flying.check()
	delete(d.flying, op)
	d.pending--
	if chain.failed {
		op.Err = core.ErrDiskCanceled
	} else {
		op.Err = wrap(op, d.do(op))
		chain.failed = op.Err != nil
	}
	if usesFile(op.Kind) {
		h := &d.files[op.File-1]
		h.uses--
		if op.Kind == core.DiskClose && op.Err != core.ErrDiskCanceled {
			*h = handle{}
		}
	}
	chain.ops = chain.ops[1:]
	chain.timed = false
	if len(chain.ops) == 0 {
		d.chains = slices.Delete(d.chains, slices.Index(d.chains, chain), slices.Index(d.chains, chain)+1)
	}
	return op
}

func (d *Driver) do(op *core.DiskOp) error {
	if !usesFile(op.Kind) {
		if op.Kind != core.DiskOpen && op.Kind != core.DiskCreate {
			return d.fs.namespace(op.Kind, op.Path, op.PathNew)
		}
		return d.open(op)
	}
	h := d.handle(op.File)
	return d.fs.onFile(op, h.node, h.path)
}

func (d *Driver) open(op *core.DiskOp) error {
	id := slices.IndexFunc(d.files, func(h handle) bool { return h.node == nil })
	if id < 0 && len(d.files) == d.options.FilesMax {
		return fmt.Errorf("%w: as many are open as one shard may have: %w", core.ErrDiskFiles, syscall.EMFILE)
	}
	n, err := d.fs.openOp(op.Kind, op.Path)
	if err != nil {
		return err
	}
	if id < 0 {
		id = len(d.files)
		d.files = append(d.files, handle{})
	}
	d.files[id] = handle{node: n, path: op.Path}
	op.File = core.FileID(id + 1)
	return nil
}

// Pending is the number of operations submitted and not yet reaped.
func (d *Driver) Pending() int { return d.pending }

// Park waits for the waker when nothing is pending; otherwise the next Reap may
// have something.
func (d *Driver) Park(timeout int64) error {
	if d.pending > 0 || d.options.Waker == nil {
		return nil
	}
	if err := waitReadable(d.options.Waker.FD(), timeout); err != nil {
		return fmt.Errorf("disk: wait for the waker: %w", err)
	}
	return nil
}

// Close detaches the driver and closes the files that are still open.
func (d *Driver) Close() error {
	core.Assert(d.pending == 0, "a disk is closed when nothing is pending")
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	for i := range d.files {
		if n := d.files[i].node; n != nil {
			n.opens--
			d.fs.reclaim(n)
		}
	}
	d.files = nil
	d.fs.drivers = slices.DeleteFunc(d.fs.drivers, func(each *Driver) bool { return each == d })
	return nil
}
