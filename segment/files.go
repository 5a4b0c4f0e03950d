package segment

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// fileWaiter is told when a segment's file is open, or why it is not. It may use
// the segment again from within, which begins another open.
type fileWaiter interface {
	fileReady(g *segment, err error)
}

// files keeps segment files open while they are used and a bounded number after.
// A file in use is never closed, so the bound may be passed by as many files as
// writers and reads are busy, which are bounded themselves.
//
// When the process has no descriptors left, the bound falls to half of what is
// open, and rises again with each file that can be opened: connections may have
// taken them, and they come back.
type files struct {
	store          *Store
	open           int
	most           int      // the bound: at most Options.OpenFiles
	warnedAt       int64    // monotonic, when the log was last told that descriptors have run out
	oldest, newest *segment // open files without a user, by last use

	ops     []*fileOp    // ended, to be used again
	waiting []fileWaiter // a list without waiters, to be used again; nil while there is none
}

// fileOp opens or closes a file.
type fileOp struct {
	files   *files
	segment *segment
	op      core.DiskOp
}

// acquire takes a file into use. True: it is open; false: w is told later, or at
// once with an error when the disk takes no operation.
func (k *files) acquire(g *segment, w fileWaiter) bool {
	g.users++
	if g.file != 0 {
		k.unlist(g)
		return true
	}
	if g.waiters == nil {
		g.waiters, k.waiting = k.waiting, nil
	}
	g.waiters = append(g.waiters, w)
	if g.opening {
		return false
	}
	o := k.newOp(g)
	o.op.Kind, o.op.Path = core.DiskOpen, g.path
	g.opening = true
	if !k.store.ports.Disk.Submit(&o.op) {
		k.opFree(o)
		g.opening = false
		k.ready(g, ErrStoreBusy)
	}
	return false
}

// newOp takes an operation on a segment's file.
func (k *files) newOp(g *segment) *fileOp {
	var o *fileOp
	if n := len(k.ops); n > 0 {
		o, k.ops = k.ops[n-1], k.ops[:n-1]
	} else {
		o = &fileOp{files: k}
	}
	o.segment = g
	o.op = core.DiskOp{Owner: o}
	return o
}

// opFree gives back an operation that has ended. There are as many as the disk ever had
// at a time, which is bounded.
func (k *files) opFree(o *fileOp) {
	o.segment, o.op = nil, core.DiskOp{}
	k.ops = append(k.ops, o)
}

// Complete takes the ended open or close.
func (o *fileOp) Complete(op *core.DiskOp) {
	k, g := o.files, o.segment
	kind, file, err := op.Kind, op.File, op.Err
	k.opFree(o)
	if kind == core.DiskClose {
		return // the descriptor is gone either way
	}
	g.opening = false
	if err != nil {
		err = fmt.Errorf("open %s: %w", g.path, err)
		if errors.Is(err, core.ErrDiskFiles) {
			k.press()
			err = fmt.Errorf("%w: %w", ErrStoreBusy, err)
		}
		k.ready(g, err)
		return
	}
	g.file = file
	k.opened()
	k.ready(g, nil)
	k.bound()
}

// opened counts a file.
func (k *files) opened() {
	k.open++
	k.most = min(k.most+1, k.store.options.OpenFiles)
}

// press gives idle files up because there are no descriptors.
func (k *files) press() {
	if s := k.store; k.warnedAt == 0 || s.mono-k.warnedAt >= filesWarnNanos {
		k.warnedAt = s.mono
		s.log.Warn("file descriptors have run out: fewer segments are kept open", "shard", int(s.shard), "open", k.open)
	}
	k.most = max(openFilesMin, k.open/2)
	k.bound()
}

func (k *files) ready(g *segment, err error) {
	waiters := g.waiters
	g.waiters = nil
	if err != nil {
		g.users -= len(waiters)
	}
	for _, w := range waiters {
		w.fileReady(g, err)
	}
	clear(waiters)
	k.waiting = waiters[:0]
	if g.users == 0 && g.file != 0 {
		k.list(g)
	}
}

// created takes a file that was just made; its creator uses it.
func (k *files) created(g *segment, file core.FileID) {
	g.file = file
	g.users++
	k.opened()
	k.bound()
}

// release ends a use.
func (k *files) release(g *segment) {
	core.Assert(g.users > 0, "a file is released once per use")
	g.users--
	if g.users == 0 && g.file != 0 {
		if g.removing {
			k.close(g)
			return
		}
		k.list(g)
		k.bound()
	}
}

func (k *files) list(g *segment) {
	if g.listed {
		return
	}
	g.listed = true
	g.older, g.newer = k.newest, nil
	if k.newest != nil {
		k.newest.newer = g
	} else {
		k.oldest = g
	}
	k.newest = g
}

func (k *files) unlist(g *segment) {
	if !g.listed {
		return
	}
	g.listed = false
	if g.older != nil {
		g.older.newer = g.newer
	} else {
		k.oldest = g.newer
	}
	if g.newer != nil {
		g.newer.older = g.older
	} else {
		k.newest = g.older
	}
	g.older, g.newer = nil, nil
}

// bound closes files without a user while too many are open.
func (k *files) bound() {
	for k.open > k.most && k.oldest != nil {
		if !k.close(k.oldest) {
			return
		}
	}
}

// close gives up a file without a user; false when the disk takes no operation.
func (k *files) close(g *segment) bool {
	core.Assert(g.users == 0 && g.file != 0, "only idle open files are closed")
	o := k.newOp(g)
	o.op.Kind, o.op.File = core.DiskClose, g.file
	if !k.store.ports.Disk.Submit(&o.op) {
		k.opFree(o)
		k.list(g)
		return false
	}
	k.unlist(g)
	g.file = 0
	k.open--
	return true
}
