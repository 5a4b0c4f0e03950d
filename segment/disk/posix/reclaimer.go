package posix

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// reclaimStepBytes is how much of a removed file is given back at a time. A smaller
	// file goes as a whole.
	reclaimStepBytes = 4 << 20

	// reclaimRateMin is how many bytes are given back in a second, unless all that waits
	// would take longer than reclaimTime.
	reclaimRateMin = 256 << 20
	reclaimTime    = 30 * time.Second

	// reclaimFilesMax bounds the removed files that are held open. Those above it are
	// given back at once.
	reclaimFilesMax = 256
)

// reclaimer gives the space of removed files back little by little. A file system that is
// mounted with discard tells the drive about all blocks of a removed file together, and
// what is to be written and synced waits behind that: more than a second for eight
// gigabytes that were deleted at once.
//
// The name is gone when Remove returns. The file lives on without one, cut shorter step by
// step, until its last descriptor is closed here. After a crash the file system finds it
// without a name and removes it as ever.
//
// Its goroutine lives while there is something to do. Any thread may use it.
type reclaimer struct {
	lock    sync.Mutex
	queue   core.Queue[*File]
	bytes   int64 // of all files that are not given back yet
	rate    int64 // bytes a second, for as long as something waits
	running bool
	closed  bool
}

// take has a removed file given back, and closed.
func (r *reclaimer) take(file *File) {
	if !r.wants(file) {
		_ = file.close()
	}
}

// wants queues a file if it is to be given back in steps.
func (r *reclaimer) wants(file *File) bool {
	var stat unix.Stat_t
	if file.stat(&stat) != nil || stat.Nlink > 0 {
		return false // a copy of the folder made of hard links has it too: its bytes stay
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed || r.queue.Len() >= reclaimFilesMax {
		return false
	}
	r.queue.Push(file)
	r.bytes += stat.Size
	r.rate = max(r.rate, reclaimRateMin, r.bytes/int64(reclaimTime/time.Second))
	if !r.running {
		r.running = true
		go r.run()
	}
	return true
}

func (r *reclaimer) run() {
	for file := r.next(); file != nil; file = r.next() {
		size, err := file.size()
		for err == nil && size > reclaimStepBytes {
			rest, closed := r.pause()
			if closed {
				break
			}
			began := time.Now()
			size -= reclaimStepBytes
			if err = file.truncate(size); err == nil {
				// Or the file system would gather steps, and let go of all of them together.
				err = file.Sync()
			}
			r.gone(reclaimStepBytes)
			time.Sleep(rest - time.Since(began))
		}
		r.gone(size)
		_ = file.close() // after a failure too: the rest goes as it would have without steps
	}
}

// pause is how long a step may take, so that the disk is left to others in between.
func (r *reclaimer) pause() (rest time.Duration, closed bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	return time.Duration(reclaimStepBytes * int64(time.Second) / r.rate), r.closed
}

// gone takes note of bytes that were given back.
func (r *reclaimer) gone(bytes int64) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.bytes -= bytes
}

// next is the file to go on with, nil when there is none: the goroutine ends then.
func (r *reclaimer) next() *File {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.queue.Len() == 0 {
		r.running, r.rate = false, 0
		return nil
	}
	return r.queue.Pop()
}

// close has everything given back at once: nothing is written here that would wait for it.
func (r *reclaimer) close() {
	r.lock.Lock()
	r.closed = true
	r.lock.Unlock()
}
