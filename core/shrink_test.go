package core

import (
	"maps"
	"testing"
)

// A map that held much gives its memory back while it is emptied, keeps what is in it, and
// copies no more than was deleted.
func TestShrinkMap(t *testing.T) {
	const most = 100_000
	m, peak, copied := make(map[int]int), 0, 0
	for i := range most {
		m[i] = i
	}
	for i := range most {
		delete(m, i)
		smaller := ShrinkMap(m, &peak)
		if peak > max(shrinkLeast, 4*len(smaller)+4) {
			t.Fatalf("of %d entries the memory of %d is kept", len(smaller), peak)
		}
		if len(smaller) != most-1-i || peak == len(smaller) && !maps.Equal(m, smaller) {
			t.Fatalf("%d entries are left of %d", len(smaller), len(m))
		}
		if peak == len(smaller) {
			copied += peak
		}
		m = smaller
	}
	if copied > most {
		t.Errorf("%d entries were copied", copied)
	}
}

func TestShrinkSlice(t *testing.T) {
	s := make([]int, 10, 10_000)
	s[9] = 9
	if s = ShrinkSlice(s); cap(s) > shrinkLeast || len(s) != 10 || s[9] != 9 {
		t.Errorf("%d of %d: %v", len(s), cap(s), s)
	}
	if s = make([]int, 5_000, 10_000); cap(ShrinkSlice(s)) != 10_000 {
		t.Error("a slice that is half full was copied")
	}
}
