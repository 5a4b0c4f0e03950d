package main

import (
	"errors"
	"strings"
	"testing"
)

// A ledger that finds nothing is worth nothing: each kind of fault is found, and a whole log is not blamed.
func TestAuditFindsEveryFault(t *testing.T) {
	at := func(offset int64, number uint64) found { return found{offset: offset, stamp: stamp{1, number}} }
	for name, c := range map[string]struct {
		records []found
		start   int64
		want    string // in the fault; empty for none
		change  func(*ledger)
	}{
		"whole":                   {records: []found{at(0, 0), at(1, 1), at(2, 2)}},
		"not acknowledged":        {records: []found{at(0, 0), at(1, 1), at(2, 2), at(3, 3)}},
		"trimmed":                 {records: []found{at(1, 1), at(2, 2)}, start: 1, change: func(l *ledger) { l.mayTrim(1) }},
		"gone from the start":     {records: []found{at(1, 1), at(2, 2)}, start: 1, want: "only records below 0"},
		"gone from the end":       {records: []found{at(0, 0), at(1, 1)}, want: "acknowledged there was {1 2}"},
		"gone from the middle":    {records: []found{at(0, 0), at(2, 2)}, want: "[1, 2) are missing"},
		"twice":                   {records: []found{at(0, 0), at(1, 1), at(2, 2), at(3, 1)}, want: "is at offset 1 and at offset 3"},
		"out of order":            {records: []found{at(0, 0), at(1, 1), at(2, 2), at(3, 4), at(4, 3)}, want: "after its writer's number 4"},
		"another":                 {records: []found{at(0, 0), at(1, 3), at(2, 2)}, want: "offset 1 holds {1 3}"},
		"never sent":              {records: []found{at(0, 0), at(1, 1), at(2, 2), at(3, 9)}, want: "never sent"},
		"changed":                 {records: []found{at(0, 0), at(1, 1), {offset: 2, err: errContent}}, want: errContent.Error()},
		"two in one place":        {records: []found{at(0, 0), at(1, 1), at(2, 2)}, want: "acknowledged for", change: func(l *ledger) { l.ack(stamp{1, 4}, 1, "") }},
		"weak lost an end":        {records: []found{at(0, 0)}, change: func(l *ledger) { l.weak, l.crashes = true, 1 }},
		"weak lost without crash": {records: []found{at(0, 0)}, want: "1 stretches", change: func(l *ledger) { l.weak = true }},
		"weak lost the middle":    {records: []found{at(0, 1)}, want: "2 stretches", change: func(l *ledger) { l.weak, l.crashes = true, 1 }},
		"compacted":               {records: []found{at(1, 1), at(2, 2)}, change: func(l *ledger) { l.compacted = true; l.latest["k"] = 2 }},
		"compacted away":          {records: []found{at(1, 1)}, want: "key k", change: func(l *ledger) { l.compacted = true; l.latest["k"] = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger("t", 0)
			for n := range int64(5) {
				if s := l.next(1); n < 3 {
					l.ack(s, n, "")
				}
			}
			if c.change != nil {
				c.change(l)
			}
			end := int64(0)
			if n := len(c.records); n > 0 {
				end = c.records[n-1].offset + 1
			}
			faults := strings.Join(l.audit(c.records, c.start, end), "\n")
			if c.want == "" && faults != "" || !strings.Contains(faults, c.want) {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
		})
	}
}

func TestStampChecksEveryByte(t *testing.T) {
	s := stamp{7, 9}
	v := s.value(100)
	if got, err := stampOf(v); err != nil || got != s {
		t.Fatal(got, err)
	}
	for i := range v {
		v[i] ^= 1
		if _, err := stampOf(v); !errors.Is(err, errContent) {
			t.Fatalf("a change of byte %d is not seen", i)
		}
		v[i] ^= 1
	}
}
