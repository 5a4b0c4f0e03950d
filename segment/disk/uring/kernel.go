//go:build linux

package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	iouring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

type (
	submission = iouring.SubmissionQueueEntry64
	completion = iouring.CompletionQueueEvent16
)

// kernel is an io_uring: its descriptor, and the queues that it shares with the
// kernel. One thread uses it.
//
// Invariant: sqTail - *sqHead <= len(sqes); entries in [*sqHead, sqTail) are
// prepared and not submitted. Only enter moves *sqHead.
type kernel struct {
	fd    int
	flags uint32 // as it was set up

	rings   []byte // mapping of both queues' positions, the array and the completions
	entries []byte // mapping of the submission entries

	sqes            []submission
	sqHead, sqFlags *uint32
	sqTailShared    *uint32
	sqTail          uint32

	cqes           []completion
	cqHead, cqTail *uint32

	// What enter points the kernel to. Fields, so that a call allocates nothing.
	arg     getEventsArg
	timeout kernelTimespec
}

// setups are the ways to make a ring, the best first; a kernel that does not know
// a flag answers EINVAL.
var setups = []uint32{
	setupSingleIssuer | setupDeferTaskrun | iouring.IORING_SETUP_TASKRUN_FLAG | iouring.IORING_SETUP_SUBMIT_ALL, // Linux 6.1
	iouring.IORING_SETUP_COOP_TASKRUN | iouring.IORING_SETUP_TASKRUN_FLAG | iouring.IORING_SETUP_SUBMIT_ALL,     // Linux 5.19
	0, // Linux 5.11
}

// newKernel makes a ring for at least the given numbers of entries.
func newKernel(submissions, completions int) (*kernel, error) {
	var params iouring.IOURingParams
	var fd int
	var err error
	for _, flags := range setups {
		params = iouring.IOURingParams{Flags: flags | iouring.IORING_SETUP_CQSIZE, CQEntries: uint32(completions)}
		fd, err = iouring.IOURingSetup(uint(submissions), &params)
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	k := &kernel{fd: fd, flags: params.Flags}
	const needed = featureNoDrop | featureExtArg | iouring.IORING_FEAT_SINGLE_MMAP
	if params.Features&needed != needed {
		err = fmt.Errorf("this kernel's io_uring is older than Linux 5.11 (features %#x)", params.Features)
	} else {
		err = k.mapQueues(&params)
	}
	if err != nil {
		_ = k.close()
		return nil, err
	}
	return k, nil
}

func (k *kernel) mapQueues(params *iouring.IOURingParams) error {
	sq, cq := &params.SQOffset, &params.CQOffset
	bytes := max(sq.Array+params.SQEntries*4, cq.Cqes+params.CQEntries*uint32(unsafe.Sizeof(completion{})))
	var err error
	k.rings, err = unix.Mmap(k.fd, int64(iouring.IORING_OFF_SQ_RING), int(bytes),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the queues: %w", err)
	}
	k.entries, err = unix.Mmap(k.fd, int64(iouring.IORING_OFF_SQES), int(params.SQEntries)*int(unsafe.Sizeof(submission{})),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the submission entries: %w", err)
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&k.rings[offset])) }
	k.sqHead, k.sqTailShared, k.sqFlags = word(sq.Head), word(sq.Tail), word(sq.Flags)
	k.cqHead, k.cqTail = word(cq.Head), word(cq.Tail)
	k.sqes = unsafe.Slice((*submission)(unsafe.Pointer(&k.entries[0])), params.SQEntries)
	k.cqes = unsafe.Slice((*completion)(unsafe.Pointer(&k.rings[cq.Cqes])), params.CQEntries)
	// Entries are always used in their order, so the array that could reorder them
	// is filled once.
	for i, array := uint32(0), unsafe.Slice(word(sq.Array), params.SQEntries); i < params.SQEntries; i++ {
		array[i] = i
	}
	k.sqTail = atomic.LoadUint32(k.sqTailShared)
	return nil
}

// prepare returns the next submission entry, cleared.
func (k *kernel) prepare() *submission {
	core.Assert(k.prepared() < len(k.sqes), "the submission queue has room for every pending operation")
	entry := &k.sqes[k.sqTail&uint32(len(k.sqes)-1)]
	entry.Reset()
	k.sqTail++
	return entry
}

// prepared is how many entries are prepared and not submitted.
func (k *kernel) prepared() int { return int(k.sqTail - atomic.LoadUint32(k.sqHead)) }

// enter submits what is prepared and, when wait is set, waits until a completion is
// there or the timeout passed (nanoseconds, negative without limit). It also lets
// deferred completions appear.
func (k *kernel) enter(wait bool, timeout int64) syscall.Errno {
	atomic.StoreUint32(k.sqTailShared, k.sqTail)
	flags, least := uintptr(enterGetEvents), uintptr(0)
	var arg unsafe.Pointer
	var argBytes uintptr
	if wait {
		least = 1
		if timeout >= 0 {
			flags |= enterExtArg
			k.timeout = kernelTimespec{timeout / 1e9, timeout % 1e9}
			k.arg = getEventsArg{timeout: uint64(uintptr(unsafe.Pointer(&k.timeout)))}
			arg, argBytes = unsafe.Pointer(&k.arg), unsafe.Sizeof(k.arg)
		}
	}
	// Not a raw system call even without a wait: a submission may block in the file
	// system, and the scheduler must be able to hand this thread's work to others.
	_, _, errno := syscall.Syscall6(iouring.SYS_IO_URING_ENTER, uintptr(k.fd), uintptr(k.prepared()), least, flags,
		uintptr(arg), argBytes)
	return errno
}

// completionsWait says that an enter would make completions appear.
func (k *kernel) completionsWait() bool {
	return atomic.LoadUint32(k.sqFlags)&(sqTaskrun|sqCompletionOverflow) != 0
}

// completed returns the oldest completion, or false when there is none.
func (k *kernel) completed() (user uint64, result int32, ok bool) {
	head := *k.cqHead // only this thread moves it
	if head == atomic.LoadUint32(k.cqTail) {
		return 0, 0, false
	}
	entry := &k.cqes[head&uint32(len(k.cqes)-1)]
	user, result = entry.UserData(), entry.Result()
	atomic.StoreUint32(k.cqHead, head+1)
	return user, result, true
}

func (k *kernel) completionsEmpty() bool { return *k.cqHead == atomic.LoadUint32(k.cqTail) }

func (k *kernel) close() error {
	var errs []error
	for _, mapping := range [][]byte{k.rings, k.entries} {
		if mapping != nil {
			errs = append(errs, unix.Munmap(mapping))
		}
	}
	return errors.Join(append(errs, unix.Close(k.fd))...)
}
