package core

import "errors"

// DiskOpKind says what a DiskOp does.
type DiskOpKind uint8

const (
	// DiskOpen opens an existing file for reading and writing: Path -> File.
	DiskOpen DiskOpKind = iota + 1
	// DiskCreate makes a new file; it fails when Path exists: Path -> File.
	DiskCreate
	// DiskClose closes File.
	DiskClose
	// DiskRead fills Buf from File at Offset. Reading past the end is a short read: N < len(Buf), no error.
	DiskRead
	// DiskWrite writes Buf to File at Offset. What the system stores in part is written on;
	// ErrDiskShort is what no attempt could complete.
	DiskWrite
	// DiskSync makes File's written data durable (fdatasync).
	DiskSync
	// DiskAllocate reserves [Offset, Offset+Length) of File, which reads as zeros
	// afterwards whatever it held, and grows the file to its end when it is shorter.
	DiskAllocate
	// DiskTruncate sets File's size to Length.
	DiskTruncate
	// DiskRemove unlinks Path.
	DiskRemove
	// DiskRename moves Path to PathNew, replacing it.
	DiskRename
	// DiskSyncDir makes the entries of the folder Path durable.
	DiskSyncDir
	// DiskMakeDir makes the folder Path and its missing parents.
	DiskMakeDir
)

var diskOpNames = [...]string{
	DiskOpen: "open", DiskCreate: "create", DiskClose: "close", DiskRead: "read", DiskWrite: "write",
	DiskSync: "sync", DiskAllocate: "allocate", DiskTruncate: "truncate", DiskRemove: "remove",
	DiskRename: "rename", DiskSyncDir: "sync folder", DiskMakeDir: "make folder",
}

// String names the kind for errors and logs.
func (k DiskOpKind) String() string {
	if int(k) < len(diskOpNames) && diskOpNames[k] != "" {
		return diskOpNames[k]
	}
	return "unknown operation"
}

// FileID names an open file of one Disk. Zero is no file.
type FileID int32

// DiskAlignment is what buffers, offsets and lengths of reads and writes are
// multiples of, because files are opened with O_DIRECT.
const DiskAlignment = 4096

var (
	// ErrDiskShort reports a write that stored fewer bytes than it was given, however often it was tried.
	ErrDiskShort = errors.New("short write")
	// ErrDiskCanceled reports an operation that was not tried because one before it in its chain failed.
	ErrDiskCanceled = errors.New("canceled: an earlier operation of the chain failed")
	// ErrDiskFull reports that the file system has no space left (ENOSPC, EDQUOT).
	ErrDiskFull = errors.New("no space left on device")
	// ErrDiskFiles reports that no file can be opened because there are too many (EMFILE, ENFILE).
	ErrDiskFiles = errors.New("no file descriptors are left")
)

// DiskOp is one operation. Its owner embeds or reuses it, so that steady work
// allocates nothing. It belongs to the Disk from Submit until Complete.
type DiskOp struct {
	Kind    DiskOpKind
	File    FileID
	Path    string // relative to the data folder, '/' as separator
	PathNew string
	Buf     []byte // 4 KiB aligned for reads and writes
	Offset  int64
	Length  int64

	// Next is started only after this operation has succeeded in full; when this
	// one fails, everything after it in the chain gets ErrDiskCanceled.
	Next *DiskOp

	// Owner is told when the operation has ended, also when it failed.
	Owner DiskOwner

	N   int   // bytes read or written
	Err error // nil, or one of the errors above, or an operating error (wraps syscall.Errno)
}

// DiskOwner reacts to its operations' ends on the shard that submitted them.
type DiskOwner interface {
	Complete(op *DiskOp)
}

// Disk is a shard's port to its files. It never blocks and never calls back:
// ended operations come back through the loop that drives the shard.
type Disk interface {
	// Submit takes op and the whole chain behind it, or returns false when there
	// is no room; then nothing was taken and the caller tries again at its next turn.
	Submit(op *DiskOp) bool
}

// DiskDriver is the loop's side of a Disk. All calls come from the shard's thread.
type DiskDriver interface {
	Disk
	// Flush hands what was submitted to the kernel without waiting.
	Flush() error
	// Reap stores ended operations in out and returns how many. The caller then
	// calls Owner.Complete for each.
	Reap(out []*DiskOp) int
	// Pending is the number of operations submitted and not yet reaped.
	Pending() int
	// Park waits until an operation ended, the driver's Waker was kicked, or the
	// timeout passed (nanoseconds; negative waits without limit). It flushes first
	// and may return early. The caller has announced its sleep on the Waker and
	// looked at its queues again, and retracts the announcement afterwards.
	Park(timeout int64) error
	// Close releases the driver; nothing may be pending.
	Close() error
}
