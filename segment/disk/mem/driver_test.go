package mem

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pulsemq/pulsemq/core"
)

type owner struct{ ended []*core.DiskOp }

func (o *owner) Complete(op *core.DiskOp) { o.ended = append(o.ended, op) }

// aligned returns length bytes of a value at an aligned address.
func aligned(value byte, length int) []byte {
	raw := make([]byte, length+core.DiskAlignment)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % core.DiskAlignment
	buf := raw[skip : int(skip)+length : int(skip)+length]
	copy(buf, bytes.Repeat([]byte{value}, length))
	return buf
}

// finish submits a chain and reaps until nothing is pending.
func finish(d *Driver, op *core.DiskOp) {
	if op != nil && !d.Submit(op) {
		panic("no room")
	}
	var out [8]*core.DiskOp
	for d.Pending() > 0 {
		for _, op := range out[:d.Reap(out[:])] {
			op.Owner.Complete(op)
		}
	}
}

func openFor(t testing.TB, d *Driver, o *owner, path string) core.FileID {
	t.Helper()
	op := &core.DiskOp{Kind: core.DiskCreate, Path: path, Owner: o}
	finish(d, op)
	must(t, op.Err)
	o.ended = nil
	return op.File
}

func panics(call func()) (did bool) {
	defer func() { did = recover() != nil }()
	call()
	return false
}

func TestBufferMustNotChangeInFlight(t *testing.T) {
	d := New().Driver(DriverOptions{})
	file := openFor(t, d, &owner{}, "a")
	op := &core.DiskOp{Kind: core.DiskWrite, File: file, Buf: aligned(1, pageBytes), Owner: &owner{}}
	d.Submit(op)
	op.Buf[100] = 2
	if !panics(func() { d.Reap(make([]*core.DiskOp, 1)) }) {
		t.Error("a buffer changed while it was being written, and nobody noticed")
	}
}

func TestOperationMustNotChangeInFlight(t *testing.T) {
	d := New().Driver(DriverOptions{})
	file := openFor(t, d, &owner{}, "a")
	op := &core.DiskOp{Kind: core.DiskWrite, File: file, Buf: aligned(1, pageBytes), Owner: &owner{}}
	d.Submit(op)
	if !panics(func() { d.Submit(op) }) {
		t.Error("an operation in flight was accepted again")
	}
	op.Offset = pageBytes
	if !panics(func() { d.Reap(make([]*core.DiskOp, 1)) }) {
		t.Error("an operation changed in flight, and nobody noticed")
	}
}

func TestFileInUseMustNotBeClosed(t *testing.T) {
	d := New().Driver(DriverOptions{})
	file := openFor(t, d, &owner{}, "a")
	d.Submit(&core.DiskOp{Kind: core.DiskSync, File: file, Owner: &owner{}})
	if !panics(func() { d.Submit(&core.DiskOp{Kind: core.DiskClose, File: file, Owner: &owner{}}) }) {
		t.Error("a file was closed while another chain used it")
	}
}

func TestReorderIsSeeded(t *testing.T) {
	run := func(seed uint64, reorder bool) []int64 {
		d := New().Driver(DriverOptions{Reorder: reorder, Seed: seed})
		o := &owner{}
		file := openFor(t, d, o, "a")
		for i := range int64(20) {
			last := &core.DiskOp{Kind: core.DiskWrite, File: file, Offset: (2*i + 1) * pageBytes, Buf: aligned(1, pageBytes), Owner: o}
			d.Submit(&core.DiskOp{Kind: core.DiskWrite, File: file, Offset: 2 * i * pageBytes, Buf: aligned(1, pageBytes), Owner: o, Next: last})
		}
		finish(d, nil)
		var order []int64
		for _, op := range o.ended {
			order = append(order, op.Offset/pageBytes)
		}
		return order
	}
	if !slices.IsSorted(run(1, false)) {
		t.Error("without reordering: not in the order of submission")
	}
	first := run(1, true)
	if !slices.Equal(first, run(1, true)) {
		t.Error("one seed gave two orders")
	}
	if slices.IsSorted(first) || slices.Equal(first, run(2, true)) {
		t.Error("independent chains did not overtake each other by seed")
	}
	for i := range int64(20) {
		if slices.Index(first, 2*i) > slices.Index(first, 2*i+1) {
			t.Errorf("chain %d is out of order", i)
		}
	}
}

type clock struct{ now int64 }

func (c *clock) Now() int64       { return c.now }
func (c *clock) Monotonic() int64 { return c.now }

func TestLatencyAndDelay(t *testing.T) {
	s, c, o := New(), &clock{}, &owner{}
	d := s.Driver(DriverOptions{Clock: c, LatencyMin: 100, LatencyMax: 200})
	stall := s.Inject(&Fault{Kind: core.DiskSync, Action: FaultDelay, Delay: 10_000})
	out := make([]*core.DiskOp, 4)
	op := &core.DiskOp{Kind: core.DiskCreate, Path: "a", Owner: o}
	d.Submit(op)
	if d.Reap(out) != 0 {
		t.Fatal("an operation took no time")
	}
	due, pending := d.Due()
	if !pending || due < 100 || due > 200 {
		t.Fatalf("due at %d", due)
	}
	c.now = due
	if d.Reap(out) != 1 || op.Err != nil {
		t.Fatal("an operation did not end when it was due")
	}
	sync := &core.DiskOp{Kind: core.DiskSync, File: op.File, Owner: o}
	d.Submit(sync)
	c.now += 9_000
	if d.Reap(out) != 0 {
		t.Fatal("a stalled sync ended early")
	}
	c.now += 2_000
	if d.Reap(out) != 0 { // the first Reap started its time
		due, _ = d.Due()
		t.Fatalf("a stalled sync ended at %d, due at %d", c.now, due)
	}
	c.now += 9_000
	if d.Reap(out) != 1 || stall.Hits() != 1 {
		t.Fatalf("a stalled sync did not end; %d hits", stall.Hits())
	}
	if _, pending := d.Due(); pending {
		t.Error("nothing is pending, and something is due")
	}
}

func TestFaultRules(t *testing.T) {
	s, o := New(), &owner{}
	d := s.Driver(DriverOptions{})
	file := openFor(t, d, o, "x")
	write := func(value byte) *core.DiskOp {
		op := &core.DiskOp{Kind: core.DiskWrite, File: file, Buf: aligned(value, pageBytes), Owner: o,
			Next: &core.DiskOp{Kind: core.DiskSync, File: file, Owner: o}}
		finish(d, op)
		return op
	}
	first := func() byte {
		op := &core.DiskOp{Kind: core.DiskRead, File: file, Buf: aligned(0, pageBytes), Owner: o}
		finish(d, op)
		return op.Buf[0]
	}

	second := s.Inject(&Fault{Kind: core.DiskWrite, Path: "x", Skip: 1})
	if op := write(1); op.Err != nil || second.Hits() != 0 {
		t.Fatalf("the first write: %v", op.Err)
	}
	if op := write(2); !errors.Is(op.Err, syscall.EIO) || op.Next.Err != core.ErrDiskCanceled || first() != 1 {
		t.Fatalf("the second write: %v, its sync: %v", op.Err, op.Next.Err)
	}
	if op := write(3); op.Err != nil || second.Hits() != 1 {
		t.Fatalf("the third write: %v; %d hits", op.Err, second.Hits())
	}

	short := s.Inject(&Fault{Kind: core.DiskWrite, Action: FaultShort, Bytes: 512})
	if op := write(4); op.Err != core.ErrDiskShort || op.N != 512 || op.Next.Err != core.ErrDiskCanceled {
		t.Fatalf("short write: %d, %v", op.N, op.Err)
	}
	if got := content(t, s, "x"); got[511] != 4 || got[512] != 3 {
		t.Error("a short write did not store its beginning alone")
	}
	tear := s.Inject(&Fault{Kind: core.DiskWrite, Action: FaultTear, Bytes: 1024, Err: syscall.EROFS})
	if op := write(5); !errors.Is(op.Err, syscall.EROFS) {
		t.Fatalf("torn write: %v", op.Err)
	}
	if got := content(t, s, "x"); got[1023] != 5 || got[1024] != 3 {
		t.Error("a torn write did not store its beginning alone")
	}
	flip := s.Inject(&Fault{Kind: core.DiskRead, Action: FaultFlip, Bit: 1})
	write(8)
	if got := first(); got != 10 {
		t.Errorf("flipped read: %d", got)
	}
	if got := first(); got != 8 {
		t.Errorf("a flipped read changed the file: %d", got)
	}
	rot := s.Inject(&Fault{Kind: core.DiskWrite, Action: FaultFlip, Bit: 1})
	if op := write(8); op.Err != nil || op.Buf[0] != 8 || first() != 10 {
		t.Errorf("flipped write: %v", op.Err)
	}
	full := s.Inject(&Fault{Kind: core.DiskSync, Path: "x", Count: -1, Err: syscall.ENOSPC})
	for range 3 {
		if op := write(1); !errors.Is(op.Next.Err, core.ErrDiskFull) || !errors.Is(op.Next.Err, syscall.ENOSPC) {
			t.Errorf("sync on a full disk: %v", op.Next.Err)
		}
	}
	// Both views go through the rules.
	blocking, err := s.Open("x")
	must(t, err)
	if err := blocking.Sync(); !errors.Is(err, core.ErrDiskFull) {
		t.Errorf("blocking sync: %v", err)
	}
	if short.Hits() != 1 || tear.Hits() != 1 || flip.Hits() != 1 || rot.Hits() != 1 || full.Hits() != 4 {
		t.Error("a rule hit too often or too rarely")
	}
	if got, want := s.Injected(), [...]int{FaultFail: 5, FaultDelay: 0, FaultShort: 1, FaultTear: 1, FaultFlip: 2, FaultLie: 0}; got != want {
		t.Errorf("injected %v, want %v", got, want)
	}
	s.ClearFaults()
	if op := write(1); op.Err != nil || op.Next.Err != nil {
		t.Errorf("after clearing: %v, %v", op.Err, op.Next.Err)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b", true}, {"*.log", "t/1/0.log", true},
		{"*.log", "t/1/0.log.tmp", false}, {"t/*/0.*", "t/1/0.log", true}, {"t/*/0.*", "t/1/1.log", false}, {"a*a", "a", false},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

// A full disk refuses what takes space, lets the rest go on, and recovers.
func TestCapacity(t *testing.T) {
	s, o := New(), &owner{}
	d := s.Driver(DriverOptions{})
	s.SetCapacity(4 * pageBytes)
	file := openFor(t, d, o, "a")
	write := func(page int64) error {
		op := &core.DiskOp{Kind: core.DiskWrite, File: file, Offset: page * pageBytes, Buf: aligned(1, pageBytes), Owner: o}
		finish(d, op)
		return op.Err
	}
	allocate := &core.DiskOp{Kind: core.DiskAllocate, File: file, Length: 3 * pageBytes, Owner: o}
	finish(d, allocate)
	must(t, allocate.Err)
	must(t, write(0)) // inside what is allocated
	must(t, write(3))
	if err := write(4); !errors.Is(err, core.ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write on a full disk: %v", err)
	}
	if _, free, _ := s.Space(); free != 0 {
		t.Errorf("free %d", free)
	}
	allocate.Offset = 4 * pageBytes
	if finish(d, allocate); !errors.Is(allocate.Err, core.ErrDiskFull) {
		t.Errorf("allocation on a full disk: %v", allocate.Err)
	}
	must(t, write(0)) // overwriting takes nothing
	cut := &core.DiskOp{Kind: core.DiskTruncate, File: file, Length: 2 * pageBytes, Owner: o}
	finish(d, cut)
	must(t, cut.Err)
	if _, free, _ := s.Space(); free != 2*pageBytes {
		t.Errorf("free after a truncation: %d", free)
	}
	must(t, write(4))

	// The space of a removed file is free when it is closed.
	must(t, s.Remove("a"))
	if _, free, _ := s.Space(); free != pageBytes {
		t.Errorf("free with the removed file open: %d", free)
	}
	finish(d, &core.DiskOp{Kind: core.DiskClose, File: file, Owner: o})
	if _, free, _ := s.Space(); free != 4*pageBytes {
		t.Errorf("free after the close: %d", free)
	}
}

// A crash and a kill count the space anew, of what is left.
func TestSpaceAfterACrash(t *testing.T) {
	s := New()
	durable(t, s, "a", 1, 2)
	lost := create(t, s, "b")
	put(t, lost, 0, 1, 3*pageBytes)
	removed := durable(t, s, "c", 1, 4)
	must(t, s.Remove("c"))
	must(t, s.SyncDir("."))
	put(t, removed, 0, 1, 1)
	for name, c := range map[string]*FS{
		"crash": s.Crash(1, CrashOptions{Data: FateDrop}),
		"kill":  s.Kill(1),
	} {
		want := int64(2)
		if name == "kill" {
			want = 5
		}
		total, free, _ := c.Space()
		if got := (total - free) / pageBytes; got != want {
			t.Errorf("%s: %d pages in use, want %d", name, got, want)
		}
	}
}
