package pulsemq

import (
	"slices"
	"sync"

	"github.com/pulsemq/pulsemq/proto"
)

const (
	// reusePayloadBytesMin is the size from which the room of an answer is worth keeping.
	reusePayloadBytesMin = 16 << 10

	// reusePayloadBytesStep is what the room of answers is rounded up to, so that it fits the next one of about the size.
	reusePayloadBytesStep = 64 << 10

	// reuseSlabsMax and reuseSlabRecordsMax bound the records that are kept for another turn: a turn takes one slab, and a
	// partition keeps one for as long as it has been returned in part.
	reuseSlabsMax       = 4
	reuseSlabRecordsMax = 1 << 16
)

// slab is the memory of the records of one item.
type slab struct {
	records []Record
	headers []Header
	shared  proto.RecordIterator    // of batches whose records lie in the payload
	own     []*proto.RecordIterator // of compressed ones, which hold the records' bytes
	used    int                     // of own
}

// begin makes room for records; what lay there before is written over.
func (s *slab) begin(count int) []Record {
	if cap(s.records) < count {
		s.records = make([]Record, 0, count)
	}
	s.headers, s.used = s.headers[:0], 0
	return s.records[:0]
}

// iterator walks over a batch. Each compressed one has an iterator of its own: the records keep its buffer.
func (s *slab) iterator(b proto.Batch) *proto.RecordIterator {
	if b.Codec() == proto.CodecNone {
		return &s.shared
	}
	if s.used == len(s.own) {
		s.own = append(s.own, new(proto.RecordIterator))
	}
	s.used++
	return s.own[s.used-1]
}

// takeHeaders copies the headers of a record; nil when it has none.
func (s *slab) takeHeaders(from []proto.Header) []Header {
	if len(from) == 0 {
		return nil
	}
	first := len(s.headers)
	for _, h := range from {
		s.headers = append(s.headers, Header{Key: string(h.Key), Value: h.Value})
	}
	return s.headers[first:len(s.headers):len(s.headers)]
}

// reuse keeps the memory of records that have been returned, for those that come after the next Poll. A nil one keeps
// nothing: then records are the application's for good. What is discarded before it was returned is left to the
// collector. All but buffer and its room is guarded by the consumer's lock.
type reuse struct {
	bytesMax int // of all payloads kept
	returned []*item
	slabs    []*slab

	mu       sync.Mutex
	payloads [][]byte // the longest kept first
	bytes    int
}

// buffer is room for an answer: what a connection's reader fills.
func (r *reuse) buffer(n int) []byte {
	if n < reusePayloadBytesMin {
		return make([]byte, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range slices.Backward(r.payloads) {
		if cap(b) >= n && cap(b) <= 2*max(n, reusePayloadBytesStep) {
			r.payloads = slices.Delete(r.payloads, i, i+1)
			r.bytes -= cap(b)
			return b[:n]
		}
	}
	return make([]byte, n, (n+reusePayloadBytesStep-1)/reusePayloadBytesStep*reusePayloadBytesStep)
}

// slab is room for the records of an item.
func (r *reuse) slab() *slab {
	if r == nil || len(r.slabs) == 0 {
		return new(slab)
	}
	s := r.slabs[len(r.slabs)-1]
	r.slabs = r.slabs[:len(r.slabs)-1]
	return s
}

// finished notes that the last record of an item is being returned.
func (r *reuse) finished(i *item) {
	if r != nil {
		r.returned = append(r.returned, i)
	}
}

// keep hands the memory of an item on to its rest, which has been put back.
func (r *reuse) keep(of, rest *item) {
	if r == nil {
		return
	}
	if at := slices.Index(r.returned, of); at >= 0 {
		r.returned = slices.Delete(r.returned, at, at+1)
		rest.slab, rest.payload = of.slab, of.payload
	}
}

// recycle takes the memory of what was returned: the application asks for more.
func (r *reuse) recycle() {
	if r == nil {
		return
	}
	for i, item := range r.returned {
		r.returned[i] = nil
		if len(r.slabs) < reuseSlabsMax && item.slab != nil && cap(item.slab.records) <= reuseSlabRecordsMax {
			r.slabs = append(r.slabs, item.slab)
		}
		r.give(item.payload)
		item.slab, item.payload = nil, nil
	}
	r.returned = r.returned[:0]
}

// give keeps room of an answer. The oldest goes when it is too much: it is the one that no answer has fitted for longest.
func (r *reuse) give(payload []byte) {
	if cap(payload) < reusePayloadBytesMin || cap(payload) > r.bytesMax {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payloads = append(r.payloads, payload)
	r.bytes += cap(payload)
	for r.bytes > r.bytesMax {
		r.bytes -= cap(r.payloads[0])
		r.payloads = slices.Delete(r.payloads, 0, 1)
	}
}
