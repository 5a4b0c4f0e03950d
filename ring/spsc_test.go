package ring

import (
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSPSCCapacityIsAPowerOfTwo(t *testing.T) {
	for _, c := range []struct{ asked, got int }{{1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1000, 1024}} {
		if got := NewSPSC[int](c.asked).Cap(); got != c.got {
			t.Errorf("NewSPSC(%d).Cap() = %d, want %d", c.asked, got, c.got)
		}
	}
}

// The ring against a slice: order, fullness, emptiness and staging.
func TestSPSCModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewSPSC[int](rapid.IntRange(1, 9).Draw(t, "capacity"))
		var published, staged []int
		next, dropped := 1, 0 // dropped and not freed: their room is still taken
		out := make([]int, 5)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				ok := r.Push(next)
				if want := dropped+len(published)+len(staged) < r.Cap(); ok != want {
					t.Fatalf("Push with %d of %d = %v", len(published)+len(staged), r.Cap(), ok)
				}
				if ok { // a push publishes what was staged before it
					published = append(append(published, staged...), next)
					staged = nil
					next++
				}
			},
			"fill": func(t *rapid.T) {
				slot := r.Room()
				if want := dropped+len(published)+len(staged) < r.Cap(); (slot != nil) != want {
					t.Fatalf("Room with %d of %d = %v", len(published)+len(staged), r.Cap(), slot)
				}
				if slot == nil {
					return
				}
				if *slot != 0 {
					t.Fatalf("Room shows what was taken before: %d", *slot)
				}
				*slot = next
				r.Fill()
				staged = append(staged, next)
				next++
			},
			"stage": func(t *rapid.T) {
				ok := r.Stage(next)
				if want := dropped+len(published)+len(staged) < r.Cap(); ok != want {
					t.Fatalf("Stage with %d of %d = %v", len(published)+len(staged), r.Cap(), ok)
				}
				if ok {
					staged = append(staged, next)
					next++
				}
			},
			"publish": func(*rapid.T) {
				r.Publish()
				published = append(published, staged...)
				staged = nil
			},
			"pop": func(t *rapid.T) {
				got, ok := r.Pop()
				if ok != (len(published) > 0) {
					t.Fatalf("Pop with %d = %v", len(published), ok)
				}
				if ok {
					if got != published[0] {
						t.Fatalf("Pop = %d, want %d", got, published[0])
					}
					published, dropped = published[1:], 0
				}
			},
			"peek": func(t *rapid.T) {
				got := r.Peek()
				if (got != nil) != (len(published) > 0) {
					t.Fatalf("Peek with %d = %v", len(published), got)
				}
				if got == nil {
					return
				}
				if *got != published[0] || r.Peek() != got {
					t.Fatalf("Peek shows %d, want %d", *got, published[0])
				}
				if rapid.Bool().Draw(t, "drop") {
					r.Drop()
					published = published[1:]
					dropped++
				}
			},
			"free": func(*rapid.T) {
				r.Free()
				dropped = 0
			},
			"pop batch": func(t *rapid.T) {
				part := out[:rapid.IntRange(0, len(out)).Draw(t, "n")]
				n := r.PopBatch(part)
				if n != min(len(part), len(published)) {
					t.Fatalf("PopBatch = %d with %d there and room for %d", n, len(published), len(part))
				}
				for i, got := range part[:n] {
					if got != published[i] {
						t.Fatalf("PopBatch[%d] = %d, want %d", i, got, published[i])
					}
				}
				published = published[n:]
				if n > 0 {
					dropped = 0
				}
			},
			"": func(t *rapid.T) {
				if r.Len() != dropped+len(published) {
					t.Fatalf("Len = %d, want %d", r.Len(), dropped+len(published))
				}
			},
		})
	})
}

// A popped slot must not keep the value alive.
func TestSPSCReleasesPoppedValues(t *testing.T) {
	r := NewSPSC[*int](4)
	for i := range 4 {
		r.Push(&i)
	}
	r.Pop()
	r.Peek()
	r.Drop()
	r.PopBatch(make([]*int, 2))
	for i, slot := range r.slots {
		if slot != nil {
			t.Errorf("slot %d still points at a popped value", i)
		}
	}
}

// Two threads, every value once and in order. Under -race it also shows that the
// value written before a publish is visible after a pop.
func TestSPSCTwoThreads(t *testing.T) {
	type item struct{ sequence, square int }
	r := NewSPSC[item](64)
	deadline := time.Now().Add(300 * time.Millisecond)
	count := make(chan int, 1)
	go func() {
		n := 0
		for time.Now().Before(deadline) {
			for range 100 {
				if r.Stage(item{n, n * n}) {
					n++
				} else {
					r.Publish()
					runtime.Gosched()
				}
			}
			r.Publish()
		}
		count <- n
	}()
	total, want := -1, 0
	out := make([]item, 7)
	for total < 0 || want < total {
		n := 0
		switch want % 3 {
		case 0:
			if v, ok := r.Pop(); ok {
				out[0], n = v, 1
			}
		case 1:
			for v := r.Peek(); v != nil && n < len(out); v = r.Peek() {
				out[n] = *v
				n++
				r.Drop()
			}
			r.Free()
		default:
			n = r.PopBatch(out)
		}
		for _, v := range out[:n] {
			if v.sequence != want || v.square != want*want {
				t.Fatalf("got %+v, want sequence %d", v, want)
			}
			want++
		}
		if n == 0 {
			select {
			case total = <-count:
			default:
				runtime.Gosched()
			}
		}
	}
	if want == 0 {
		t.Fatal("nothing went through")
	}
}

func TestSPSCAllocatesNothing(t *testing.T) {
	r := NewSPSC[*int](8)
	v := new(int)
	out := make([]*int, 4)
	if n := testing.AllocsPerRun(100, func() {
		r.Push(v)
		r.Pop()
		r.Stage(v)
		r.Stage(v)
		r.Publish()
		r.Peek()
		r.Drop()
		r.Free()
		r.PopBatch(out)
	}); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

func BenchmarkSPSCSameThread(b *testing.B) {
	r := NewSPSC[*int](1024)
	v := new(int)
	for b.Loop() {
		r.Push(v)
		r.Pop()
	}
}

func BenchmarkSPSCTwoThreads(b *testing.B) {
	r := NewSPSC[int](1024)
	done := make(chan struct{})
	go func() {
		for got := 0; got < b.N; {
			if _, ok := r.Pop(); ok {
				got++
			} else {
				runtime.Gosched()
			}
		}
		close(done)
	}()
	for sent := 0; sent < b.N; {
		if r.Push(sent) {
			sent++
		} else {
			runtime.Gosched()
		}
	}
	<-done
}
