// Package uring is the disk of a shard on io_uring: one ring, used by one pinned
// thread, with no goroutine and no allocation between the shard and the device.
//
//	Submit ──> slots ──> submission queue ──enter──> kernel
//	Reap  <── ended  <── completion queue <─────────────┘
//	                 <── names: opens, renames, folder syncs, from two workers
//	Park = one enter that submits, waits for a completion, the waker or the timeout
//
// # Chains
//
// The kernel can hold a chain back by links (IOSQE_IO_LINK), but its rules are not
// the port's: a link breaks on a short read, which the port calls a success; some
// operations do not exist in it, or only in new kernels. So a chain is cut into
// runs, and a run starts when the one before it has succeeded:
//
//	write ─link─ write ─link─ sync | read | rename | sync folder | write ─link─ sync
//	└──────── one run ───────────┘   alone   names    names        └── one run ──┘
//
// Hard links are never used: they go on after a failure. The kernel
// also breaks them at a short write; the run starts again where that ended.
// Writes of a run that adjoin in their file are one vectored write.
//
// # Names
//
// Opening, closing, allocating, renaming, removing and syncing folders run on two
// worker threads with plain system calls and come back through the waker's eventfd.
// The kernel has most of them as io_uring operations, and was not chosen: it hands
// each of them to its own worker threads anyway, so nothing is won; truncation is
// missing before Linux 6.9; a folder sync is three operations whose descriptor
// cannot be passed along a link; and the path rules stay in one place (posix.Folder).
// They are rare: a segment makes a handful in its life.
//
// # Threads
//
// New must be called on the thread that will use the driver, locked to it with
// runtime.LockOSThread: the ring is made with SINGLE_ISSUER and DEFER_TASKRUN where
// the kernel knows them, and then another thread's enter is refused. With
// DEFER_TASKRUN completions appear only inside an enter; TASKRUN_FLAG tells Reap
// when one is worth making, so that busy polling costs no system calls.
package uring
