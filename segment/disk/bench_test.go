package disk

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
)

// BenchmarkWriteSync is a journal's work: chains of a write and an fdatasync into a
// file that was filled before. depth is how many chains are in flight.
func BenchmarkWriteSync(b *testing.B) {
	for _, kind := range []core.DiskChoice{core.DiskUring, core.DiskPosix} {
		for _, size := range []int{4 << 10, 64 << 10, 256 << 10} {
			for _, depth := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/%dKiB/depth%d", kind, size>>10, depth), func(b *testing.B) {
					benchmarkChains(b, kind, size, depth, true)
				})
			}
		}
	}
}

// BenchmarkWrite is the same without the sync.
func BenchmarkWrite(b *testing.B) {
	for _, kind := range []core.DiskChoice{core.DiskUring, core.DiskPosix} {
		for _, size := range []int{4 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB/depth8", kind, size>>10), func(b *testing.B) {
				benchmarkChains(b, kind, size, 8, false)
			})
		}
	}
}

const benchFileBytes = 64 << 20

// chains owns the operations and says where the next write goes.
type chains struct {
	offset int64
	err    error
}

// Complete keeps an error; the benchmark starts the next round.
func (c *chains) Complete(op *core.DiskOp) {
	if op.Err != nil {
		c.err = op.Err
	}
}

func benchmarkChains(b *testing.B, kind core.DiskChoice, size, depth int, synced bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	folder, err := Open(b.TempDir(), kind)
	if err != nil {
		b.Skip(err)
	}
	defer folder.Close()
	waker, err := ring.NewWaker()
	if err != nil {
		b.Fatal(err)
	}
	defer waker.Close()
	driver, _, err := folder.Driver(waker, Bounds{OpsMax: 64})
	if err != nil {
		b.Fatal(err)
	}
	slabs, err := arena.NewLocal(4 << 20)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, folder.FS())

	c := &chains{}
	out := make([]*core.DiskOp, 32)
	turn := func() int {
		if err := driver.Flush(); err != nil {
			b.Fatal(err)
		}
		n := driver.Reap(out)
		for _, op := range out[:n] {
			op.Owner.Complete(op)
		}
		if n == 0 {
			waker.Announce()
			if err := driver.Park(-1); err != nil {
				b.Fatal(err)
			}
			waker.Retract()
		}
		return n
	}
	open := &core.DiskOp{Kind: core.DiskOpen, Path: "a", Owner: c}
	driver.Submit(open)
	for driver.Pending() > 0 {
		turn()
	}
	if c.err != nil {
		b.Fatal(c.err)
	}
	writes := make([]core.DiskOp, depth)
	syncs := make([]core.DiskOp, depth)
	for i := range writes {
		writes[i] = core.DiskOp{Kind: core.DiskWrite, File: open.File, Buf: slabs.Get(size).Bytes, Owner: c}
		if synced {
			syncs[i] = core.DiskOp{Kind: core.DiskSync, File: open.File, Owner: c}
			writes[i].Next = &syncs[i]
		}
	}
	start := func(i int) {
		writes[i].Offset = c.offset
		c.offset = (c.offset + int64(size)) % benchFileBytes
		driver.Submit(&writes[i])
	}
	last := func(op *core.DiskOp) (int, bool) {
		for i := range writes {
			if op == &syncs[i] || (!synced && op == &writes[i]) {
				return i, true
			}
		}
		return 0, false
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	started := 0
	for ; started < min(depth, b.N); started++ {
		start(started)
	}
	for driver.Pending() > 0 {
		n := turn()
		for _, op := range out[:n] {
			if i, ended := last(op); ended && started < b.N {
				started++
				start(i)
			}
		}
	}
	b.StopTimer()
	if c.err != nil {
		b.Fatal(c.err)
	}
	if err := driver.Close(); err != nil {
		b.Fatal(err)
	}
}

// fill makes a file whose blocks are all written, as a recycled journal file's are.
func fill(b *testing.B, fs core.FS) {
	file, err := fs.Create("a")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	zeros := make([]byte, 1<<20)
	w := io.NewOffsetWriter(file, 0)
	for range benchFileBytes / len(zeros) {
		if _, err := w.Write(zeros); err != nil {
			b.Fatal(err)
		}
	}
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
}
