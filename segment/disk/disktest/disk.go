package disktest

import (
	"testing"
	"time"
	"unsafe"

	"github.com/pulsemq/pulsemq/core"
)

// OpsMax and FilesMax are the bounds that a Disk under test is opened with.
const (
	OpsMax   = 32
	FilesMax = 8
)

// Disk is a disk under test: a driver and the blocking view of the same folder.
// It is opened on the thread that uses it.
type Disk struct {
	Driver core.DiskDriver
	FS     core.FS
	Waker  core.Waker // the driver's
}

// Run runs the suite. Open opens a fresh disk on an empty folder with OpsMax and
// FilesMax; it registers its own clean-up.
func Run(t *testing.T, open func(testing.TB) Disk) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"round trip", testRoundTrip},
		{"read past the end", testReadPastEnd},
		{"chain is in order", testChainOrder},
		{"chain stops at a failure", testChainStops},
		{"chain stops at a failed write", testChainStopsAtWrite},
		{"short read does not stop a chain", testShortReadInChain},
		{"concurrent chains", testConcurrentChains},
		{"longest chain", testLongestChain},
		{"submit refuses when full", testSubmitFull},
		{"results are fresh", testResultsAreFresh},
		{"contract", testContract},
		{"names", testNames},
		{"paths", testPaths},
		{"rename", testRename},
		{"unlinked file stays open", testUnlinked},
		{"allocate", testAllocate},
		{"truncate", testTruncate},
		{"open files are bounded", testFilesMax},
		{"waker ends a park", testWaker},
		{"park ends by itself", testParkTimeout},
		{"park ends with an operation", testParkCompletion},
		{"blocking view", testBlockingView},
		{"both views are one folder", testViewsAgree},
		{"model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open)) })
	}
}

// fixture is a test with its disk. It is the owner of every operation.
type fixture struct {
	*testing.T
	Disk
	ended []*core.DiskOp
	out   [5]*core.DiskOp // smaller than what may be ready, to see it come in parts
}

func newFixture(t *testing.T, open func(testing.TB) Disk) *fixture {
	return &fixture{T: t, Disk: open(t)}
}

// Complete gathers the operations in the order in which they ended.
func (f *fixture) Complete(op *core.DiskOp) { f.ended = append(f.ended, op) }

// chain links operations and makes the fixture their owner.
func (f *fixture) chain(ops ...*core.DiskOp) *core.DiskOp {
	for i, op := range ops {
		op.Owner = f
		op.Next = nil
		if i > 0 {
			ops[i-1].Next = op
		}
	}
	return ops[0]
}

// submit hands a chain over and fails the test when there is no room.
func (f *fixture) submit(ops ...*core.DiskOp) {
	f.Helper()
	if !f.Driver.Submit(f.chain(ops...)) {
		f.Fatalf("no room for %d operations with %d pending", len(ops), f.Driver.Pending())
	}
}

// turn is one turn of a shard's loop.
func (f *fixture) turn() {
	f.Helper()
	if err := f.Driver.Flush(); err != nil {
		f.Fatalf("Flush: %v", err)
	}
	n := f.Driver.Reap(f.out[:])
	for _, op := range f.out[:n] {
		op.Owner.Complete(op)
	}
	if n > 0 || f.Driver.Pending() == 0 {
		return
	}
	f.Waker.Announce()
	if err := f.Driver.Park(int64(10 * time.Second)); err != nil {
		f.Fatalf("Park: %v", err)
	}
	f.Waker.Retract()
}

// drain turns until nothing is pending.
func (f *fixture) drain() {
	f.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for f.Driver.Pending() > 0 {
		f.turn()
		if time.Now().After(deadline) {
			f.Fatalf("%d operations never ended", f.Driver.Pending())
		}
	}
}

// do runs a chain to its end; the results are in the operations.
func (f *fixture) do(ops ...*core.DiskOp) {
	f.Helper()
	f.submit(ops...)
	f.drain()
}

// must runs one operation that succeeds.
func (f *fixture) must(op *core.DiskOp) *core.DiskOp {
	f.Helper()
	if f.do(op); op.Err != nil {
		f.Fatalf("%s %q: %v", op.Kind, op.Path, op.Err)
	}
	return op
}

func (f *fixture) create(path string) core.FileID {
	f.Helper()
	return f.must(&core.DiskOp{Kind: core.DiskCreate, Path: path}).File
}

func (f *fixture) close(file core.FileID) {
	f.Helper()
	f.must(&core.DiskOp{Kind: core.DiskClose, File: file})
}

// read returns what is in [offset, offset+length) of a file.
func (f *fixture) read(file core.FileID, offset int64, length int) []byte {
	f.Helper()
	op := f.must(&core.DiskOp{Kind: core.DiskRead, File: file, Offset: offset, Buf: Buffer(length)})
	return op.Buf[:op.N]
}

// Buffer returns length aligned bytes.
func Buffer(length int) []byte {
	raw := make([]byte, length+core.DiskAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % core.DiskAlignment
	return raw[skip : int(skip)+length : int(skip)+length]
}

// filled returns length aligned bytes of one value.
func filled(length int, value byte) []byte {
	buf := Buffer(length)
	for i := range buf {
		buf[i] = value
	}
	return buf
}

// The operations in short.

func write(file core.FileID, offset int64, buf []byte) *core.DiskOp {
	return &core.DiskOp{Kind: core.DiskWrite, File: file, Offset: offset, Buf: buf}
}

func read(file core.FileID, offset int64, length int) *core.DiskOp {
	return &core.DiskOp{Kind: core.DiskRead, File: file, Offset: offset, Buf: Buffer(length)}
}

func sync(file core.FileID) *core.DiskOp { return &core.DiskOp{Kind: core.DiskSync, File: file} }

func named(kind core.DiskOpKind, path string) *core.DiskOp {
	return &core.DiskOp{Kind: kind, Path: path}
}
