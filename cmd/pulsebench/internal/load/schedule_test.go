package load

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// All connections together offer the rate that was asked for, evenly, and each request has one due time whoever looks.
func TestSchedulesOfAllConnectionsMakeTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		connections := rapid.IntRange(1, 20).Draw(t, "connections")
		records := rapid.IntRange(1, 1000).Draw(t, "records")
		perSecond := rapid.IntRange(10, 5000).Draw(t, "requests a second")
		pace := NewPace(int64(time.Hour), 2*time.Second, float64(perSecond*records), records, connections)
		due := 0
		for c := range connections {
			s := pace.Schedule(c)
			last := int64(-1)
			for {
				at, ready := s.Next(pace.Start + int64(2*time.Second) - 1)
				if !ready {
					break
				}
				if at <= last || at < pace.Start || at >= pace.Start+int64(2*time.Second) {
					t.Fatalf("connection %d: due at %d after %d", c, at, last)
				}
				last = at
				s.Sent()
				due++
			}
		}
		if low, high := 2*perSecond-connections, 2*perSecond+connections; due < low || due > high {
			t.Fatalf("%d requests are due in two seconds, want %d", due, 2*perSecond)
		}
	})
}

// Whoever sleeps until Wake misses nothing and is not woken for nothing.
func TestWakeIsWhenSomethingBecomesDue(t *testing.T) {
	s := NewPace(100, time.Second, 1000, 1, 4).Schedule(2) // every 4 ms from 2 ms on
	now, due := int64(0), 0
	for {
		at, more := s.Wake(now)
		if !more {
			break
		}
		if _, early := s.Next(at - 1); early {
			t.Fatalf("something was due before %d", at)
		}
		if got, ready := s.Next(at); !ready || got != at {
			t.Fatalf("woken at %d for what is due at %d", at, got)
		}
		s.Sent()
		now = at
		due++
	}
	if due != 250 {
		t.Errorf("woken %d times, want 250", due)
	}
	flat := NewPace(0, time.Second, 0, 1, 1).Schedule(0)
	if _, more := flat.Wake(5); more {
		t.Error("flat out there is nothing to wake for")
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(2)
	taken := 0
	for range 5 {
		if b.Take() {
			taken++
		}
	}
	if taken != 2 {
		t.Errorf("%d were taken of a budget of two", taken)
	}
	b.Return()
	if again := b.Take(); !again {
		t.Error("what was returned cannot be taken")
	}
	var none *Budget
	none.Return()
	if !none.Take() {
		t.Error("no budget has an end")
	}
}
