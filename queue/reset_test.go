package queue

import "testing"

// After a seek the same records may die again. They are buried in the order of their numbers, so that none is passed over.
func TestBurialsAfterAReset(t *testing.T) {
	w := New(0, 1)
	w.Apply(&Op{Kind: Die, Base: 0, Next: 2, Reason: Nacked}, 0)
	w.Reset(0)
	w.Apply(&Op{Kind: Die, Base: 1, Next: 4, Reason: Nacked}, 0)
	w.Apply(&Op{Kind: Die, Base: 0, Next: 1, Reason: Nacked}, 0)
	list := w.AppendDying(nil, 0, 10)
	if len(list) != 4 {
		t.Fatalf("%d records are dying, want 4: %+v", len(list), list)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Number <= list[i-1].Number {
			t.Fatalf("out of order: %+v", list)
		}
	}
}
