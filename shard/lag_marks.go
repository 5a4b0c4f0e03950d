package shard

import (
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// lagMarksMax bounds the marks of a partition: with 64 of them, each a quarter older than
	// the next, they reach back from two seconds to a month.
	lagMarksMax = 64

	// lagDoubt is how far apart marks may be before the log is asked, or else a part of the
	// age: what is a day behind need not be told to the second.
	lagDoubt     = int64(2 * time.Second)
	lagDoubtPart = 4
)

// lagMarks say when records of a partition were stored: those below a mark's end at its time
// or before, the others not before.
//
// Invariants: ends rise strictly, times never fall; there are at most lagMarksMax.
type lagMarks []lagMark

type lagMark struct {
	base core.Offset // what lies in [base, end) was stored at that very time
	end  core.Offset
	at   int64 // monotonic; below 0 it was before this clock began
}

// note takes down that the high watermark is at end now.
func (l *lagMarks) note(end core.Offset, now int64) {
	n := len(*l)
	for n > 0 && (*l)[n-1].end > end { // the log was cut
		n--
	}
	if *l = (*l)[:n]; n > 0 && (*l)[n-1].end == end {
		return
	}
	l.insert(n, lagMark{end, end, now}, now)
}

// learn takes down when [base, end) was stored, as the log says.
func (l *lagMarks) learn(base, end core.Offset, at, now int64) {
	i := l.behind(base)
	if i == len(*l) { // cut meanwhile, or not visible yet
		return
	}
	at = min(at, (*l)[i].at)
	if i > 0 {
		at = max(at, (*l)[i-1].at)
	}
	if (*l)[i].end <= end { // of a batch that a mark lies in
		if (*l)[i].base > base {
			(*l)[i].base, (*l)[i].at = base, at
		}
		return
	}
	l.insert(i, lagMark{base, end, at}, now)
}

func (l *lagMarks) insert(i int, mark lagMark, now int64) {
	*l = slices.Insert(*l, i, mark)
	if len(*l) > lagMarksMax {
		l.thin(now)
	}
}

// thin gives up the mark that is missed least: the gap that it leaves is the smallest part of
// its age. The ends stay: the first says how old the oldest is, the last what is new.
func (l *lagMarks) thin(now int64) {
	least, place := 0.0, -1
	for i := 1; i < len(*l)-1; i++ {
		gap, age := (*l)[i+1].at-(*l)[i-1].at, max(now-(*l)[i+1].at, lagDoubt*lagDoubtPart)
		if part := float64(gap) / float64(age); place < 0 || part < least {
			least, place = part, i
		}
	}
	*l = slices.Delete(*l, place, place+1)
}

// trim forgets what no offset from oldest on asks for.
func (l *lagMarks) trim(oldest core.Offset) {
	if n := l.behind(oldest) - 1; n > 0 { // the one before says how far the doubt reaches
		*l = slices.Delete(*l, 0, n)
	}
}

// behind is the first mark whose end lies behind an offset, or their number.
func (l lagMarks) behind(offset core.Offset) int {
	i, _ := slices.BinarySearchFunc(l, offset, func(m lagMark, offset core.Offset) int {
		if m.end > offset {
			return 1
		}
		return -1
	})
	return i
}

// age is for how long the record at an offset is there, at least, and whether it may be there
// for much longer.
func (l lagMarks) age(offset core.Offset, now int64) (age int64, doubt bool) {
	i := l.behind(offset)
	if i == len(l) {
		return 0, false
	}
	age = now - l[i].at
	switch {
	case offset >= l[i].base:
		return age, false
	case i == 0:
		return age, true
	}
	return age, l[i].at-l[i-1].at > max(lagDoubt, age/lagDoubtPart)
}
