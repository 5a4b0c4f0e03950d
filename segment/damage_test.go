package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// Whoever meets damage, in whatever order: the ranges of a log are ascending and without overlap, and each is counted once.
// Readers go around the first range that they are told, so that one out of order would be met again and again.
func TestDamageIsKeptInOrder(t *testing.T) {
	r := newRig(t, nil)
	l := r.serve(16)[0].log
	gap := func(start, next core.Offset) { _ = r.store.missing(l, start, next, errNoFrame) }
	read := func(start, next core.Offset) {
		r.store.noteDamage(l, DamageRange{Start: start, Next: next, Cause: ErrFramePayload}, damageOfRead)
	}
	gap(50, 60)
	read(10, 20)
	gap(52, 55)
	gap(15, 30)
	gap(5, 5) // at least the offset that was asked for
	read(50, 60)
	want := [][2]core.Offset{{5, 6}, {10, 30}, {50, 60}}
	got := l.Damaged()
	if len(got) != len(want) {
		t.Fatalf("damage %v, want %v", got, want)
	}
	for i, d := range got {
		if d.Start != want[i][0] || d.Next != want[i][1] || d.Found != r.clock.wall {
			t.Errorf("range %d is [%d, %d), found %d; want %v", i, d.Start, d.Next, d.Found, want[i])
		}
	}
	if n := r.store.Stats().Damages; n != 3 {
		t.Errorf("%d damages are counted, want 3", n)
	}
}
