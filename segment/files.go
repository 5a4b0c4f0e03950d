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
	g.waiters = append(g.waiters, w)
	if g.opening {
		return false
	}
	o := &fileOp{files: k, segment: g}
	o.op = core.DiskOp{Kind: core.DiskOpen, Path: g.path, Owner: o}
	g.opening = true
	if !k.store.ports.Disk.Submit(&o.op) {
		g.opening = false
		k.ready(g, ErrStoreBusy)
	}
	return false
}

// Complete takes the ended open or close.
func (o *fileOp) Complete(op *core.DiskOp) {
	if op.Kind == core.DiskClose {
		return // the descriptor is gone either way
	}
	g := o.segment
	g.opening = false
	if op.Err != nil {
		err := fmt.Errorf("open %s: %w", g.path, op.Err)
		if errors.Is(err, core.ErrDiskFiles) {
			o.files.press()
			err = fmt.Errorf("%w: %w", ErrStoreBusy, err)
		}
		o.files.ready(g, err)
		return
	}
	g.file = op.File
	o.files.opened()
	o.files.ready(g, nil)
	o.files.bound()
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
	o := &fileOp{files: k, segment: g}
	o.op = core.DiskOp{Kind: core.DiskClose, File: g.file, Owner: o}
	if !k.store.ports.Disk.Submit(&o.op) {
		k.list(g)
		return false
	}
	k.unlist(g)
	g.file = 0
	k.open--
	return true
}
