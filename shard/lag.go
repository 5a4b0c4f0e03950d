package shard

import (
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
)

// GroupLag is how far a group is behind in the partitions of a shard.
type GroupLag struct {
	Group      string
	Partitions int
	Records    int64
	// Nanos is the age of the oldest record that is not committed, as far as it was seen:
	// since the first picture that showed it.
	Nanos int64
}

const (
	// lagEntriesMax bounds the offsets that one picture looks at, about: it looks at whole
	// partitions. What is more is looked at by the next ones.
	lagEntriesMax = 20_000

	// lagMarksMax bounds the marks of a partition.
	lagMarksMax = 32
)

// lagMarks remember when a partition's high watermark was where. When they are full, every
// second one goes, so that they reach back far, and are the closer the younger they are.
type lagMarks []lagMark

type lagMark struct {
	end core.Offset
	at  int64 // monotonic
}

// note takes down where the high watermark is now.
func (l *lagMarks) note(end core.Offset, now int64) {
	if n := len(*l); n > 0 && (*l)[n-1].end >= end {
		for n > 0 && (*l)[n-1].end > end { // the log was cut
			n--
		}
		*l = (*l)[:n]
		return
	}
	if len(*l) == lagMarksMax {
		kept := (*l)[:0]
		for i := 0; i < lagMarksMax; i += 2 {
			kept = append(kept, (*l)[i])
		}
		*l = kept
	}
	*l = append(*l, lagMark{end, now})
}

// age is for how long the record at an offset is known to be there.
func (l lagMarks) age(offset core.Offset, now int64) int64 {
	i, _ := slices.BinarySearchFunc(l, offset, func(m lagMark, offset core.Offset) int {
		if m.end > offset {
			return 1
		}
		return -1
	})
	if i == len(l) {
		return 0
	}
	return now - l[i].at
}

// lagPass adds up what groups are behind, some partitions at a time.
type lagPass struct {
	next int // of machine.cursorPartitions
	sums map[string]*GroupLag
	done []GroupLag // of the last whole pass, in the order of names; never changed
}

// lags goes on with the pass, and returns the sums of the last one that came to its end.
func (m *Machine) lags() []GroupLag {
	pass := &m.lag
	if pass.sums == nil {
		pass.sums = make(map[string]*GroupLag)
	}
	for entries := 0; pass.next < len(m.cursorPartitions); pass.next++ {
		if entries >= lagEntriesMax {
			return pass.done
		}
		p := m.cursorPartitions[pass.next]
		if p.gone || p.log == nil || p.coordinator != nil {
			continue
		}
		end, start := p.highWatermark(), p.log.StartOffset()
		p.cursors.marks.note(end, m.now)
		entries += 1 + p.cursors.table.Groups()
		p.cursors.table.Each(func(group string, s *cursor.State) { // sums alone: no order shows
			if s.Offset < 0 {
				return
			}
			sum := pass.sums[group]
			if sum == nil {
				sum = &GroupLag{Group: group}
				pass.sums[group] = sum
			}
			at := max(core.Offset(s.Offset), start)
			sum.Partitions++
			if at < end {
				sum.Records += int64(end - at)
				sum.Nanos = max(sum.Nanos, p.cursors.marks.age(at, m.now))
			}
		})
	}
	done := make([]GroupLag, 0, len(pass.sums))
	for _, sum := range pass.sums {
		done = append(done, *sum)
	}
	slices.SortFunc(done, func(a, b GroupLag) int { return strings.Compare(a.Group, b.Group) })
	*pass = lagPass{done: done}
	return done
}
