package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A queue against a slice.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[*int]
		var want []*int
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
			case kind < 3 || len(want) == 0:
				item := new(int)
				q.Push(item)
				want = append(want, item)
			case kind == 3:
				if got := q.Pop(); got != want[0] {
					t.Fatal("Pop took another item than the oldest")
				}
				want = want[1:]
			default:
				if got := q.PopBack(); got != want[len(want)-1] {
					t.Fatal("PopBack took another item than the newest")
				}
				want = want[:len(want)-1]
			}
			if q.Len() != len(want) {
				t.Fatalf("%d items, want %d", q.Len(), len(want))
			}
			for i, item := range want {
				if *q.At(i) != item {
					t.Fatalf("item %d is another", i)
				}
			}
			if len(want) > 0 && *q.Front() != want[0] {
				t.Fatal("Front is not the oldest")
			}
			if kept := len(q.items) - len(slices.DeleteFunc(slices.Clone(q.items), func(p *int) bool { return p != nil })); kept != len(want) {
				t.Fatalf("%d items are kept alive, %d are in the queue", kept, len(want))
			}
		}
	})
}

// A queue that rests gives up what a burst needed, and only that.
func TestQueueRests(t *testing.T) {
	var q Queue[int]
	for i := range 10 * queueKeepMax {
		q.Push(i)
	}
	if q.Rest(); q.Len() != 10*queueKeepMax || *q.Front() != 0 {
		t.Fatal("a queue that holds something was emptied")
	}
	for q.Len() > 0 {
		q.Pop()
	}
	if q.Rest(); len(q.items) != 0 {
		t.Fatalf("%d places are kept", len(q.items))
	}
	q.Push(7)
	if kept := len(q.items); q.Pop() != 7 {
		t.Fatal("not what was pushed")
	} else if q.Rest(); len(q.items) != kept {
		t.Fatal("a small queue gave its memory up")
	}
}
