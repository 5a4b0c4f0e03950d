package queue

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// deliver claims, stores and grants.
func deliver(w *Window, wish Wish, holder uint32) Span {
	s, _ := w.Claim(&wish, nil)
	for from := s.Base; ; {
		base, end, attempts := w.Claimed(s.Tag, from, s.Next)
		if base >= end {
			return s
		}
		w.Apply(&Op{Kind: Lease, Base: base, Next: end, Attempts: attempts + 1}, 0)
		w.Grant(s.Tag, base, end, holder, 100)
		from = end
	}
}

func ack(w *Window, holder uint32, base, next int64) {
	for from := base; ; {
		at, end := w.Take(holder, 1, from, next)
		if at >= end {
			return
		}
		w.Apply(&Op{Kind: Settle, Base: at, Next: end}, 0)
		from = end
	}
}

// The window bounds what is out: with the first record unsettled nothing goes beyond it, and all goes on when it is.
func TestFullWindow(t *testing.T) {
	w := New(0, 1)
	wish := Wish{Records: 1000, End: 10_000, WindowMax: 500}
	if s := deliver(w, wish, 1); s.Records != 500 || s.Next != 500 {
		t.Fatalf("claimed %+v", s)
	}
	ack(w, 1, 1, 500)
	if w.Claimable(&wish) || w.Low() != 0 || w.Records() != 500 {
		t.Fatalf("low %d, %d records, claimable %v", w.Low(), w.Records(), w.Claimable(&wish))
	}
	ack(w, 1, 0, 1)
	if w.Low() != 500 || w.Records() != 0 || !w.Claimable(&wish) {
		t.Fatalf("low %d, %d records", w.Low(), w.Records())
	}
	w.check(t)
}

// Records that others have are read over, a few at a time, and redelivered ones come first.
func TestBridges(t *testing.T) {
	w := New(0, 1)
	deliver(w, Wish{Records: 100, End: 100, WindowMax: 1000}, 1)
	for _, o := range []int64{5, 5 + bridgeMax + 1, 90} {
		base, end := w.Take(1, 1, o, o+1)
		w.Apply(&Op{Kind: Retry, Base: base, Next: end, Attempts: 1}, 0)
	}
	for _, want := range []Span{{5, 5 + bridgeMax + 2, 2, 2}, {90, 110, 11, 3}} {
		if s := deliver(w, Wish{Records: 100, End: 110, WindowMax: 1000}, 2); s != want {
			t.Errorf("claimed %+v, want %+v", s, want)
		}
	}
	w.check(t)
}

// A window holds no more than the limit, whatever an op says, and text has its bound.
func TestBounds(t *testing.T) {
	w := New(0, 1)
	w.Apply(&Op{Kind: Lease, Base: 10, Next: math.MaxInt64, Attempts: 1}, 0)
	if w.Records() != core.QueueWindowMax {
		t.Fatalf("%d records", w.Records())
	}
	text := strings.Repeat("x", 100)
	w.Apply(&Op{Kind: Die, Base: 0, Next: 10, Reason: Nacked, Text: text}, 250)
	if w.TextBytes() != 200 || w.Dying() != 10 {
		t.Fatalf("%d bytes of text of %d records", w.TextBytes(), w.Dying())
	}
	w.check(t)
	w.Apply(&Op{Kind: Settle, Base: 0, Next: 1 << 40}, 0)
	if w.Low() != 1<<40 || w.Records() != 0 || w.TextBytes() != 0 || len(w.causes.list) != 0 {
		t.Fatalf("low %d, %d records, %d bytes", w.Low(), w.Records(), w.TextBytes())
	}
	w.Rest()
	w.check(t)
	w.Apply(&Op{Kind: Lease, Base: 1 << 40, Next: 1<<40 + 1, Attempts: 1}, 0)
	w.check(t)
}

// A seek begins anew, and burials keep their numbers: those before are still on their way.
func TestReset(t *testing.T) {
	w := New(0, 1)
	deliver(w, Wish{Records: 10, End: 10, WindowMax: 100}, 1)
	w.Apply(&Op{Kind: Die, Base: 2, Next: 4, Reason: Nacked}, 0)
	w.Reset(1)
	w.check(t)
	if len(w.AppendDying(nil, 0, 1)) > 0 || w.Low() != 1 || w.Records() != 0 || w.Leased() != 0 {
		t.Fatalf("low %d, %d records, %d leased", w.Low(), w.Records(), w.Leased())
	}
	w.Apply(&Op{Kind: Die, Base: 2, Next: 3, Reason: Nacked}, 0)
	if b := w.AppendDying(nil, 0, 9); len(b) != 1 || b[0].Number != 2 {
		t.Errorf("burial %+v", b)
	}
}

// A delay that a clock which went back makes endless is over.
func TestEndlessDelay(t *testing.T) {
	w := New(0, 1)
	w.Apply(&Op{Kind: Retry, Base: 0, Next: 1, Attempts: 1, Time: 5000}, 0)
	w.Apply(&Op{Kind: Retry, Base: 1, Next: 2, Attempts: 1, Time: 5000 + delayMax}, 0)
	w.Started()
	if w.Expire(0, 1000, 0, nil); w.Ready() != 1 {
		t.Fatalf("%d are ready", w.Ready())
	}
	if _, delay := w.Due(); delay != 5000 {
		t.Errorf("due at %d", delay)
	}
	w.check(t)
}

// Whatever op comes for a settled record, it stays settled.
func TestSettledStaysSettled(t *testing.T) {
	for _, op := range []Op{{Kind: Lease, Attempts: 1}, {Kind: Retry, Attempts: 1}, {Kind: Retry, Attempts: 1, Time: 9}, {Kind: Die}, {Kind: Bury}} {
		w := New(0, 1)
		w.Apply(&Op{Kind: Settle, Base: 1, Next: 2}, 0)
		op.Next = 3
		w.Apply(&op, 0)
		w.check(t)
		if d := w.durable(1); d != (durable{state: Settled}) || w.durable(0) == (durable{state: Settled}) {
			t.Errorf("%+v makes of a settled record %+v", op, d)
		}
	}
}

// What the log has lost nobody has.
func TestTruncate(t *testing.T) {
	w := New(0, 1)
	deliver(w, Wish{Records: 10, End: 10, WindowMax: 100}, 1)
	w.Truncate(4)
	w.check(t)
	if w.High() != 4 || w.Leased() != 4 {
		t.Fatalf("high %d, %d leased", w.High(), w.Leased())
	}
	if s := deliver(w, Wish{Records: 10, End: 6, WindowMax: 100}, 2); s.Base != 4 || s.Records != 2 {
		t.Fatalf("claimed %+v", s)
	}
}

func TestSteadyDeliveryAllocatesNothing(t *testing.T) {
	w := New(0, 1)
	ops := make([]Op, 0, 64)
	body := make([]byte, 0, 4096)
	end := int64(0)
	turn := func() {
		end += 200
		s, _ := w.Claim(&Wish{Records: 200, End: end, WindowMax: 10_000, AttemptsMax: 5}, nil)
		ops = Add(ops[:0], Op{Kind: Lease, Base: s.Base, Next: s.Next, Attempts: 1})
		w.Apply(&ops[0], 0)
		w.Grant(s.Tag, s.Base, s.Next, 1, 100)
		ops = ops[:0]
		for o := s.Base; o < s.Next; o++ {
			base, next := w.Take(1, 1, o, o+1)
			ops = Add(ops, Op{Kind: Settle, Base: base, Next: next})
		}
		body = Head{}.Append(body[:0])
		for i := range ops {
			body = ops[i].Append(body, 0)
			w.Apply(&ops[i], 0)
		}
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(100, turn); n > 0 {
		t.Errorf("%v allocations per turn", n)
	}
	if w.Low() != end {
		t.Errorf("low %d of %d", w.Low(), end)
	}
}

// BenchmarkRecord is a record from its claim to its end, acknowledged on its own.
func BenchmarkRecord(b *testing.B) {
	w := New(0, 1)
	end := int64(0)
	for b.Loop() {
		end++
		s, _ := w.Claim(&Wish{Records: 1, End: end, WindowMax: 10_000, AttemptsMax: 5}, nil)
		w.Apply(&Op{Kind: Lease, Base: s.Base, Next: s.Next, Attempts: 1}, 0)
		w.Grant(s.Tag, s.Base, s.Next, 1, 100)
		base, next := w.Take(1, 1, s.Base, s.Next)
		w.Apply(&Op{Kind: Settle, Base: base, Next: next}, 0)
	}
}

// Bytes that are no body, or no snapshot, are refused; what is read is written the same.
func FuzzParse(f *testing.F) {
	ops := []Op{{Kind: Begin, Base: 5, Next: 5, Identity: 7}, {Kind: Lease, Base: 5, Next: 9, Attempts: 2}, {Kind: Settle, Base: 5, Next: 6},
		{Kind: Retry, Base: 6, Next: 7, Attempts: 1, Time: 99}, {Kind: Die, Base: 7, Next: 8, Reason: Nacked, Text: "x"}, {Kind: Bury, Base: 8, Next: 9, Reason: Rejected}}
	body := Head{Owner: -1, Time: 3}.Append(nil)
	w, behind := New(5, 1), int64(0)
	for i := range ops {
		body = ops[i].Append(body, behind)
		behind = ops[i].Next
		if i > 0 {
			w.Apply(&ops[i], 100)
		}
	}
	f.Add(body)
	f.Add(w.AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if head, ops, err := Parse(b, nil); err == nil {
			again, behind := head.Append(nil), int64(0)
			w := New(0, 0)
			for i := range ops {
				again = ops[i].Append(again, behind)
				behind = ops[i].Next
				if ops[i].Kind != Begin {
					w.Apply(&ops[i], 1000)
				}
			}
			w.check(t)
			if h, o, err := Parse(again, nil); err != nil || h != head || len(o) != len(ops) {
				t.Fatalf("what was parsed does not parse: %v", err)
			}
			if _, err := Restore(w.AppendSnapshot(nil)); err != nil && w.low < math.MaxInt64-core.QueueWindowMax {
				t.Fatal(err)
			}
		}
		if w, err := Restore(b); err == nil {
			w.check(t)
			again, err := Restore(w.AppendSnapshot(nil))
			if err != nil || string(again.AppendSnapshot(nil)) != string(w.AppendSnapshot(nil)) {
				t.Fatalf("a snapshot of a restored window: %v", err)
			}
		}
	})
}

// Records that die again after the group was set back have new numbers, and come in the order of those: their old places
// in the queue are no more.
func TestDyingAgainAfterReset(t *testing.T) {
	w := New(0, 1)
	deliver(w, Wish{Records: 3, End: 3, WindowMax: 10}, 1)
	w.Apply(&Op{Kind: Die, Base: 0, Next: 3, Reason: Nacked}, 0)
	w.Reset(0)
	deliver(w, Wish{Records: 3, End: 3, WindowMax: 10}, 2)
	for _, o := range []int64{2, 0, 1} {
		w.Apply(&Op{Kind: Die, Base: o, Next: o + 1, Reason: Nacked}, 0)
	}
	var got []Burial
	for _, b := range w.AppendDying(nil, 0, 10) {
		got = append(got, Burial{Offset: b.Offset, Number: b.Number})
	}
	if want := []Burial{{Offset: 2, Number: 3}, {Offset: 0, Number: 4}, {Offset: 1, Number: 5}}; !slices.Equal(got, want) {
		t.Fatalf("dying are %v, want %v", got, want)
	}
	w.check(t)
}
