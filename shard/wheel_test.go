package shard

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type testWait struct {
	timer timer
	at    int64
	set   int64 // when it was armed
	fired func(*testWait)
}

func (w *testWait) expire() { w.fired(w) }

const tickNanos = 1 << wheelTickBits

// The wheel against a list of times: never early, at most a tick late, each once.
func TestWheelModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w wheel
		now := rapid.Int64Range(0, 1<<40).Draw(t, "start")
		w.init(now)
		var armed []*testWait
		fired := func(x *testWait) {
			at := slices.Index(armed, x)
			if at < 0 {
				t.Fatal("a timer fired that was not armed")
			}
			if now < x.at {
				t.Fatalf("fired at %d, was due at %d", now, x.at)
			}
			armed = slices.Delete(armed, at, at+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				x := &testWait{at: now + rapid.Int64Range(-tickNanos, 3*wheelSlots*tickNanos).Draw(t, "after"), set: now, fired: fired}
				w.arm(&x.timer, x, x.at)
				armed = append(armed, x)
			},
			"arm again": func(t *rapid.T) {
				if len(armed) > 0 {
					x := rapid.SampledFrom(armed).Draw(t, "timer")
					x.at, x.set = now+rapid.Int64Range(0, 9*tickNanos).Draw(t, "after"), now
					w.arm(&x.timer, x, x.at)
				}
			},
			"disarm": func(t *rapid.T) {
				if len(armed) > 0 {
					at := rapid.IntRange(0, len(armed)-1).Draw(t, "timer")
					w.disarm(&armed[at].timer)
					armed = slices.Delete(armed, at, at+1)
				}
			},
			"advance": func(t *rapid.T) {
				step := rapid.Int64Range(0, 5*tickNanos).Draw(t, "step")
				if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
					step = rapid.Int64Range(0, 4*wheelSlots*tickNanos).Draw(t, "pause")
				}
				now += step
				w.advance(now)
			},
			"": func(t *rapid.T) {
				wait := w.wait(now, 1<<50)
				for _, x := range armed {
					if w.tick == now>>wheelTickBits && max(x.at, x.set)+tickNanos < now {
						t.Fatalf("due at %d, not fired at %d", x.at, now)
					}
					if late := max(x.at, now) + tickNanos; now+wait > late {
						t.Fatalf("wait %d sleeps past a timer due in %d", wait, x.at-now)
					}
				}
				if w.armed != len(armed) {
					t.Fatalf("%d armed, want %d", w.armed, len(armed))
				}
			},
		})
	})
}

// A timer that arms another of the same slot while it expires must not lose either.
func TestWheelOwnerArmsWhileExpiring(t *testing.T) {
	var w wheel
	w.init(0)
	var order []string
	second := &testWait{fired: func(*testWait) { order = append(order, "second") }}
	third := &testWait{fired: func(*testWait) { order = append(order, "third") }}
	first := &testWait{fired: func(*testWait) {
		order = append(order, "first")
		w.disarm(&third.timer)
		w.arm(&second.timer, second, wheelSlots*tickNanos)
	}}
	w.arm(&first.timer, first, 0)
	w.arm(&third.timer, third, 0)
	w.advance(tickNanos)
	w.advance((wheelSlots + 1) * tickNanos)
	if !slices.Equal(order, []string{"first", "second"}) {
		t.Errorf("order %v", order)
	}
}

func TestWheelAllocatesNothing(t *testing.T) {
	var w wheel
	w.init(0)
	x := &testWait{fired: func(*testWait) {}}
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		w.arm(&x.timer, x, now+10*tickNanos)
		w.disarm(&x.timer)
		w.arm(&x.timer, x, now)
		now += 2 * tickNanos
		w.advance(now)
		w.wait(now, 1e9)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
