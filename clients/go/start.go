package pulsemq

import (
	"fmt"
	"time"
)

type startKind uint8

const (
	startEarliest startKind = iota
	startLatest
	startOffset
	startTime
)

// Start is a place in a partition. The zero value is the earliest record.
type Start struct {
	kind   startKind
	offset int64
	ms     int64
}

// StartEarliest is the first record that the partition still keeps.
func StartEarliest() Start { return Start{} }

// StartLatest is behind the last record: only what comes from now on.
func StartLatest() Start { return Start{kind: startLatest} }

// StartOffset is an offset; at the end of the log the consumer waits there for the next record.
func StartOffset(offset int64) Start { return Start{kind: startOffset, offset: offset} }

// StartTime is the first record whose time is at or after t, exact to the record. When there is none it is the end.
func StartTime(t time.Time) Start { return Start{kind: startTime, ms: t.UnixMilli()} }

// String says the place in words.
func (s Start) String() string {
	switch s.kind {
	case startLatest:
		return "latest"
	case startOffset:
		return fmt.Sprintf("offset %d", s.offset)
	case startTime:
		return "time " + time.UnixMilli(s.ms).UTC().Format(time.RFC3339Nano)
	}
	return "earliest"
}

// validate refuses places that no partition can have.
func (s Start) validate() error {
	if s.kind == startOffset && s.offset < 0 {
		return ErrInvalidRequest.Errorf("start offset %d: an offset is 0 or more; use StartEarliest or StartLatest for the ends", s.offset)
	}
	if s.kind == startTime && s.ms < 0 {
		return ErrInvalidRequest.Errorf("start time %s: times begin with 1970", time.UnixMilli(s.ms).UTC().Format(time.RFC3339))
	}
	return nil
}
