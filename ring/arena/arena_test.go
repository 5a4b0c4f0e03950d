package arena

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
)

func newArena(t testing.TB, budget int64) *Arena {
	t.Helper()
	a, err := New(budget)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newLocal(t testing.TB, budget int64) *Local {
	t.Helper()
	l, err := NewLocal(budget)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func address(s *core.Slab) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s.Bytes))) }

func TestBudgetBelowOneBlockIsRefused(t *testing.T) {
	_, err := New(blockBytes - 1)
	if err == nil || !strings.Contains(err.Error(), "2097151") {
		t.Fatalf("error = %v, want one that says what was given", err)
	}
}

// Whatever the class, the arena gives out its whole budget and not one byte more.
func TestBudgetIsExact(t *testing.T) {
	const blocks = 3
	l := newLocal(t, blocks*blockBytes+blockBytes/2)
	if got := l.Gauges().ReservedBytes; got != blocks*blockBytes {
		t.Fatalf("reserved %d, want %d", got, blocks*blockBytes)
	}
	for size := core.SlabBytesMin; size <= core.SlabBytesMax; size <<= 1 {
		var slabs []*core.Slab
		for s := l.Get(size); s != nil; s = l.Get(size) {
			if len(s.Bytes) != size || cap(s.Bytes) != size {
				t.Fatalf("Get(%d) has length %d and capacity %d", size, len(s.Bytes), cap(s.Bytes))
			}
			if address(s)%uintptr(min(size, blockBytes)) != 0 {
				t.Fatalf("Get(%d) is at %#x", size, address(s))
			}
			slabs = append(slabs, s)
		}
		if len(slabs)*size != blocks*blockBytes {
			t.Errorf("class %d: %d slabs, want %d", size, len(slabs), blocks*blockBytes/size)
		}
		if got := l.Gauges().InUseBytes; got != blocks*blockBytes {
			t.Errorf("class %d: in use %d", size, got)
		}
		for _, s := range slabs { // now every block is free for the next class
			s.Release()
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGetAboveTheLargestClass(t *testing.T) {
	l := newLocal(t, blockBytes)
	if l.Get(core.SlabBytesMax+1) != nil {
		t.Fatal("a slab above the largest class")
	}
	if l.Get(0) == nil {
		t.Fatal("no slab for no bytes")
	}
}

// Live slabs never overlap, keep their content, and the gauges add up, over any
// order of gets, releases and trims.
func TestLocalModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const blocks = 3
		l, err := NewLocal(blocks * blockBytes)
		if err != nil {
			t.Fatal(err)
		}
		type loan struct {
			slab  *core.Slab
			stamp byte
		}
		var live []loan
		stamp := byte(0)
		inUse := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := 1 + rapid.IntRange(0, core.SlabBytesMax-1).Draw(t, "n")>>rapid.IntRange(0, 12).Draw(t, "shift")
				s := l.Get(n)
				if s == nil {
					if inUse == 0 {
						t.Fatalf("Get(%d) of an empty arena = nil", n)
					}
					return
				}
				if len(s.Bytes) != core.SlabClassBytes(n) || address(s)%core.DiskAlignment != 0 {
					t.Fatalf("Get(%d): %d bytes at %#x", n, len(s.Bytes), address(s))
				}
				for _, other := range live {
					if address(s) < address(other.slab)+uintptr(len(other.slab.Bytes)) &&
						address(other.slab) < address(s)+uintptr(len(s.Bytes)) {
						t.Fatalf("slabs overlap: %#x and %#x", address(s), address(other.slab))
					}
				}
				stamp++
				s.Bytes[0], s.Bytes[len(s.Bytes)-1] = stamp, stamp
				live = append(live, loan{s, stamp})
				inUse += int64(len(s.Bytes))
			},
			"release": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
				inUse -= int64(len(live[i].slab.Bytes))
				live[i].slab.Release()
				live = append(live[:i], live[i+1:]...)
			},
			"trim": func(t *rapid.T) {
				before := l.Gauges().TouchedBytes
				released := l.Trim(rapid.Int64Range(0, 3*blockBytes).Draw(t, "max"))
				if after := l.Gauges().TouchedBytes; before-after != released {
					t.Fatalf("touched %d -> %d after %d", before, after, released)
				}
			},
			"": func(t *rapid.T) {
				g := l.Gauges()
				if g.InUseBytes != inUse || g.TouchedBytes < inUse || g.TouchedBytes > g.ReservedBytes {
					t.Fatalf("gauges %+v with %d in use", g, inUse)
				}
				for _, loan := range live {
					if loan.slab.Bytes[0] != loan.stamp || loan.slab.Bytes[len(loan.slab.Bytes)-1] != loan.stamp {
						t.Fatal("a live slab changed")
					}
				}
			},
		})
		for _, loan := range live {
			loan.slab.Release()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Slabs got on one thread and released on another all come home.
func TestArenaTwoThreads(t *testing.T) {
	a := newArena(t, 4*blockBytes)
	toShard := ring.NewSPSC[*core.Slab](256)
	const rounds = 30_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for got := 0; got < rounds; {
			s, ok := toShard.Pop()
			if !ok {
				runtime.Gosched()
				continue
			}
			if s.Bytes[0] != s.Bytes[len(s.Bytes)-1] {
				t.Error("a slab was given out twice")
			}
			s.Retain()
			s.Release()
			s.Release()
			got++
		}
	}()
	sizes := []int{1, 5000, 100, 70_000, 4096, core.SlabBytesMax, 300_000}
	for sent := 0; sent < rounds; {
		s := a.Get(sizes[sent%len(sizes)])
		if s == nil {
			runtime.Gosched()
			continue
		}
		if sent%11 == 0 {
			a.Discard(s) // a connection that broke before its frame was whole
			s = a.Get(1)
			if s == nil {
				continue
			}
		}
		s.Bytes[0], s.Bytes[len(s.Bytes)-1] = byte(sent), byte(sent)
		for !toShard.Push(s) {
			runtime.Gosched()
		}
		sent++
	}
	<-done
	if err := a.Close(); err != nil { // asserts that all are at home
		t.Fatal(err)
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	l := newLocal(t, blockBytes)
	s := l.Get(1)
	s.Release()
	defer func() {
		if recover() == nil {
			t.Fatal("a second release went through")
		}
	}()
	s.Release()
}

func TestTrimmedMemoryReadsAsZero(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only linux zeroes at once")
	}
	l := newLocal(t, blockBytes)
	s := l.Get(core.SlabBytesMax)
	for i := range s.Bytes {
		s.Bytes[i] = 0xee
	}
	s.Release()
	if got := l.Trim(blockBytes); got != blockBytes {
		t.Fatalf("Trim = %d", got)
	}
	s = l.Get(core.SlabBytesMax)
	if !bytes.Equal(s.Bytes, make([]byte, len(s.Bytes))) {
		t.Fatal("trimmed memory kept its content")
	}
}

func TestArenaAllocatesNothing(t *testing.T) {
	a, l := newArena(t, 4*blockBytes), newLocal(t, 4*blockBytes)
	round := func() {
		for _, n := range []int{1, 5000, 300_000, core.SlabBytesMax} {
			a.Get(n).Release()
			a.Discard(a.Get(n))
			l.Get(n).Release()
		}
		a.Trim(blockBytes)
	}
	// Each block keeps its headers per class once it has been carved for it.
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

func BenchmarkLocalGetRelease(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"2MiB", 2 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			l := newLocal(b, 16*blockBytes)
			for b.Loop() {
				l.Get(c.n).Release()
			}
		})
	}
}

func BenchmarkArenaGetRelease(b *testing.B) {
	a := newArena(b, 16*blockBytes)
	for b.Loop() {
		a.Get(4096).Release()
	}
}
