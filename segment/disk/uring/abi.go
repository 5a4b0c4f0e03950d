//go:build linux

package uring

// Constants and layouts of the kernel's io_uring interface that iouring-go's
// syscall package lacks, from include/uapi/linux/io_uring.h.

const (
	setupSingleIssuer = 1 << 12 // IORING_SETUP_SINGLE_ISSUER, Linux 6.0
	setupDeferTaskrun = 1 << 13 // IORING_SETUP_DEFER_TASKRUN, Linux 6.1

	featureNoDrop = 1 << 1 // IORING_FEAT_NODROP, Linux 5.5: a full completion queue loses nothing
	featureExtArg = 1 << 8 // IORING_FEAT_EXT_ARG, Linux 5.11: enter takes a timeout

	enterGetEvents = 1 << 0 // IORING_ENTER_GETEVENTS
	enterExtArg    = 1 << 3 // IORING_ENTER_EXT_ARG

	sqCompletionOverflow = 1 << 1 // IORING_SQ_CQ_OVERFLOW
	sqTaskrun            = 1 << 2 // IORING_SQ_TASKRUN
)

// getEventsArg is struct io_uring_getevents_arg.
type getEventsArg struct {
	sigmask     uint64
	sigmaskSize uint32
	_           uint32
	timeout     uint64 // address of a kernelTimespec
}

// kernelTimespec is struct __kernel_timespec, the same on every architecture.
type kernelTimespec struct{ seconds, nanoseconds int64 }
