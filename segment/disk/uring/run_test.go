//go:build linux

package uring

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	iouring "github.com/iceber/iouring-go/syscall"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

type owner struct{}

func (owner) Complete(*core.DiskOp) {}

func aligned(value byte, length int) []byte {
	raw := make([]byte, length+core.DiskAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % core.DiskAlignment
	buf := raw[skip : int(skip)+length : int(skip)+length]
	copy(buf, bytes.Repeat([]byte{value}, length))
	return buf
}

// bench is a driver with one open file.
type bench struct {
	testing.TB
	*Driver
	folder *posix.Folder
	file   core.FileID
}

func newBench(t testing.TB) *bench {
	if err := Probe(); err != nil {
		t.Skipf("this kernel refuses it: %v", err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	waker, err := ring.NewWaker()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := posix.OpenFolder(t.TempDir(), posix.FolderOptions{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(folder, waker, Options{OpsMax: 16, FilesMax: 4, NameWorkers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.Pending() == 0 {
			_ = d.Close()
		}
		_ = folder.Close()
		_ = waker.Close()
	})
	b := &bench{TB: t, Driver: d, folder: folder}
	op := &core.DiskOp{Kind: core.DiskCreate, Path: "a"}
	b.submit(op)
	b.reap(1)
	if op.Err != nil {
		t.Fatal(op.Err)
	}
	b.file = op.File
	return b
}

func (b *bench) submit(ops ...*core.DiskOp) {
	b.Helper()
	for i, op := range ops {
		op.Owner = owner{}
		if i > 0 {
			ops[i-1].Next = op
		}
	}
	if !b.Submit(ops[0]) {
		b.Fatal("no room")
	}
}

// reap waits for count operations.
func (b *bench) reap(count int) {
	b.Helper()
	out := make([]*core.DiskOp, 16)
	for count > 0 {
		if err := b.Flush(); err != nil {
			b.Fatal(err)
		}
		n := b.Reap(out)
		if count -= n; n == 0 {
			b.waker.Announce()
			if err := b.Park(5e9); err != nil {
				b.Fatal(err)
			}
			b.waker.Retract()
		}
	}
}

func (b *bench) write(offset int64, value byte) *core.DiskOp {
	return &core.DiskOp{Kind: core.DiskWrite, File: b.file, Offset: offset, Buf: aligned(value, core.DiskAlignment)}
}

// withhold takes the prepared entries away from the kernel and returns the slots
// they were for, so that a test can answer in the kernel's place.
func (b *bench) withhold() []int32 {
	k := b.kernel
	var slots []int32
	for at := k.sqTail - uint32(k.prepared()); at != k.sqTail; at++ {
		slots = append(slots, int32(userOf(&k.sqes[at&uint32(len(k.sqes)-1)])))
	}
	k.sqTail -= uint32(len(slots))
	return slots
}

func (b *bench) answer(slot int32, result int32) {
	b.native--
	b.complete(slot, result)
}

const canceled = -int32(syscall.ECANCELED)

// EAGAIN and EINTR are not seen outside: the run goes on from where it stopped,
// also when the kernel canceled what was linked behind it.
func TestInterruptedOperationsStartAgain(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.EINTR} {
		b := newBench(t)
		first, second, third := b.write(0, 1), b.write(2*4096, 2), &core.DiskOp{Kind: core.DiskSync, File: b.file}
		b.submit(first, second, third)
		slots := b.withhold()
		if len(slots) != 3 {
			t.Fatalf("%d entries", len(slots))
		}
		b.answer(slots[0], 4096)
		b.answer(slots[1], -int32(errno))
		b.answer(slots[2], canceled)
		if got := b.kernel.prepared(); got != 2 {
			t.Fatalf("%v: %d entries are prepared again, want the write and the sync", errno, got)
		}
		b.reap(3)
		for i, op := range []*core.DiskOp{first, second, third} {
			if op.Err != nil {
				t.Errorf("%v: operation %d: %v", errno, i, op.Err)
			}
		}
		if second.N != 4096 {
			t.Errorf("%v: wrote %d", errno, second.N)
		}
	}
}

// An error that does not go away is believed in the end.
func TestInterruptionForEver(t *testing.T) {
	b := newBench(t)
	op := b.write(0, 1)
	b.submit(op)
	for range triesMax {
		slots := b.withhold()
		if len(slots) != 1 {
			t.Fatalf("%d entries", len(slots))
		}
		b.answer(slots[0], -int32(syscall.EAGAIN))
	}
	if b.Reap(make([]*core.DiskOp, 1)) != 1 || !errors.Is(op.Err, syscall.EAGAIN) {
		t.Fatalf("error = %v", op.Err)
	}
}

// A write that was stored in part goes on behind its whole pages, and the chain
// behind it is none the worse.
func TestShortWriteIsWrittenOn(t *testing.T) {
	b := newBench(t)
	first, second := b.write(0, 1), b.write(4*4096, 4)
	first.Buf = aligned(0, 3*4096)
	for page := range 3 {
		first.Buf[page*4096] = byte(page + 1)
	}
	b.submit(first, second)
	slots := b.withhold()
	b.answer(slots[0], 4096+512) // the second page has to be written again
	b.answer(slots[1], canceled)
	b.reap(2)
	if first.Err != nil || first.N != 3*4096 || second.Err != nil {
		t.Fatalf("%v (%d bytes), %v", first.Err, first.N, second.Err)
	}
	read := &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, 5*4096)}
	b.submit(read)
	b.reap(1)
	for page, want := range []byte{1: 2, 2: 3, 4: 4} { // the first was only said to be stored
		if want != 0 && read.Buf[page*4096] != want {
			t.Errorf("page %d holds %d", page, read.Buf[page*4096])
		}
	}
}

// A disk that stores nothing and says no error is believed in the end.
func TestWriteThatStoresNothingFailsTheChain(t *testing.T) {
	b := newBench(t)
	first, second, third := b.write(0, 1), b.write(2*4096, 2), &core.DiskOp{Kind: core.DiskSyncDir, Path: "."}
	b.submit(first, second, third)
	for range triesMax {
		slots := b.withhold()
		if len(slots) != 2 {
			t.Fatalf("%d entries", len(slots))
		}
		b.answer(slots[0], 512)
		b.answer(slots[1], canceled)
	}
	if b.Reap(make([]*core.DiskOp, 3)) != 3 {
		t.Fatal("the chain is not over")
	}
	if first.Err != core.ErrDiskShort || first.N != 512 || second.Err != core.ErrDiskCanceled || third.Err != core.ErrDiskCanceled {
		t.Errorf("%v (%d bytes), %v, %v", first.Err, first.N, second.Err, third.Err)
	}
}

// A read that returned less than the file holds is read on.
func TestShortReadIsReadOn(t *testing.T) {
	b := newBench(t)
	for i := range int64(3) {
		b.submit(b.write(i*4096, byte(i+1)))
		b.reap(1)
	}
	op := &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, 4*4096)}
	b.submit(op)
	slots := b.withhold()
	copy(op.Buf, aligned(1, 4096))
	b.answer(slots[0], 4096)
	b.reap(1)
	if op.Err != nil || op.N != 3*4096 || op.Buf[4096] != 2 || op.Buf[2*4096] != 3 {
		t.Errorf("%d bytes, %v", op.N, op.Err)
	}
}

// When the kernel takes only a part of a run, the rest must not start before its
// predecessors have ended, nor at all when they fail.
func TestRunSubmittedInParts(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for parts := 1; parts <= 3; parts++ {
			b := newBench(t)
			first, second, third := b.write(0, 1), b.write(2*4096, 2), b.write(4*4096, 3)
			if fails {
				first.Offset = 1<<63 - 8192 // no file reaches this far
			}
			sync := &core.DiskOp{Kind: core.DiskSync, File: b.file}
			other := b.write(20*4096, 9)
			b.submit(first, second, third, sync)
			b.submit(other)
			// As the kernel does it when it has no memory for the next request.
			k := b.kernel
			*k.sqTailShared = k.sqTail
			n, _, errno := syscall.Syscall6(iouring.SYS_IO_URING_ENTER, uintptr(k.fd), uintptr(parts), 0, 0, 0, 0)
			if errno != 0 || int(n) != parts {
				t.Fatalf("enter: %d, %v", n, errno)
			}
			b.mend()
			split := 0
			for i := range b.slots {
				if b.slots[i].split {
					split++
				}
			}
			if split != 4-parts {
				t.Fatalf("%d parts: %d operations are held back, want %d", parts, split, 4-parts)
			}
			b.reap(5)
			if other.Err != nil {
				t.Errorf("another chain: %v", other.Err)
			}
			read := &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, 5*4096)}
			b.submit(read)
			b.reap(1)
			want := []byte{1, 0, 2, 0, 3}
			if fails {
				want = make([]byte, 5)
				if first.Err == nil || second.Err != core.ErrDiskCanceled || third.Err != core.ErrDiskCanceled || sync.Err != core.ErrDiskCanceled {
					t.Errorf("%d parts: %v, %v, %v, %v", parts, first.Err, second.Err, third.Err, sync.Err)
				}
			} else if first.Err != nil || second.Err != nil || third.Err != nil || sync.Err != nil {
				t.Errorf("%d parts: %v, %v, %v, %v", parts, first.Err, second.Err, third.Err, sync.Err)
			}
			for i, value := range want {
				if read.Buf[i*4096] != value {
					t.Errorf("fails %v, %d parts: page %d holds %d, want %d", fails, parts, i, read.Buf[i*4096], value)
				}
			}
		}
	}
}

// Steady writes, syncs and reads allocate nothing.
func TestDriverAllocatesNothing(t *testing.T) {
	b := newBench(t)
	write, sync := b.write(0, 1), &core.DiskOp{Kind: core.DiskSync, File: b.file, Owner: owner{}}
	read := &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, 4096), Owner: owner{}}
	write.Owner, write.Next, sync.Next = owner{}, sync, read
	out := make([]*core.DiskOp, 4)
	if n := testing.AllocsPerRun(50, func() {
		if !b.Submit(write) {
			panic("no room")
		}
		for b.Pending() > 0 {
			_ = b.Flush()
			if b.Reap(out) == 0 {
				b.waker.Announce()
				_ = b.Park(1e9)
				b.waker.Retract()
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations per chain", n)
	}
	if write.Err != nil || sync.Err != nil || read.Err != nil {
		t.Errorf("%v, %v, %v", write.Err, sync.Err, read.Err)
	}
}

// More completions than the queue holds are kept by the kernel and not lost.
func TestCompletionQueueOverflow(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skipf("this kernel refuses it: %v", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k, err := newKernel(4, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	const count = 40
	for user := uint64(0); user < count; user++ {
		entry := k.prepare()
		entry.PrepOperation(iouring.IORING_OP_NOP, -1, 0, 0, 0)
		entry.SetUserData(user)
		if errno := k.enter(false, 0); errno != 0 && errno != syscall.EBUSY {
			t.Fatal(errno)
		}
	}
	for want := uint64(0); want < count; {
		user, result, ok := k.completed()
		if !ok {
			if !k.completionsWait() && k.prepared() == 0 {
				t.Fatalf("%d of %d completions came", want, count)
			}
			if errno := k.enter(false, 0); errno != 0 && errno != syscall.EBUSY {
				t.Fatal(errno)
			}
			continue
		}
		if user != want || result != 0 {
			t.Fatalf("completion %d is of %d: %d", want, user, result)
		}
		want++
	}
}

// A ring that no longer works is an error of Flush and Park, also when Reap was the
// first to see it; the loop must not wait for completions that never come.
func TestBrokenRingIsReported(t *testing.T) {
	b := newBench(t)
	b.submit(b.write(0, 1))
	fd := b.kernel.fd
	b.kernel.fd = -1
	if b.Reap(make([]*core.DiskOp, 1)) != 0 {
		t.Error("an operation ended")
	}
	b.kernel.fd = fd
	if err := b.Flush(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Flush: %v", err)
	}
	if err := b.Park(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Park: %v", err)
	}
	b.broken = nil
	b.reap(1)
}

func TestRefusalSaysWho(t *testing.T) {
	for _, c := range []struct {
		err      error
		disabled string
		want     string
	}{
		{syscall.ENOSYS, "", "does not have it"},
		{syscall.EPERM, "2", "kernel.io_uring_disabled=2"},
		{syscall.EPERM, "0", "seccomp"},
		{syscall.EPERM, "", "seccomp"},
		{syscall.ENOMEM, "0", "memory"},
		{syscall.EMFILE, "0", "descriptor"},
	} {
		err := refusal(c.err, c.disabled)
		if !errors.Is(err, c.err) || !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
			t.Errorf("%v with io_uring_disabled=%q: %v", c.err, c.disabled, err)
		}
	}
}

// A chain is asked for as it stands: writes and an fdatasync, tied by soft links,
// so that a write that fails stops the sync behind it. A hard link would let the
// sync succeed, and what was not written would be acked.
func TestChainAsTheKernelSeesIt(t *testing.T) {
	b := newBench(t)
	b.submit(b.write(0, 1), b.write(2*4096, 2), b.write(3*4096, 3), &core.DiskOp{Kind: core.DiskSync, File: b.file})
	k := b.kernel
	type entry struct {
		opcode, flags uint8
		opFlags       uint32
	}
	var got []entry
	for at := k.sqTail - uint32(k.prepared()); at != k.sqTail; at++ {
		raw := (*[64]byte)(unsafe.Pointer(&k.sqes[at&uint32(len(k.sqes)-1)]))
		got = append(got, entry{raw[0], raw[1], *(*uint32)(unsafe.Pointer(&raw[28]))})
	}
	want := []entry{
		{uint8(iouring.IORING_OP_WRITE), iouring.IOSQE_FLAGS_IO_LINK, 0},
		{uint8(iouring.IORING_OP_WRITEV), iouring.IOSQE_FLAGS_IO_LINK, 0},
		{uint8(iouring.IORING_OP_FSYNC), 0, iouring.IORING_FSYNC_DATASYNC},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the kernel is asked for %+v, want %+v", got, want)
	}
	b.reap(4)
}
