package queue

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// check counts what a window keeps up to date, and holds each record against the rules of its fields.
func (w *Window) check(t interface{ Fatalf(string, ...any) }) {
	var byState [states]int
	var byMark [marks]int
	ready, text, lowest := 0, 0, w.high
	for o := w.low; o < w.high; o++ {
		r := w.at(o)
		byState[r.state]++
		byMark[r.mark]++
		slot := uint64(o) & uint64(len(w.ring)-1)
		is := w.ready[slot/64]>>(slot%64)&1 != 0
		if is {
			ready++
			lowest = min(lowest, o)
		}
		if may := r.mark == free && (r.state == Available || r.state == Delayed); is && !may || r.mark == free && r.state == Available && !is {
			t.Fatalf("record %d: state %d, mark %d, ready %v", o, r.state, r.mark, is)
		}
		if (r.mark == leased || r.mark == settling) && r.state != Available {
			t.Fatalf("record %d: state %d, mark %d", o, r.state, r.mark)
		}
		_, said := w.causes.of(r)
		text += len(said)
	}
	bits := 0
	for _, word := range w.ready {
		for ; word != 0; word &= word - 1 {
			bits++
		}
	}
	switch {
	case byState != w.byState || byMark != w.byMark || ready != w.readyCount || bits != ready || text != w.causes.bytes:
		t.Fatalf("counted %v %v, %d ready, %d bits, %d of text; the window says %v %v %d %d", byState, byMark, ready, bits, text, w.byState, w.byMark, w.readyCount, w.causes.bytes)
	case w.low > w.high || w.first > lowest || w.first < w.low:
		t.Fatalf("low %d, high %d, first %d, the lowest that is ready %d", w.low, w.high, w.first, lowest)
	case w.low < w.high && w.at(w.low).state == Settled:
		t.Fatalf("low %d is settled", w.low)
	case len(w.AppendSnapshot(nil)) > w.Bytes():
		t.Fatalf("a snapshot of %d bytes, and %d are reckoned", len(w.AppendSnapshot(nil)), w.Bytes())
	}
}

// plain is a window as a list of what is known of each record.
type plain struct {
	low     int64
	known   map[int64]durable
	burials int64
}

func (p *plain) apply(op *Op) {
	for o := max(op.Base, p.low); o < op.Next; o++ {
		d := p.known[o]
		dead := d.state == Dying || d.state == Dead
		switch {
		case d.state == Settled:
		case op.Kind == Settle:
			d = durable{state: Settled}
		case op.Kind == Lease && !dead:
			d = durable{attempts: op.Attempts}
		case op.Kind == Retry && !dead:
			d = durable{attempts: op.Attempts}
			if op.Time != 0 {
				d.state, d.at = Delayed, op.Time
			}
		case op.Kind == Die && !dead:
			d = durable{state: Dying, attempts: d.attempts, at: p.burials, reason: op.Reason, text: op.Text}
			p.burials++
		case op.Kind == Bury:
			d = durable{state: Dead, attempts: d.attempts, reason: op.Reason, text: op.Text}
		}
		p.known[o] = d
	}
	for p.known[p.low].state == Settled {
		delete(p.known, p.low)
		p.low++
	}
}

// flight is a delivery between its claim and its grant.
type flight struct {
	span   Span
	frame  int // that counts it; -1 not yet
	holder uint32
}

// rig is a group in one partition: its window, its log, and who has what.
type rig struct {
	w       *Window
	plain   plain
	stored  []Op
	frames  [][]Op // on their way
	ops     []Op   // in no frame yet
	flights []flight
	held    map[int64]uint32 // by the holders' own books
	until   map[int64]int64  // when they have lost it
	given   map[int64]int    // deliveries, as members have seen them
	holders uint32
	now     int64
	end     int64
	most    uint16
}

func newRig() *rig {
	return &rig{w: New(3, 9), plain: plain{low: 3, known: map[int64]durable{}}, held: map[int64]uint32{}, until: map[int64]int64{}, given: map[int64]int{}, most: 3}
}

func (r *rig) spent(spent []Range) {
	for _, s := range spent {
		kind := Die
		if s.Base%2 == 0 {
			kind = Bury
		}
		r.ops = Add(r.ops, Op{Kind: kind, Base: s.Base, Next: s.Next, Reason: Spent, Text: "why"[:s.Base%4]})
	}
}

// frame puts the ops that wait into a frame, as the shard does.
func (r *rig) frame() {
	if len(r.ops) == 0 {
		return
	}
	ops := r.ops
	slices.SortFunc(ops, func(a, b Op) int { return int(a.Base - b.Base) })
	merged := ops[:0]
	for _, op := range ops {
		merged = Add(merged, op)
	}
	r.frames, r.ops = append(r.frames, merged), nil
	for i := range r.flights {
		if r.flights[i].frame < 0 {
			r.flights[i].frame = len(r.frames) - 1
		}
	}
}

// durable lets the first n frames take effect.
func (r *rig) durable(t *rapid.T, n int) {
	for _, frame := range r.frames[:n] {
		body := Head{Owner: 4, Time: 5}.Append(nil)
		behind := int64(0)
		for i := range frame {
			body = frame[i].Append(body, behind)
			behind = frame[i].Next
		}
		head, parsed, err := Parse(body, nil)
		if err != nil || head != (Head{4, 5}) || !slices.Equal(parsed, frame) {
			t.Fatalf("%v becomes %v: %v", frame, parsed, err)
		}
		for i := range frame {
			r.w.Apply(&frame[i], core.QueueTextBytesMax)
			r.plain.apply(&frame[i])
		}
		r.stored = append(r.stored, frame...)
	}
	r.frames = slices.Delete(r.frames, 0, n)
	kept := r.flights[:0]
	for _, f := range r.flights {
		if f.frame -= n; f.frame >= 0 || f.frame+n < 0 {
			if f.frame+n < 0 {
				f.frame = -1
			}
			kept = append(kept, f)
			continue
		}
		for from := f.span.Base; ; {
			base, end, attempts := r.w.Claimed(f.span.Tag, from, f.span.Next)
			if base == f.span.Next || base >= end {
				break
			}
			for o := base; o < end; o++ {
				if holder, ok := r.held[o]; ok {
					t.Fatalf("record %d goes to %d, and %d has it", o, f.holder, holder)
				}
				if r.given[o]++; r.given[o] > int(r.most) {
					t.Fatalf("delivery %d of record %d, and %d are allowed", r.given[o], o, r.most)
				}
				if int(attempts) < r.given[o] {
					t.Fatalf("delivery %d of record %d is counted as %d", r.given[o], o, attempts)
				}
				r.held[o], r.until[o] = f.holder, r.now+100
			}
			r.w.Grant(f.span.Tag, base, end, f.holder, r.now+100)
			from = end
		}
	}
	r.flights = kept
}

// forget says that the holders have lost what they had.
func (r *rig) forget(which func(o int64) bool) {
	for o := range r.held {
		if which(o) {
			delete(r.held, o)
		}
	}
}

// lost says that everything that is not stored is gone; the process goes on.
func (r *rig) lost() {
	for _, frame := range r.frames {
		for i := range frame {
			r.w.Revert(frame[i].Base, frame[i].Next)
		}
	}
	for i := range r.ops {
		r.w.Revert(r.ops[i].Base, r.ops[i].Next)
	}
	for _, f := range r.flights {
		r.w.Unclaim(f.span.Tag, f.span.Base, f.span.Next)
	}
	r.frames, r.ops, r.flights = nil, nil, nil
}

// A queue group, whatever is leased, settled, given back, forgotten, lost and started again: no record is with two members,
// none is delivered more often than allowed, what is settled stays settled, and every start comes to the same.
func TestQueueModel(t *testing.T) {
	// A record lives through many steps.
	steps := flag.Lookup("rapid.steps")
	before := steps.Value.String()
	defer func() { _ = steps.Value.Set(before) }()
	if n, err := strconv.Atoi(before); err == nil {
		_ = steps.Value.Set(strconv.Itoa(8 * n))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		snapshot, snapshotAt := r.w.AppendSnapshot(nil), 0
		range2 := func(t *rapid.T) (int64, int64) {
			base := rapid.Int64Range(0, r.end+2).Draw(t, "base")
			return base, base + rapid.Int64Range(1, 6).Draw(t, "records")
		}
		start := func(t *rapid.T) *Window {
			w, err := Restore(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			for i := range r.stored[snapshotAt:] {
				w.Apply(&r.stored[snapshotAt:][i], core.QueueTextBytesMax)
			}
			return w
		}
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) { r.end += rapid.Int64Range(1, 40).Draw(t, "records") },
			"claim": func(t *rapid.T) {
				wish := Wish{Records: rapid.IntRange(1, 30).Draw(t, "records"), End: r.end, WindowMax: 50, AttemptsMax: r.most}
				before, inWindow := r.w.Claimable(&wish), r.w.Records()
				s, spent := r.w.Claim(&wish, nil)
				r.spent(spent)
				if before != (s.Records > 0 || len(spent) > 0) || s.Records > wish.Records {
					t.Fatalf("claimable %v: %+v, %v", before, s, spent)
				}
				if r.w.Records() > max(50, inWindow) {
					t.Fatalf("%d records in the window", r.w.Records())
				}
				if s.Records == 0 {
					return
				}
				// A read may find less, and gaps.
				next := rapid.Int64Range(s.Base, s.Next).Draw(t, "read up to")
				got := s.Records - r.w.Unclaim(s.Tag, next, s.Next)
				if rapid.IntRange(0, 4).Draw(t, "gap") == 0 && next > s.Base {
					for from := s.Base; from < min(next, s.Base+3); {
						base, end, _ := r.w.Claimed(s.Tag, from, min(next, s.Base+3))
						if base >= end {
							break
						}
						got -= r.w.Close(s.Tag, base, end)
						r.ops = Add(r.ops, Op{Kind: Settle, Base: base, Next: end})
						from = end
					}
				}
				for from := s.Base; ; {
					base, end, attempts := r.w.Claimed(s.Tag, from, next)
					if base >= end {
						break
					}
					r.ops = Add(r.ops, Op{Kind: Lease, Base: base, Next: end, Attempts: attempts + 1})
					got -= int(end - base)
					from = end
				}
				if got != 0 {
					t.Fatalf("%d records of a claim are not where they were", got)
				}
				r.holders++
				s.Next = next
				r.flights = append(r.flights, flight{s, -1, 1 + r.holders%3})
			},
			"settle": func(t *rapid.T) {
				holder, attempts := rapid.Uint32Range(1, 3).Draw(t, "holder"), rapid.Uint16Range(1, r.most).Draw(t, "attempt")
				from, next := range2(t)
				deed := rapid.IntRange(0, 4).Draw(t, "deed")
				for {
					base, end := r.w.Take(holder, attempts, from, next)
					if base >= end {
						break
					}
					for o := base; o < end; o++ {
						if r.held[o] != holder {
							t.Fatalf("%d settles record %d, and %d has it", holder, o, r.held[o])
						}
						delete(r.held, o)
						if deed == 2 {
							r.given[o]--
						}
					}
					op := Op{Kind: Settle, Base: base, Next: end}
					switch {
					case deed == 2:
						op.Kind, op.Attempts = Retry, attempts-1
					case deed == 1 && attempts < r.most:
						op.Kind, op.Attempts, op.Time = Retry, attempts, rapid.Int64Range(0, 20).Draw(t, "delay")
						if op.Time > 0 {
							op.Time += r.now
						}
					case deed == 1 || deed == 3:
						op.Kind, op.Reason, op.Text = Die, Rejected, "no"
					}
					r.ops = Add(r.ops, op)
					from = end
				}
			},
			"extend": func(t *rapid.T) {
				from, next := range2(t)
				r.w.Extend(2, 1, from, next, r.now+200)
				for o := from; o < next; o++ {
					if r.held[o] == 2 && r.w.at(o).attempts == 1 {
						r.until[o] = r.now + 200
					}
				}
			},
			"discard": func(t *rapid.T) {
				from, next := range2(t)
				if base, end := r.w.TakeDead(from, next); base < end {
					r.ops = Add(r.ops, Op{Kind: Settle, Base: base, Next: end})
				}
			},
			"bury": func(*rapid.T) {
				for _, b := range r.w.AppendDying(nil, 0, 1) {
					r.ops = Add(r.ops, Op{Kind: Settle, Base: b.Offset, Next: b.Offset + 1})
				}
			},
			"leave": func(t *rapid.T) {
				holder := rapid.Uint32Range(1, 3).Draw(t, "holder")
				r.spent(r.w.Leave(holder, r.most, nil))
				r.forget(func(o int64) bool { return r.held[o] == holder })
			},
			"expire": func(t *rapid.T) {
				r.now += rapid.Int64Range(0, 150).Draw(t, "time")
				over, spent := r.w.Expire(r.now, r.now, r.most, nil)
				r.spent(spent)
				before := len(r.held)
				r.forget(func(o int64) bool { return o < r.w.low || o >= r.w.high || r.w.at(o).mark != leased })
				for o := range r.held {
					if r.until[o] <= r.now {
						t.Fatalf("record %d is leased until %d, it is %d", o, r.until[o], r.now)
					}
				}
				if before-len(r.held) != over {
					t.Fatalf("%d leases are over, and %d were lost", over, before-len(r.held))
				}
				if lease, delay := r.w.Due(); lease <= r.now || delay <= r.now {
					t.Fatalf("due at %d and %d, it is %d", lease, delay, r.now)
				}
			},
			"trim": func(t *rapid.T) {
				to := rapid.Int64Range(0, r.end).Draw(t, "to")
				r.ops = Add(r.ops, Op{Kind: Settle, Base: 0, Next: to})
			},
			"frame": func(*rapid.T) { r.frame() },
			"sync": func(t *rapid.T) {
				r.durable(t, rapid.IntRange(0, len(r.frames)).Draw(t, "frames"))
				// What was trimmed is with nobody any more.
				r.forget(func(o int64) bool { return o < r.w.low || r.w.at(o).state == Settled })
			},
			"lose": func(*rapid.T) {
				r.lost()
				clear(r.held) // the books of members that were told of an error are open
				for o := r.w.low; o < r.w.high; o++ {
					if w := r.w.at(o); w.mark == leased {
						r.held[o], r.until[o] = w.tag, w.at
						r.given[o] = int(w.attempts)
					}
				}
			},
			"snapshot": func(*rapid.T) { snapshot, snapshotAt = r.w.AppendSnapshot(nil), len(r.stored) },
			"crash": func(t *rapid.T) {
				r.w = start(t)
				r.frames, r.ops, r.flights = nil, nil, nil
				clear(r.held)
			},
			"": func(t *rapid.T) {
				r.w.check(t)
				if r.w.low != r.plain.low {
					t.Fatalf("low %d, by the list %d", r.w.low, r.plain.low)
				}
				for o := r.w.low; o < max(r.w.high, r.end); o++ {
					got := durable{}
					if o < r.w.high {
						got = r.w.durable(o)
					}
					if got != r.plain.known[o] {
						t.Fatalf("record %d is %+v, by the list %+v", o, got, r.plain.known[o])
					}
				}
				again := start(t)
				again.check(t)
				if want, got := fmt.Sprintf("%x", r.w.AppendSnapshot(nil)), fmt.Sprintf("%x", again.AppendSnapshot(nil)); want != got {
					t.Fatalf("a start comes to %s instead of %s", got, want)
				}
				clone := r.w.Clone()
				clone.check(t)
				if string(clone.AppendSnapshot(nil)) != string(again.AppendSnapshot(nil)) {
					t.Fatalf("a clone is another window")
				}
				dying := r.w.AppendDying(nil, 0, math.MaxInt)
				if some := r.w.AppendDying(nil, 1, 2); len(dying) > 3 && dying[0].Number == 0 && !slices.Equal(some, dying[1:3]) {
					t.Fatalf("dying are %v, the second and third of them %v", dying, some)
				}
				last := int64(-1)
				for _, b := range dying {
					if int64(b.Number) <= last || r.plain.known[b.Offset].at != int64(b.Number) {
						t.Fatalf("burial %d of record %d behind %d", b.Number, b.Offset, last)
					}
					last = int64(b.Number)
				}
				if len(dying) != r.w.Dying() {
					t.Fatalf("%d are dying, %d are told", r.w.Dying(), len(dying))
				}
			},
		})
	})
}
