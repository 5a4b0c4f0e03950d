package ledger

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

// Ledger is the account of one run. It is safe for use by many goroutines.
type Ledger struct {
	run        payload.Run
	records    uint64 // that each mark speaks for
	partitions uint32
	streams    []*Stream // by producer

	found  atomic.Uint64 // marks of this run, however often
	damage damage
}

// Shape says how large a run is.
type Shape struct {
	Run            payload.Run
	Producers      int
	Partitions     uint32
	RecordsPerMark int
	Unordered      bool // what was sent may be found in any order
}

// New opens the account of a run.
func New(shape Shape) *Ledger {
	l := &Ledger{run: shape.Run, records: uint64(shape.RecordsPerMark), partitions: shape.Partitions}
	for range shape.Producers {
		l.streams = append(l.streams, &Stream{next: make([]uint64, shape.Partitions), unordered: shape.Unordered})
	}
	return l
}

// Stream is the account of a producer.
func (l *Ledger) Stream(producer int) *Stream { return l.streams[producer] }

// Find writes down a mark that was read. It is false when the mark is another run's, which is none of this account's
// business.
func (l *Ledger) Find(mark payload.Mark, at Place) bool {
	if mark.Run != l.run {
		return false
	}
	if int(mark.Producer) >= len(l.streams) || at.Partition >= l.partitions {
		l.Damage(at, fmt.Sprintf("producer %d was never started", mark.Producer))
		return true
	}
	l.found.Add(1)
	l.streams[mark.Producer].find(mark.Counter, at)
	return true
}

// Damage writes down a batch of this run that is not as it was sent.
func (l *Ledger) Damage(at Place, problem string) { l.damage.add(at, problem) }

// Hole writes down offsets that are missing in front of a batch.
func (l *Ledger) Hole(at Place, offsets int64) { l.damage.hole(at, offsets) }

// Again writes down offsets that were read once more, from a place on.
func (l *Ledger) Again(at Place, offsets int64) { l.damage.repeat(at, offsets) }

// Damages says where what is damaged or missing lies, up to a bound.
func (l *Ledger) Damages() []string { return l.damage.list() }

// Found is the number of marks read so far.
func (l *Ledger) Found() uint64 { return l.found.Load() }

// Missing is the number of marks that are acknowledged and have not been found yet.
func (l *Ledger) Missing() uint64 {
	var n uint64
	for _, s := range l.streams {
		s.mu.Lock()
		n += s.missing
		s.mu.Unlock()
	}
	return n
}

// Acked is the number of records acknowledged.
func (l *Ledger) Acked() uint64 {
	var n uint64
	for _, s := range l.streams {
		s.mu.Lock()
		n += s.ackedCount
		s.mu.Unlock()
	}
	return n * l.records
}

// Verdict is what the log turned out to hold, in records unless stated. The zero value is a clean log.
type Verdict struct {
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	Misplaced  uint64 `json:"misplaced"` // producers of whose records some lie elsewhere than acknowledged
	Unknown    uint64 `json:"unknown"`
	Damaged    uint64 `json:"damaged"` // batches with other bytes than were sent
	Holes      uint64 `json:"holes"`   // offsets that no record has
}

// Verdict closes the account: what has not been found is lost.
func (l *Ledger) Verdict() Verdict {
	v := l.damage.verdict()
	for _, s := range l.streams {
		s.mu.Lock()
		v.Lost += s.missing * l.records
		v.Duplicated += s.duplicated * l.records
		v.Reordered += s.reordered * l.records
		v.Unknown += s.unknown * l.records
		if s.misplaced() {
			v.Misplaced++
		}
		s.mu.Unlock()
	}
	return v
}

// Clean reports whether nothing is wrong.
func (v Verdict) Clean() bool { return v == Verdict{} }

// String says what is wrong, in one line.
func (v Verdict) String() string {
	if v.Clean() {
		return "0 lost, 0 duplicated, 0 reordered"
	}
	parts := []string{fmt.Sprintf("%d lost, %d duplicated, %d reordered", v.Lost, v.Duplicated, v.Reordered)}
	for _, more := range []struct {
		n    uint64
		what string
	}{
		{v.Misplaced, "producers with records elsewhere than acknowledged"},
		{v.Unknown, "that nobody sent"},
		{v.Damaged, "batches damaged"},
		{v.Holes, "offsets without a record"},
	} {
		if more.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	return strings.Join(parts, ", ")
}
