//go:build linux

package uring

import (
	"sync"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// names runs the operations that are not reads, writes and syncs, on a few worker
// threads. Both channels have room for every pending operation: no send waits.
type names struct {
	folder  *posix.Folder
	waker   core.Waker
	queue   chan namesTask
	done    chan namesEnded
	workers sync.WaitGroup

	// ended is how many are in done. It is an atomic beside the channel because the
	// shard looks at it between announcing its sleep and sleeping: len(done) may be
	// read before the announcement is visible, and a wake-up would be lost.
	ended atomic.Int32
}

type namesTask struct {
	slot int32
	op   *core.DiskOp
	file *posix.File
}

// namesEnded is an operation on its way back, with the file that it opened.
type namesEnded struct {
	slot int32
	file *posix.File
}

func newNames(folder *posix.Folder, waker core.Waker, options Options) *names {
	n := &names{
		folder: folder,
		waker:  waker,
		queue:  make(chan namesTask, options.OpsMax),
		done:   make(chan namesEnded, options.OpsMax),
	}
	for range options.NameWorkers {
		n.workers.Go(n.work)
	}
	return n
}

func (n *names) work() {
	for task := range n.queue {
		file := n.folder.Execute(task.op, task.file)
		n.done <- namesEnded{task.slot, file}
		n.ended.Add(1)
		n.waker.Kick()
	}
}

func (n *names) submit(at int32, s *slot) { n.queue <- namesTask{at, s.op, s.file} }

func (n *names) ready() bool { return n.ended.Load() > 0 }

func (n *names) reap() (namesEnded, bool) {
	if !n.ready() {
		return namesEnded{}, false
	}
	n.ended.Add(-1)
	return <-n.done, true
}

func (n *names) close() {
	close(n.queue)
	n.workers.Wait()
}
