package segment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// DamageRange is a range of records that the disk lost below the durable point.
type DamageRange struct {
	Start, Next           core.Offset // [Start, Next)
	IndexFirst, IndexNext core.Index  // [IndexFirst, IndexNext); both 0 when not known
	File                  string      // that should hold them; empty when no file is known to
	Found                 int64       // wall clock when this process met it first
	Cause                 error
}

// How damage was met, as the log tells it.
const (
	damageOfLog     = "a log is damaged below its durable point"
	damageOfSegment = "a sealed segment is damaged"
	damageOfRead    = "a read met damage"
	damageOfGap     = "stored records are missing"
	damageOfHeader  = "a segment's header was damaged and is written again"
	damageOfIndex   = "an index file is damaged and is made again from its segment"
	damageOfState   = "a state file is damaged; an older one and the log stand in for it"
)

// blemishesMax bounds what is remembered per log of damage that took no record, so
// that it is told once. A log with more tells of the oldest again.
const blemishesMax = 64

// blemish is a damaged place of a file that holds no record: a header, a mark,
// padding, or a file that can be made again.
type blemish struct {
	file  string
	start int64
}

// Damaged are the ranges that recovery, a read or the scrubber found missing below
// the durable point, in ascending order and without overlap. It is read-only.
func (l *Log) Damaged() []DamageRange { return l.damaged }

// noteDamage takes a damaged range over and tells the operator, once: how says who
// met it. A range that is known is not news, however often it is met; one that
// reaches further than what is known replaces it.
func (s *Store) noteDamage(l *Log, d DamageRange, how string) (news bool) {
	first := -1
	for i := 0; i < len(l.damaged); i++ {
		known := &l.damaged[i]
		if known.Start <= d.Start && known.Next >= d.Next && (d.Start < d.Next || known.IndexFirst <= d.IndexFirst && known.IndexNext >= d.IndexNext) {
			return false
		}
		if known.Start < d.Next && d.Start < known.Next {
			d.Start, d.Next = min(d.Start, known.Start), max(d.Next, known.Next)
			switch {
			case d.IndexNext == 0:
				d.IndexFirst, d.IndexNext = known.IndexFirst, known.IndexNext
			case known.IndexNext != 0:
				d.IndexFirst, d.IndexNext = min(d.IndexFirst, known.IndexFirst), max(d.IndexNext, known.IndexNext)
			}
			l.damaged = slices.Delete(l.damaged, i, i+1)
			first = i
			i--
		}
	}
	d.Found = s.wall
	at, _ := slices.BinarySearchFunc(l.damaged, d.Start, func(k DamageRange, start core.Offset) int { return int(min(max(k.Start-start, -1), 1)) })
	l.damaged = slices.Insert(l.damaged, at, d)
	if first < 0 {
		s.stats.Damages++
	}
	s.log.Error(how, append(l.attributes(), "offsets", fmt.Sprintf("[%d, %d)", d.Start, d.Next), "file", d.File, "error", d.Cause)...)
	return first < 0
}

// noteHoles takes over what a scan of a segment found. It says how many places were
// news, and how many of those took records.
func (s *Store) noteHoles(l *Log, file string, holes []Hole, how string) (news, records int) {
	for i := range holes {
		h := &holes[i]
		if h.OffsetFirst >= h.OffsetNext {
			if s.noteBlemish(l, file, h.Start, h.Cause, how) {
				news++
			}
			continue
		}
		if s.noteDamage(l, DamageRange{
			Start: h.OffsetFirst, Next: h.OffsetNext, IndexFirst: h.IndexFirst, IndexNext: h.IndexNext, File: file, Cause: h.Cause,
		}, how) {
			news++
			records++
		}
	}
	return news, records
}

// forgetUnreadable drops what the device once did not give of a stretch of a file,
// [first, next) in index, and now gave whole.
func (l *Log) forgetUnreadable(file string, first, next core.Index) {
	l.damaged = slices.DeleteFunc(l.damaged, func(d DamageRange) bool {
		return d.File == file && d.IndexFirst >= first && d.IndexNext <= next && d.IndexNext > 0 && errors.Is(d.Cause, ErrUnreadable)
	})
}

// noteBlemish tells of damage that took no record, once.
func (s *Store) noteBlemish(l *Log, file string, start int64, cause error, how string) (news bool) {
	b := blemish{file, start}
	if slices.Contains(l.blemishes, b) {
		return false
	}
	if len(l.blemishes) == blemishesMax {
		l.blemishes = slices.Delete(l.blemishes, 0, 1)
	}
	l.blemishes = append(l.blemishes, b)
	s.log.Error(how, append(l.attributes(), "offsets", "none", "file", file, "position", start, "error", cause)...)
	return true
}

// forgetBlemish forgets the damage of a file that was made anew.
func (l *Log) forgetBlemish(file string) {
	l.blemishes = slices.DeleteFunc(l.blemishes, func(b blemish) bool { return b.file == file })
}

// forgetDamage drops what is known of ranges below the log start: nobody can read
// them any more.
func (l *Log) forgetDamage() {
	l.damaged = slices.DeleteFunc(l.damaged, func(d DamageRange) bool { return d.Next <= l.start })
}

// attributes name the log in a line for operators.
func (l *Log) attributes() []any {
	if l.id.Name != "" {
		return []any{"topic", l.id.Name, "partition", l.id.Number, "topic_id", l.id.Topic.String(), "partition_id", l.id.Partition}
	}
	return []any{"partition", l.id.Number, "topic_id", l.id.Topic.String(), "partition_id", l.id.Partition}
}
