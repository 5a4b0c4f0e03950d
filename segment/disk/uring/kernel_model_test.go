//go:build linux

package uring

import (
	"errors"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// modelEntry is a submission entry that a model of the kernel took.
type modelEntry struct {
	slot int32
	link bool // the next one starts only after this one
}

// takeRuns takes the prepared entries in the kernel's place, run by run.
func (b *bench) takeRuns() (runs [][]modelEntry) {
	k := b.kernel
	mask := uint32(len(k.sqes) - 1)
	begin := k.sqTail - uint32(k.prepared())
	var run []modelEntry
	for at := begin; at != k.sqTail; at++ {
		entry := &k.sqes[at&mask]
		run = append(run, modelEntry{int32(userOf(entry)), linked(entry)})
		if !linked(entry) {
			runs, run = append(runs, run), nil
		}
	}
	if run != nil {
		b.Fatal("the last entry is linked to nothing")
	}
	k.sqTail = begin
	return runs
}

// Whatever the kernel answers within its rules — success, interruption, failure,
// short writes and reads, cancellation behind a link that broke — every operation
// ends once, in the order of its chain, and a chain is a number of successes, at
// most one failure, and cancellations.
func TestAnyAnswersOfTheKernel(t *testing.T) {
	b := newBench(t)
	out := make([]*core.DiskOp, 16)
	rapid.Check(t, func(t *rapid.T) {
		type result struct {
			ended bool
			err   error
		}
		decided := map[*core.DiskOp]error{} // what the model of the kernel did with each
		results := map[*core.DiskOp]result{}
		var chains [][]*core.DiskOp
		var running [][]modelEntry
		reap := func() {
			for n := b.Reap(out); n > 0; n = b.Reap(out) {
				for _, op := range out[:n] {
					if results[op].ended {
						t.Fatalf("%s ended twice", op.Kind)
					}
					results[op] = result{true, op.Err}
				}
			}
		}
		// answer lets the kernel do the first operation of a run.
		answer := func(t *rapid.T) {
			if len(running) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "run")
			run := running[i]
			op := b.slots[run[0].slot].op
			whole := int32(0)
			var ends []int32 // of the operations that the entry is for, in bytes from its beginning
			var joined []*core.DiskOp
			for at, n := run[0].slot, b.slots[run[0].slot].joined; op.Kind != core.DiskSync && n >= 0; at, n = b.slots[at].next, n-1 {
				whole += int32(len(b.slots[at].op.Buf) - b.slots[at].done)
				ends, joined = append(ends, whole), append(joined, b.slots[at].op)
			}
			value := rapid.SampledFrom([]int32{whole, whole, whole, whole, -int32(syscall.EAGAIN), -int32(syscall.EINTR),
				-int32(syscall.EIO), 512, 4096, 3 * 4096}).Draw(t, "result")
			value = min(value, whole)
			if op.Kind == core.DiskSync && value > 0 {
				value = 0
			}
			broken := value != whole
			switch {
			case value == -int32(syscall.EAGAIN) || value == -int32(syscall.EINTR):
			case value == -int32(syscall.EIO):
				decided[op] = syscall.EIO
			case op.Kind == core.DiskWrite: // what is short is written on
				for i, end := range ends {
					if end <= value {
						decided[joined[i]] = nil
					}
				}
			case op.Kind == core.DiskRead && value == 4096 && value < whole:
				// read on
			default:
				decided[op] = nil
			}
			if !broken && len(run) > 1 {
				running[i] = run[1:]
				b.answer(run[0].slot, value)
			} else {
				running = append(running[:i:i], running[i+1:]...)
				b.answer(run[0].slot, value)
				for _, rest := range run[1:] {
					b.answer(rest.slot, canceled)
				}
			}
			running = append(running, b.takeRuns()...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				var ops []*core.DiskOp
				end := int64(0)
				for range rapid.IntRange(1, 6).Draw(t, "length") {
					switch rapid.IntRange(0, 3).Draw(t, "kind") {
					case 0, 1:
						end += rapid.SampledFrom([]int64{0, 0, 4096}).Draw(t, "gap") // without one it joins
						ops = append(ops, b.write(end, 1))
						ops[len(ops)-1].Buf = aligned(1, 2*4096)
						end += 2 * 4096
					case 2:
						ops = append(ops, &core.DiskOp{Kind: core.DiskSync, File: b.file})
					case 3:
						ops = append(ops, &core.DiskOp{Kind: core.DiskRead, File: b.file, Buf: aligned(0, 2*4096)})
					}
				}
				for i, op := range ops {
					op.Owner = owner{}
					if i > 0 {
						ops[i-1].Next = op
					}
				}
				if fits := b.Pending()+len(ops) <= b.options.OpsMax; b.Submit(ops[0]) != fits {
					t.Fatalf("%d operations with %d pending: fits %v", len(ops), b.Pending(), fits)
				} else if fits {
					chains = append(chains, ops)
					running = append(running, b.takeRuns()...)
				}
			},
			"answer": answer,
			"reap":   func(*rapid.T) { reap() },
		})
		for len(running) > 0 {
			answer(t)
		}
		reap()
		if b.Pending() != 0 || b.native != 0 {
			t.Fatalf("%d pending, %d with the kernel", b.Pending(), b.native)
		}
		for _, ops := range chains {
			failed := false
			for i, op := range ops {
				got := results[op]
				want, known := decided[op]
				switch {
				case !got.ended:
					t.Fatalf("operation %d never ended", i)
				case failed && got.err != core.ErrDiskCanceled:
					t.Fatalf("operation %d behind a failure: %v", i, got.err)
				case failed:
				case !known:
					t.Fatalf("operation %d ended before the kernel did it: %v", i, got.err)
				case !errors.Is(got.err, want) || (want == nil && got.err != nil):
					t.Fatalf("operation %d: %v, want %v", i, got.err, want)
				}
				failed = failed || got.err != nil
			}
		}
	})
}

// Another thread than the ring's is told so, where the kernel checks it.
func TestAnotherThreadIsRefused(t *testing.T) {
	b := newBench(t)
	if b.kernel.flags&setupSingleIssuer == 0 {
		t.Skip("this kernel does not check the thread")
	}
	b.submit(b.write(0, 1))
	refused := make(chan error)
	go func() { refused <- b.Flush() }()
	if err := <-refused; !errors.Is(err, syscall.EEXIST) {
		t.Errorf("error = %v", err)
	}
	b.reap(1)
}
