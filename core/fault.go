package core

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong in what an operator or a client configured. Faults
// are gathered and reported together, so that nobody fixes them one by one.
type Fault struct {
	Key     string // the key, as given
	Value   string // the value, as given; empty when the key itself is wrong
	Source  string // where it came from: a file and line, a variable, a flag; may be empty
	Problem string // what is wrong, what is allowed, and what to do
}

// Error is one line: the key and value quoted and cut, so that no input can
// break a log line or flood it.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(Quote(f.Key))
	if f.Value != "" {
		b.WriteString(" = " + Quote(f.Value))
	}
	if f.Source != "" {
		b.WriteString(" (" + f.Source + ")")
	}
	b.WriteString(": " + f.Problem)
	return b.String()
}

// Faults is an error of one line per fault.
type Faults []Fault

// Error joins the faults with line breaks.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// quoteBytesMax is how much of a foreign text an error repeats.
const quoteBytesMax = 64

// Quote writes foreign text in Go quotes, with what is not printable escaped and
// what is too long cut.
func Quote(text string) string {
	if len(text) <= quoteBytesMax {
		return fmt.Sprintf("%+q", text)
	}
	return fmt.Sprintf("%+q... (%d bytes)", text[:quoteBytesMax], len(text))
}

// Nearest returns the name closest to the one given, for "did you mean", or ""
// when none is close enough to be what was meant.
func Nearest(given string, names []string) string {
	if len(given) > 2*quoteBytesMax {
		return ""
	}
	best, bestDistance := "", 1+max(2, len(given)/3)
	for _, name := range names {
		if d := editDistance(given, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
