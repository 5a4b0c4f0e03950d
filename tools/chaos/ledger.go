package main

import (
	"fmt"
	"sync"
)

// ledger is what the broker has promised about one partition, and what it has been sent.
type ledger struct {
	topic     string
	partition uint32
	unsynced  bool // it is acknowledged before the disk has it
	weak      bool // a crash may take a suffix
	compacted bool // older records of a key may be gone

	mu      sync.Mutex
	acked   map[int64]stamp   // where an acknowledged message was stored
	where   map[stamp]int64   // the same the other way round
	latest  map[string]int64  // compacted: the offset of the newest acknowledged message of a key
	sent    map[uint64]uint64 // writer: the number of its next message
	trimmed int64             // the highest offset below which records may be gone
	retains bool              // retention removes the oldest segments at any time
	crashes int               // how often a suffix may have gone
	faults  []string          // what was noticed while sending
	hurt    bool              // bytes at rest were changed: what lies in gaps may be gone
	rotted  int               // how many bits of its segments were changed
	gaps    []gap             // what the broker called damaged, at the last read
}

func newLedger(topic string, partition uint32) *ledger {
	return &ledger{topic: topic, partition: partition, acked: map[int64]stamp{}, where: map[stamp]int64{}, latest: map[string]int64{}, sent: map[uint64]uint64{}}
}

// next takes the number of a writer's next message.
func (l *ledger) next(writer uint64) stamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := stamp{writer, l.sent[writer]}
	l.sent[writer]++
	return s
}

// ack notes where a message is stored.
func (l *ledger) ack(s stamp, offset int64, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < 0 {
		return // a duplicate whose place is forgotten: stored, and once
	}
	if other, taken := l.acked[offset]; taken && other != s && !l.weak {
		l.faults = append(l.faults, fmt.Sprintf("offset %d was acknowledged for %v and for %v", offset, other, s))
	}
	l.acked[offset] = s
	l.where[s] = offset
	if l.compacted {
		if was, ok := l.latest[key]; !ok || was < offset {
			l.latest[key] = offset
		}
	}
}

// mayTrim notes that records below an offset may be gone from now on.
func (l *ledger) mayTrim(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = max(l.trimmed, offset)
}

// counts is how many messages were sent and acknowledged.
func (l *ledger) counts() (sent, acked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.sent {
		sent += int(n)
	}
	return sent, len(l.where)
}

// found is a record as a consumer got it.
type found struct {
	offset int64
	stamp  stamp
	err    error // the value is not what was sent
}

// gap is a range of offsets that the broker called damaged: [base, next).
type gap struct{ base, next int64 }

// inGaps says whether all offsets of [base, next) may be gone, because bytes at rest were changed and the broker named
// them.
func (l *ledger) inGaps(base, next int64) bool {
	if !l.hurt {
		return false
	}
	for _, g := range l.gaps { // in the order of their offsets, as they were read
		if g.base <= base && base < g.next {
			base = g.next
		}
	}
	return base >= next
}

// audit compares the records of a partition, read from its start to its end after everything has settled, with what was
// promised. It returns every difference:
//
//   - the bytes of each record are those that were sent
//   - a message is there at most once, and a writer's messages are in their order
//   - offsets are dense from the log's start to its end, but for compaction
//   - an acknowledged message is at its offset; with durability below sync each crash may have taken one stretch of them
//   - what was trimmed is gone, nothing else is, but for what the broker calls damaged after its bytes were changed
func (l *ledger) audit(records []found, start, end int64) (faults []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault := func(format string, args ...any) {
		if len(faults) < 10 {
			faults = append(faults, fmt.Sprintf("%s/%d: ", l.topic, l.partition)+fmt.Sprintf(format, args...))
		}
	}
	for _, f := range l.faults {
		fault("%s", f)
	}
	if start > l.trimmed && !l.retains {
		fault("the log starts at %d, and only records below %d may be gone", start, l.trimmed)
	}
	next := start
	seen := make(map[int64]stamp, len(records))
	at := make(map[stamp]int64, len(records))
	newest := map[uint64]uint64{}
	for _, r := range records {
		if r.err != nil {
			fault("offset %d: %v", r.offset, r.err)
			continue
		}
		if r.offset < next {
			fault("offset %d comes after offset %d", r.offset, next-1)
		} else if r.offset > next && !l.compacted && !l.inGaps(next, r.offset) {
			fault("offsets [%d, %d) are missing", next, r.offset)
		}
		next = r.offset + 1
		if r.stamp.number >= l.sent[r.stamp.writer] {
			fault("offset %d holds %v, which was never sent", r.offset, r.stamp)
		}
		if where, twice := at[r.stamp]; twice {
			fault("%v is at offset %d and at offset %d", r.stamp, where, r.offset)
		}
		if before, ok := newest[r.stamp.writer]; ok && before >= r.stamp.number {
			fault("offset %d holds %v, after its writer's number %d", r.offset, r.stamp, before)
		}
		newest[r.stamp.writer] = r.stamp.number
		at[r.stamp] = r.offset
		seen[r.offset] = r.stamp
	}
	if next != end && !l.compacted && !l.inGaps(next, end) {
		fault("the last record read is %d, and the log ends at %d", next-1, end)
	}
	switch {
	case l.weak:
		l.auditWeak(at, start, fault)
	case l.compacted:
		for offset, s := range seen {
			if want, ok := l.acked[offset]; ok && want != s {
				fault("offset %d holds %v; acknowledged there was %v", offset, s, want)
			}
		}
		for key, offset := range l.latest {
			if _, ok := seen[offset]; !ok && offset >= start && !l.inGaps(offset, offset+1) {
				// Only a newer record of the key, stored without its acknowledgement having arrived, may have replaced it.
				fault("key %s: its newest acknowledged record, at %d, is missing", key, offset)
			}
		}
	default:
		for offset, s := range l.acked {
			if got, ok := seen[offset]; offset >= start && (!ok || got != s) && (ok || !l.inGaps(offset, offset+1)) {
				fault("offset %d holds %v (there: %v); acknowledged there was %v", offset, got, ok, s)
			}
		}
	}
	return faults
}

// auditWeak counts the stretches that are missing from each writer's acknowledged messages.
func (l *ledger) auditWeak(at map[stamp]int64, start int64, fault func(string, ...any)) {
	for writer, count := range l.sent {
		missing, stretches := false, 0
		for n := uint64(0); n < count; n++ {
			s := stamp{writer, n}
			offset, acked := l.where[s]
			if !acked || offset < start || l.inGaps(offset, offset+1) {
				continue
			}
			_, there := at[s]
			if !there && !missing {
				stretches++
			}
			missing = !there
		}
		if stretches > l.crashes {
			fault("writer %d lost %d stretches of acknowledged messages in %d crashes", writer, stretches, l.crashes)
		}
	}
}
