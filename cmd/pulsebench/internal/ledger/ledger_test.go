package ledger

import (
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"pgregory.net/rapid"
)

// log is a log as a test thinks it up: the marks of each partition in their order.
type log struct {
	ledger *Ledger
	offset map[uint32]int64
}

func newLog(producers int) *log {
	return &log{New(Shape{Run: 1, Producers: producers, Partitions: 4, RecordsPerMark: 10}), map[uint32]int64{}}
}

// acked sends n marks and acknowledges each at the next place of its partition.
func (l *log) acked(producer, n int, partition func(i int) uint32) (marks []payload.Mark, places []Place) {
	for i := range n {
		p := partition(i)
		at := Place{p, l.offset[p]}
		l.offset[p] += 10
		counter := l.ledger.Stream(producer).Send()
		l.ledger.Stream(producer).Ack(counter, at)
		marks = append(marks, payload.Mark{Run: 1, Producer: uint32(producer), Counter: counter})
		places = append(places, at)
	}
	return marks, places
}

func one(int) uint32 { return 1 }

func TestEveryFaultIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		read func(l *log, marks []payload.Mark, places []Place)
		want Verdict
	}{
		{"nothing wrong", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i], places[i])
			}
		}, Verdict{}},
		{"a lost record", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				if i != 3 {
					l.ledger.Find(marks[i], places[i])
				}
			}
		}, Verdict{Lost: 10}},
		{"the last one lost", func(l *log, marks []payload.Mark, places []Place) {
			for i := range len(marks) - 1 {
				l.ledger.Find(marks[i], places[i])
			}
		}, Verdict{Lost: 10}},
		{"a duplicated record", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i], places[i])
			}
			l.ledger.Find(marks[2], Place{1, 1000})
		}, Verdict{Duplicated: 10}},
		{"two records swapped", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i^1], places[i])
			}
		}, Verdict{Reordered: 40, Misplaced: 1}},
		{"a record in another partition", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				if i == 4 {
					places[i].Partition = 2
				}
				l.ledger.Find(marks[i], places[i])
			}
		}, Verdict{Misplaced: 1}},
		{"a record that nobody sent", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i], places[i])
			}
			l.ledger.Find(payload.Mark{Run: 1, Counter: 8}, Place{1, 80})
		}, Verdict{Unknown: 10}},
		{"a producer there is none of", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i], places[i])
			}
			l.ledger.Find(payload.Mark{Run: 1, Producer: 7}, Place{1, 80})
		}, Verdict{Damaged: 1}},
		{"another run's record", func(l *log, marks []payload.Mark, places []Place) {
			for i := range marks {
				l.ledger.Find(marks[i], places[i])
			}
			if l.ledger.Find(payload.Mark{Run: 2, Counter: 1}, Place{1, 80}) {
				panic("another run's mark was taken for ours")
			}
		}, Verdict{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog(1)
			marks, places := l.acked(0, 8, one)
			c.read(l, marks, places)
			if got := l.ledger.Verdict(); got != c.want {
				t.Errorf("the verdict is %+v, want %+v", got, c.want)
			}
			if c.want.Clean() != l.ledger.Verdict().Clean() {
				t.Error("Clean disagrees")
			}
		})
	}
}

// What was refused may be there or not; what was expected without an answer must be there.
func TestUnacknowledgedMayBeThereOrNot(t *testing.T) {
	l := newLog(1)
	s := l.ledger.Stream(0)
	for range 4 {
		s.Expect(s.Send())
	}
	s.Send() // never answered, not found
	s.Send() // never answered, found
	s.Refuse(1)
	s.Refuse(2)
	for _, counter := range []uint64{0, 2, 5} {
		l.ledger.Find(payload.Mark{Run: 1, Counter: counter}, Place{0, int64(counter) * 10})
	}
	if got, want := l.ledger.Verdict(), (Verdict{Lost: 10}); got != want {
		t.Errorf("the verdict is %+v, want %+v: only mark 3 is lost", got, want)
	}
	if got := l.ledger.Acked(); got != 20 {
		t.Errorf("%d records are acknowledged, want 20", got)
	}
}

// Reading before the acknowledgement must come to the same as reading after it.
func TestOrderOfAckAndFindDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLog(2)
		type event struct {
			producer int
			counter  uint64
			at       Place
			find     bool
		}
		var events []event
		lost := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "marks") {
			producer := rapid.IntRange(0, 1).Draw(t, "producer")
			p := rapid.Uint32Range(0, 3).Draw(t, "partition")
			at := Place{p, l.offset[p]}
			l.offset[p] += 10
			counter := l.ledger.Stream(producer).Send()
			events = append(events, event{producer, counter, at, false})
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				lost += 10
				continue
			}
			events = append(events, event{producer, counter, at, true})
		}
		// Finds keep the order of the log, acknowledgements come whenever they come.
		finds, acks := []event{}, []event{}
		for _, e := range events {
			if e.find {
				finds = append(finds, e)
			} else {
				acks = append(acks, e)
			}
		}
		acks = rapid.Permutation(acks).Draw(t, "acks")
		for len(finds)+len(acks) > 0 {
			if len(acks) == 0 || len(finds) > 0 && rapid.Bool().Draw(t, "find") {
				e := finds[0]
				finds = finds[1:]
				l.ledger.Find(payload.Mark{Run: 1, Producer: uint32(e.producer), Counter: e.counter}, e.at)
				continue
			}
			e := acks[0]
			acks = acks[1:]
			l.ledger.Stream(e.producer).Ack(e.counter, e.at)
		}
		if got, want := l.ledger.Verdict(), (Verdict{Lost: lost}); got != want {
			t.Fatalf("the verdict is %+v, want %+v", got, want)
		}
		if l.ledger.Missing()*10 != lost {
			t.Fatalf("%d marks are missing, want %d", l.ledger.Missing(), lost/10)
		}
	})
}

func TestAccountAllocatesNothing(t *testing.T) {
	l := newLog(1)
	s := l.ledger.Stream(0)
	for range 5000 {
		s.Ack(s.Send(), Place{})
	}
	for counter := range uint64(4000) {
		l.ledger.Find(payload.Mark{Run: 1, Counter: counter}, Place{})
	}
	counter := uint64(4000)
	if n := testing.AllocsPerRun(500, func() {
		s.Ack(s.Send(), Place{})
		l.ledger.Find(payload.Mark{Run: 1, Counter: counter}, Place{})
		counter++
	}); n > 0 {
		t.Errorf("a mark costs %v allocations", n)
	}
}
