package main

import (
	"fmt"
	"strings"
)

// linesKept is how many of the last events a trace can tell.
const linesKept = 60

// trace is a digest of everything that happened, and the last of it in words.
type trace struct {
	digest uint64
	count  int
	lines  [linesKept]line
	loud   bool // print every event
}

type line struct {
	at   int64
	what string
	args [4]int64
}

// note adds an event. What it is called says what the numbers mean.
func (t *trace) note(at int64, what string, args ...int64) {
	l := line{at: at, what: what}
	copy(l.args[:], args)
	t.mix(uint64(at))
	for i := range len(what) {
		t.digest = (t.digest ^ uint64(what[i])) * 0x100000001b3
	}
	for _, v := range l.args {
		t.mix(uint64(v))
	}
	t.lines[t.count%linesKept] = l
	t.count++
	if t.loud {
		fmt.Println(l.String())
	}
}

func (t *trace) mix(v uint64) {
	t.digest = (t.digest ^ v) * 0x9e3779b97f4a7c15
	t.digest ^= t.digest >> 29
}

func (l *line) String() string {
	return fmt.Sprintf("%12.6fs %-28s %d %d %d %d", float64(l.at)/1e9, l.what, l.args[0], l.args[1], l.args[2], l.args[3])
}

// last tells the latest events.
func (t *trace) last() string {
	var b strings.Builder
	for i := max(0, t.count-linesKept); i < t.count; i++ {
		b.WriteString(t.lines[i%linesKept].String())
		b.WriteByte('\n')
	}
	return b.String()
}
