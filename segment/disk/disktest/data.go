package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

const page = core.DiskAlignment

func testRoundTrip(f *fixture) {
	file := f.create("a")
	data := filled(3*page, 7)
	data[0], data[len(data)-1] = 1, 2
	f.do(write(file, page, data), sync(file))
	for _, op := range f.ended[len(f.ended)-2:] {
		if op.Err != nil {
			f.Fatalf("%s: %v", op.Kind, op.Err)
		}
	}
	if n := f.ended[len(f.ended)-2].N; n != len(data) {
		f.Errorf("write: N = %d, want %d", n, len(data))
	}
	want := append(make([]byte, page), data...)
	if got := f.read(file, 0, len(want)); !bytes.Equal(got, want) {
		f.Error("what was read is not what was written")
	}
	f.close(file)
	file = f.must(named(core.DiskOpen, "a")).File
	if got := f.read(file, page, len(data)); !bytes.Equal(got, data) {
		f.Error("after an open: what was read is not what was written")
	}
	f.close(file)
}

func testReadPastEnd(f *fixture) {
	file := f.create("a")
	if got := f.read(file, 0, page); len(got) != 0 {
		f.Errorf("read of an empty file: %d bytes", len(got))
	}
	f.must(write(file, 0, filled(2*page, 3)))
	if got := f.read(file, page, 4*page); !bytes.Equal(got, filled(page, 3)) {
		f.Errorf("read over the end: %d bytes", len(got))
	}
	if got := f.read(file, 64*page, page); len(got) != 0 {
		f.Errorf("read beyond the end: %d bytes", len(got))
	}
	f.must(&core.DiskOp{Kind: core.DiskTruncate, File: file, Length: page + 100})
	if got := f.read(file, 0, 4*page); !bytes.Equal(got, filled(page+100, 3)) {
		f.Errorf("read of a file with an odd size: %d bytes", len(got))
	}
}

// Operations of a chain see what the ones before them did, and end in their order.
func testChainOrder(f *fixture) {
	file := f.create("a")
	f.ended = nil
	ops := []*core.DiskOp{
		write(file, 0, filled(page, 1)), read(file, 0, page), write(file, 0, filled(page, 2)), read(file, 0, page),
		sync(file), named(core.DiskRename, "a"), named(core.DiskSyncDir, "."), write(file, 0, filled(page, 3)), read(file, 0, page),
	}
	ops[5].PathNew = "b"
	f.do(ops...)
	for i, op := range ops {
		if op.Err != nil {
			f.Fatalf("operation %d, %s: %v", i, op.Kind, op.Err)
		}
		if f.ended[i] != op {
			f.Errorf("operation %d, %s, did not end in its place", i, op.Kind)
		}
	}
	for want, i := range map[byte]int{1: 1, 2: 3, 3: 8} {
		if ops[i].N != page || ops[i].Buf[0] != want {
			f.Errorf("read %d: %d bytes of %d, want %d", i, ops[i].N, ops[i].Buf[0], want)
		}
	}
}

// After a failure, wherever in the chain and of whatever kind, nothing more is done.
func testChainStops(f *fixture) {
	file := f.create("a")
	f.must(write(file, 0, filled(page, 1)))
	for at := range 4 {
		ops := []*core.DiskOp{write(file, page, filled(page, 9)), sync(file), read(file, 0, page), write(file, 2*page, filled(page, 9))}
		ops[at] = named(core.DiskOpen, "missing")
		ops = append(ops, write(file, 0, filled(page, 9)), named(core.DiskCreate, "never"), sync(file))
		f.ended = nil
		f.do(ops...)
		for i, op := range ops {
			switch {
			case f.ended[i] != op:
				f.Errorf("failure at %d: operation %d did not end in its place", at, i)
			case i < at && op.Err != nil:
				f.Errorf("failure at %d: operation %d: %v", at, i, op.Err)
			case i == at && !errors.Is(op.Err, fs.ErrNotExist):
				f.Errorf("failure at %d: %v, want that it does not exist", at, op.Err)
			case i > at && op.Err != core.ErrDiskCanceled:
				f.Errorf("failure at %d: operation %d: %v, want ErrDiskCanceled", at, i, op.Err)
			}
		}
	}
	if got := f.read(file, 0, page); got[0] != 1 {
		f.Error("a canceled write was done")
	}
	f.do(named(core.DiskOpen, "never"))
	if err := f.ended[len(f.ended)-1].Err; !errors.Is(err, fs.ErrNotExist) {
		f.Errorf("a canceled create was done: %v", err)
	}
}

// The same when the failure comes from the device's side of the chain: no later
// write and no sync of it may happen, however they were handed over.
func testChainStopsAtWrite(f *fixture) {
	const beyond = math.MaxInt64 - 2*page + 1 // no file reaches this far
	file := f.create("a")
	for at := range 4 {
		ops := []*core.DiskOp{write(file, 0, filled(page, 1)), write(file, page, filled(page, 1)), sync(file), write(file, 2*page, filled(page, 1))}
		ops[at] = write(file, beyond, filled(page, 9))
		ops = append(ops, write(file, 10*page, filled(page, 9)), sync(file), named(core.DiskCreate, "never"))
		f.ended = nil
		f.do(ops...)
		for i, op := range ops {
			switch {
			case f.ended[i] != op:
				f.Errorf("failure at %d: operation %d did not end in its place", at, i)
			case i < at && op.Err != nil:
				f.Errorf("failure at %d: operation %d: %v", at, i, op.Err)
			case i == at && (op.Err == nil || op.Err == core.ErrDiskCanceled):
				f.Errorf("failure at %d: %v, want an operating error", at, op.Err)
			case i > at && op.Err != core.ErrDiskCanceled:
				f.Errorf("failure at %d: operation %d: %v, want ErrDiskCanceled", at, i, op.Err)
			}
		}
		var number syscall.Errno
		if !errors.As(ops[at].Err, &number) {
			f.Errorf("%v wraps no error number", ops[at].Err)
		}
	}
	if got := f.read(file, 10*page, page); len(got) != 0 {
		f.Error("a canceled write was done")
	}
}

// Reading past the end is no failure, also in a chain, where io_uring would break
// the link.
func testShortReadInChain(f *fixture) {
	file := f.create("a")
	short, after := read(file, 0, page), write(file, 0, filled(page, 5))
	inside := read(file, 8*page, page)
	f.do(write(file, page, filled(page, 4)), inside, write(file, 2*page, filled(page, 6)), sync(file))
	f.must(&core.DiskOp{Kind: core.DiskTruncate, File: file})
	f.do(short, after, read(file, 0, 2*page), sync(file))
	if inside.N != 0 {
		f.Errorf("read %d beyond the end", inside.N)
	}
	for _, op := range f.ended[1:] {
		if op.Err != nil {
			f.Fatalf("%s: %v", op.Kind, op.Err)
		}
	}
	if short.N != 0 || after.N != page {
		f.Errorf("read %d, wrote %d", short.N, after.N)
	}
}

// Many chains at once on several files: each is in order, none disturbs another.
func testConcurrentChains(f *fixture) {
	files := []core.FileID{f.create("a"), f.create("b"), f.create("c")}
	const chains = 60
	f.ended = nil
	var submitted []*core.DiskOp
	for i := range chains {
		file, offset := files[i%len(files)], int64(i*4*page)
		ops := []*core.DiskOp{
			write(file, offset, filled(2*page, byte(i))), write(file, offset+2*page, filled(2*page, byte(i+100))),
			sync(file), read(file, offset, 4*page),
		}
		if i%10 == 9 {
			ops[1] = named(core.DiskOpen, "missing")
		}
		for !f.Driver.Submit(f.chain(ops...)) {
			f.turn()
		}
		submitted = append(submitted, ops[0])
	}
	f.drain()
	place := map[*core.DiskOp]int{}
	for i, op := range f.ended {
		place[op] = i
	}
	if len(place) != 4*chains || len(f.ended) != 4*chains {
		f.Fatalf("%d ends of %d operations, want %d", len(f.ended), len(place), 4*chains)
	}
	for i, first := range submitted {
		ops := []*core.DiskOp{first, first.Next, first.Next.Next, first.Next.Next.Next}
		for j := 1; j < len(ops); j++ {
			if place[ops[j]] < place[ops[j-1]] {
				f.Errorf("chain %d: operation %d ended before its predecessor", i, j)
			}
		}
		if i%10 == 9 {
			if ops[0].Err != nil || ops[1].Err == nil || ops[2].Err != core.ErrDiskCanceled || ops[3].Err != core.ErrDiskCanceled {
				f.Errorf("failing chain %d: %v, %v, %v, %v", i, ops[0].Err, ops[1].Err, ops[2].Err, ops[3].Err)
			}
			continue
		}
		want := append(filled(2*page, byte(i)), filled(2*page, byte(i+100))...)
		if ops[3].Err != nil || !bytes.Equal(ops[3].Buf[:ops[3].N], want) {
			f.Errorf("chain %d read %d bytes, %v", i, ops[3].N, ops[3].Err)
		}
	}
}

func testLongestChain(f *fixture) {
	file := f.create("a")
	ops := make([]*core.DiskOp, OpsMax)
	for i := range ops {
		ops[i] = write(file, int64(i*page), filled(page, byte(i)))
	}
	f.do(ops...)
	for i, op := range ops {
		if op.Err != nil {
			f.Fatalf("operation %d: %v", i, op.Err)
		}
	}
	got := f.read(file, 0, OpsMax*page)
	for i := range OpsMax {
		if got[i*page] != byte(i) {
			f.Fatalf("page %d holds %d", i, got[i*page])
		}
	}
	if !panics(func() {
		f.Driver.Submit(f.chain(append(ops, write(file, 0, filled(page, 0)))...))
	}) {
		f.Error("a chain that can never fit was not refused by assertion")
	}
}

// A full disk takes nothing of a chain, and has room again after a Reap.
func testSubmitFull(f *fixture) {
	file := f.create("a")
	f.ended = nil
	for i := range OpsMax - 1 {
		f.submit(write(file, int64(i*page), filled(page, 1)))
	}
	first, second := write(file, 40*page, filled(page, 2)), write(file, 41*page, filled(page, 2))
	if f.Driver.Submit(f.chain(first, second)) {
		f.Fatal("two operations fit where there is room for one")
	}
	if got := f.Driver.Pending(); got != OpsMax-1 {
		f.Fatalf("%d pending after a refused chain, want %d", got, OpsMax-1)
	}
	f.submit(write(file, 42*page, filled(page, 3)))
	f.drain()
	if len(f.ended) != OpsMax {
		f.Fatalf("%d operations ended, want %d", len(f.ended), OpsMax)
	}
	if got := f.read(file, 40*page, 3*page); got[0] != 0 || got[2*page] != 3 {
		f.Errorf("pages hold %d and %d, want 0 and 3", got[0], got[2*page])
	}
	f.do(first, second)
	if first.Err != nil || second.Err != nil {
		f.Errorf("%v, %v", first.Err, second.Err)
	}
}

// An operation used again does not carry the results of its last use.
func testResultsAreFresh(f *fixture) {
	file := f.create("a")
	op := read(file, 0, page)
	op.N, op.Err = 77, errors.New("from last time")
	if f.do(op); op.N != 0 || op.Err != nil {
		f.Errorf("read of nothing: %d, %v", op.N, op.Err)
	}
	op = sync(file)
	op.N, op.Err = 77, errors.New("from last time")
	if f.do(op); op.N != 0 || op.Err != nil {
		f.Errorf("sync: %d, %v", op.N, op.Err)
	}
}

// What only our own code can do wrong stops the process.
func testContract(f *fixture) {
	file := f.create("a")
	odd := Buffer(2 * page)[1 : page+1]
	for name, op := range map[string]*core.DiskOp{
		"no buffer":           write(file, 0, nil),
		"odd length":          write(file, 0, Buffer(page)[:100]),
		"odd address":         write(file, 0, odd),
		"odd address to read": {Kind: core.DiskRead, File: file, Buf: odd},
		"odd offset":          write(file, 100, Buffer(page)),
		"negative offset":     write(file, -page, Buffer(page)),
		"no file":             write(0, 0, Buffer(page)),
		"file never opened":   write(file+1, 0, Buffer(page)),
		"allocate nothing":    {Kind: core.DiskAllocate, File: file},
		"negative size":       {Kind: core.DiskTruncate, File: file, Length: -1},
		"no kind":             {},
	} {
		if !panics(func() { f.Driver.Submit(f.chain(op)) }) {
			f.Errorf("%s: accepted", name)
		}
	}
	if !panics(func() { f.Driver.Submit(&core.DiskOp{Kind: core.DiskSync, File: file}) }) {
		f.Error("no owner: accepted")
	}
	loop := f.chain(sync(file), sync(file))
	loop.Next.Next = loop
	if !panics(func() { f.Driver.Submit(loop) }) {
		f.Error("chain without an end: accepted")
	}
	f.submit(sync(file))
	if !panics(func() { _ = f.Driver.Close() }) {
		f.Error("close with an operation pending: accepted")
	}
	f.drain()
	f.close(file)
	if !panics(func() { f.Driver.Submit(f.chain(sync(file))) }) {
		f.Error("closed file: accepted")
	}
}

func panics(call func()) (did bool) {
	defer func() { did = recover() != nil }()
	call()
	return false
}

func testAllocate(f *fixture) {
	file := f.create("a")
	f.must(write(file, 0, filled(4*page, 6)))
	f.must(&core.DiskOp{Kind: core.DiskAllocate, File: file, Offset: page, Length: page})
	f.must(&core.DiskOp{Kind: core.DiskAllocate, File: file, Offset: 3 * page, Length: 5 * page})
	want := make([]byte, 8*page)
	for _, i := range []int{0, 2} {
		copy(want[i*page:], filled(page, 6))
	}
	if got := f.read(file, 0, 16*page); !bytes.Equal(got, want) {
		f.Errorf("%d bytes, want %d with zeros where they were allocated", len(got), len(want))
	}
	// An allocation inside the file does not change its size.
	f.must(&core.DiskOp{Kind: core.DiskAllocate, File: file, Offset: 0, Length: page})
	if got := f.read(file, 0, 16*page); len(got) != 8*page || got[0] != 0 {
		f.Errorf("%d bytes", len(got))
	}
}

func testTruncate(f *fixture) {
	file := f.create("a")
	f.must(write(file, 0, filled(4*page, 6)))
	f.must(&core.DiskOp{Kind: core.DiskTruncate, File: file, Length: page})
	f.must(&core.DiskOp{Kind: core.DiskTruncate, File: file, Length: 3 * page})
	want := append(filled(page, 6), make([]byte, 2*page)...)
	if got := f.read(file, 0, 8*page); !bytes.Equal(got, want) {
		f.Errorf("%d bytes, want one page kept and two of zeros", len(got))
	}
}

func testFilesMax(f *fixture) {
	var files []core.FileID
	for i := range FilesMax {
		files = append(files, f.create(fmt.Sprint(i)))
	}
	one, after := named(core.DiskCreate, "more"), sync(files[0])
	f.do(one, after)
	if one.Err == nil || after.Err != core.ErrDiskCanceled {
		f.Errorf("open above the bound: %v, then %v", one.Err, after.Err)
	}
	f.close(files[3])
	f.do(named(core.DiskOpen, "missing")) // an open that fails must not use the place up
	if again := f.must(named(core.DiskOpen, "0")); again.File == 0 {
		f.Error("no file id")
	}
}
