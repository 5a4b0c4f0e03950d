//go:build linux

package uring

import (
	"syscall"
	"testing"
	"unsafe"

	iouring "github.com/iceber/iouring-go/syscall"

	"github.com/pulsemq/pulsemq/core"
)

// asked are the entries that are prepared: what of, and how many writes each is for.
func (b *bench) asked() (opcodes []uint8, writes []int) {
	k := b.kernel
	for at := k.sqTail - uint32(k.prepared()); at != k.sqTail; at++ {
		entry := &k.sqes[at&uint32(len(k.sqes)-1)]
		opcodes = append(opcodes, (*entryHead)(unsafe.Pointer(entry)).opcode)
		writes = append(writes, int(b.slots[userOf(entry)].joined)+1)
	}
	return opcodes, writes
}

// content reads pages of the file from its beginning and gives the first byte of each.
func (b *bench) content(pages int) []byte {
	read := &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, pages*core.DiskAlignment)}
	b.submit(read)
	b.reap(1)
	if read.Err != nil {
		b.Fatal(read.Err)
	}
	first := make([]byte, pages)
	for i := range first {
		first[i] = read.Buf[i*core.DiskAlignment]
	}
	return first
}

// Writes that adjoin are one entry, whose bytes lie where those of each would.
func TestAdjoiningWritesAreOne(t *testing.T) {
	b := newBench(t)
	ops := []*core.DiskOp{b.write(0, 1), b.write(4096, 2), b.write(8192, 3), {Kind: core.DiskSync, File: b.file}}
	b.submit(ops...)
	if opcodes, writes := b.asked(); len(opcodes) != 2 || opcodes[0] != uint8(iouring.IORING_OP_WRITEV) || writes[0] != 3 {
		t.Errorf("asked for %v of %v writes", opcodes, writes)
	}
	b.reap(4)
	for i, op := range ops {
		if op.Err != nil || op.N != len(op.Buf) {
			t.Errorf("operation %d: %d bytes, %v", i, op.N, op.Err)
		}
	}
	if got := b.content(3); string(got) != "\x01\x02\x03" {
		t.Errorf("the file holds %v", got)
	}
}

// What does not go on where the one before ended, in its file, is an entry of its own; so is what
// is too much for one.
func TestWritesThatDoNotJoin(t *testing.T) {
	large := func(b *bench, offset int64, bytes int) *core.DiskOp {
		op := b.write(offset, 1)
		op.Buf = aligned(1, bytes)
		return op
	}
	for name, c := range map[string]struct {
		ops  func(b *bench) []*core.DiskOp
		want []int
	}{
		"a gap":     {func(b *bench) []*core.DiskOp { return []*core.DiskOp{b.write(0, 1), b.write(8192, 2)} }, []int{1, 1}},
		"backwards": {func(b *bench) []*core.DiskOp { return []*core.DiskOp{b.write(4096, 1), b.write(0, 2)} }, []int{1, 1}},
		"a sync": {func(b *bench) []*core.DiskOp {
			return []*core.DiskOp{b.write(0, 1), {Kind: core.DiskSync, File: b.file}, b.write(4096, 2)}
		}, []int{1, 1, 1}},
		"many bytes": {func(b *bench) []*core.DiskOp {
			return []*core.DiskOp{large(b, 0, vectorBytesMax-4096), large(b, vectorBytesMax-4096, 8192)}
		}, []int{1, 1}},
		"a large one": {func(b *bench) []*core.DiskOp {
			return []*core.DiskOp{large(b, 0, vectorBytesMax+4096), b.write(vectorBytesMax+4096, 2)}
		}, []int{1, 1}},
		"many": {func(b *bench) (ops []*core.DiskOp) {
			for i := range int64(vectorMax + 2) {
				ops = append(ops, b.write(i*4096, byte(i+1)))
			}
			return ops
		}, []int{vectorMax, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			ops := c.ops(b)
			b.submit(ops...)
			_, writes := b.asked()
			if len(writes) != len(c.want) {
				t.Errorf("entries for %v writes, want %v", writes, c.want)
			}
			for i := range min(len(writes), len(c.want)) {
				if writes[i] != c.want[i] {
					t.Errorf("entries for %v writes, want %v", writes, c.want)
				}
			}
			b.reap(len(ops))
			for i, op := range ops {
				if op.Err != nil || op.N != len(op.Buf) {
					t.Errorf("operation %d: %d bytes, %v", i, op.N, op.Err)
				}
			}
		})
	}
}

// Two files are never one write, also where their offsets would fit.
func TestWritesOfTwoFilesDoNotJoin(t *testing.T) {
	b := newBench(t)
	create := &core.DiskOp{Kind: core.DiskCreate, Path: "other"}
	b.submit(create)
	b.reap(1)
	other := b.write(4096, 2)
	other.File = create.File
	b.submit(b.write(0, 1), other, b.write(4096, 3))
	if _, writes := b.asked(); len(writes) != 3 {
		t.Errorf("entries for %v writes", writes)
	}
	b.reap(3)
	if got := b.content(2); string(got) != "\x01\x03" {
		t.Errorf("the file holds %v", got)
	}
}

// A vectored write that was stored in part goes on in the middle of it: what was stored in whole is
// not written again, and nothing behind it is left out.
func TestShortVectorIsWrittenOn(t *testing.T) {
	for stored, again := range map[int32]int{0: 3, 512: 3, 4096: 2, 4096 + 512: 2, 2 * 4096: 1} {
		b := newBench(t)
		ops := []*core.DiskOp{b.write(0, 1), b.write(4096, 2), b.write(8192, 3), {Kind: core.DiskSync, File: b.file}}
		b.submit(ops...)
		slots := b.withhold()
		b.answer(slots[0], stored)
		b.answer(slots[1], canceled)
		if _, writes := b.asked(); len(writes) != 2 || writes[0] != again {
			t.Errorf("%d bytes stored: entries for %v writes, want %d and the sync", stored, writes, again)
		}
		b.reap(4)
		for i, op := range ops {
			if op.Err != nil || op.N != len(op.Buf) {
				t.Errorf("%d bytes stored: operation %d: %d bytes, %v", stored, i, op.N, op.Err)
			}
		}
		got, want := b.content(3), []byte{1, 2, 3}
		for i := 3 - again; i < 3; i++ { // those before were only said to be stored
			if got[i] != want[i] {
				t.Errorf("%d bytes stored: the file holds %v", stored, got)
			}
		}
	}
}

// A vectored write that failed has stored nothing that can be relied on.
func TestFailedVectorFailsItsChain(t *testing.T) {
	b := newBench(t)
	ops := []*core.DiskOp{b.write(0, 1), b.write(4096, 2), {Kind: core.DiskSync, File: b.file}}
	b.submit(ops...)
	slots := b.withhold()
	b.answer(slots[0], -int32(syscall.EIO))
	b.answer(slots[1], canceled)
	b.reap(3)
	if ops[0].Err == nil || ops[1].Err != core.ErrDiskCanceled || ops[2].Err != core.ErrDiskCanceled {
		t.Errorf("%v, %v, %v", ops[0].Err, ops[1].Err, ops[2].Err)
	}
}

// A vectored write that the kernel has not taken starts again whole, behind what it waits for.
func TestVectorHeldBack(t *testing.T) {
	b := newBench(t)
	first, second, third := b.write(8192, 3), b.write(0, 1), b.write(4096, 2)
	b.submit(first, second, third)
	k := b.kernel
	*k.sqTailShared = k.sqTail
	if n, _, errno := syscall.Syscall6(iouring.SYS_IO_URING_ENTER, uintptr(k.fd), 1, 0, 0, 0, 0); errno != 0 || n != 1 {
		t.Fatalf("enter: %d, %v", n, errno)
	}
	b.mend()
	b.reap(3)
	if first.Err != nil || second.Err != nil || third.Err != nil || third.N != 4096 {
		t.Errorf("%v, %v, %v", first.Err, second.Err, third.Err)
	}
	if got := b.content(3); string(got) != "\x01\x02\x03" {
		t.Errorf("the file holds %v", got)
	}
}
