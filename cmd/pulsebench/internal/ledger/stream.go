package ledger

import "sync"

// Place is where a mark's first record lies.
type Place struct {
	Partition  uint32
	BaseOffset int64
}

// Stream is everything about one producer's marks. Its counters are marks, not records.
//
// Invariant: missing is the number of marks in acked and not in seen.
type Stream struct {
	mu    sync.Mutex
	acked bits
	seen  bits
	next  []uint64 // by partition: one more than the highest counter found there

	unordered bool // marks may be found in any order

	sent       uint64 // counters given out
	ackedCount uint64
	seenCount  uint64 // different marks found
	missing    uint64
	duplicated uint64
	reordered  uint64
	unknown    uint64

	// The sums of a hash of every mark with its place tell whether all were found where they were acknowledged,
	// without a place being kept for each.
	ackedPlaces uint64
	seenPlaces  uint64
	placed      bool // acknowledgements say where
	unplaced    bool // and some do not
}

// Send gives out the next counter.
func (s *Stream) Send() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	return s.sent - 1
}

// Ack writes down that a mark was acknowledged.
func (s *Stream) Ack(counter uint64, at Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed = true
	s.ackedPlaces += placeHash(counter, at)
	s.expect(counter)
}

// Expect writes down that a mark has to be found although nobody said where: it was sent without asking for an answer.
func (s *Stream) Expect(counter uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unplaced = true
	s.expect(counter)
}

func (s *Stream) expect(counter uint64) {
	if s.acked.add(counter) {
		s.ackedCount++
		if !s.seen.has(counter) {
			s.missing++
		}
	}
}

// Refuse takes back an Expect.
func (s *Stream) Refuse(counter uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acked.remove(counter) {
		s.ackedCount--
		if !s.seen.has(counter) {
			s.missing--
		}
	}
}

// find writes down that a mark was found.
func (s *Stream) find(counter uint64, at Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if counter >= s.sent {
		s.unknown++
		return
	}
	if !s.seen.add(counter) {
		s.duplicated++
		return
	}
	s.seenCount++
	s.seenPlaces += placeHash(counter, at)
	if s.acked.has(counter) {
		s.missing--
	}
	if counter < s.next[at.Partition] {
		if !s.unordered {
			s.reordered++
		}
	} else {
		s.next[at.Partition] = counter + 1
	}
}

// misplaced reports whether marks were found elsewhere than they were acknowledged. It can tell only when the marks
// found are those acknowledged, no more and no less; else something worse has been counted already, or a mark that was
// found has no known place.
func (s *Stream) misplaced() bool {
	comparable := s.placed && !s.unplaced && s.missing == 0 && s.seenCount == s.ackedCount
	return comparable && s.ackedPlaces != s.seenPlaces
}

// placeHash is a number that differs, as good as always, when mark or place differ, also in a sum with others.
func placeHash(counter uint64, at Place) uint64 {
	h := counter*0x9e3779b97f4a7c15 ^ uint64(at.Partition)*0xc2b2ae3d27d4eb4f ^ uint64(at.BaseOffset)*0x165667b19e3779f9
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 29
	return h
}
