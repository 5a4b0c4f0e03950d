// Package posix keeps a data folder with plain system calls. It is the blocking
// view of a folder (FS), and a core.DiskDriver on a few worker threads (Driver)
// that serves where io_uring does not exist or is refused.
//
//	shard thread                      workers
//	Submit(chain) ──> queue ────────> one worker runs the chain in its order,
//	                                  other chains run beside it
//	Reap <────────── done <────────── each ended operation, then Waker.Kick
//	Park = poll(Waker.FD)
//
// A Folder is opened once per process and shared by its FS and by the drivers of
// all shards. It holds the lock that keeps a second broker out, and resolves every
// path below itself: neither ".." nor a symbolic link leads out of it. On Linux the
// kernel sees to that with openat2, elsewhere os.Root does.
package posix
