package segment

import (
	"encoding/binary"
	"errors"
	"sort"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// readSlicesMax bounds the slices of one read.
	readSlicesMax = core.AnswerSlicesMax
	// readCopyBytesMax is below which a run of batches is copied together with others
	// instead of becoming a slice of its own.
	readCopyBytesMax = 2 << 10
	readCopySlabMax  = 256 << 10
	// frameTimeAt is where a frame's header has its append time.
	frameTimeAt = FrameHeaderBytes - 8
)

// ReadOwner is told when a read that could not be answered from memory has ended.
type ReadOwner interface {
	ReadDone(r *Read)
}

// Read asks for record batches from an offset on, and holds what was found. A
// Read may be used again after Reset.
type Read struct {
	Log    *Log
	Offset core.Offset
	// Limit is the offset before which all batches must end: the visible end.
	Limit core.Offset
	// BytesMax bounds the batches unless the first one is larger. RecordsMax bounds the
	// records unless the first batch has more; 0 is no bound.
	BytesMax   int
	RecordsMax int
	Owner      ReadOwner
	// Unseen: it is the broker's own look, which counts as no consumer's read and keeps
	// nothing in memory.
	Unseen bool

	// Slices are whole batches, one after the other; a batch may begin before Offset.
	// They are good until Release.
	Slices  [][]byte
	Slabs   []*core.Slab
	Bytes   int
	Records int
	// Next is the offset behind the last batch; Offset when there is none.
	Next core.Offset
	// Term is that of the last frame before Next; 0 when there was none. A log that was rolled back since may know
	// another there.
	Term core.Term
	// Stored is when the first batch was appended, nanoseconds since the Unix epoch; 0 without one.
	Stored int64
	Err    error

	copySlab *core.Slab
	copyAt   int
}

// Reset forgets the result and keeps the memory of its lists.
func (r *Read) Reset() {
	r.Slices, r.Slabs = r.Slices[:0], r.Slabs[:0]
	r.Bytes, r.Records, r.Next, r.Term, r.Stored, r.Err, r.copySlab, r.copyAt = 0, 0, 0, 0, 0, nil, nil, 0
}

// Release gives back the memory that the slices lie in.
func (r *Read) Release() {
	for i, slab := range r.Slabs {
		slab.Release()
		r.Slabs[i] = nil
	}
	clear(r.Slices)
	r.Reset()
}

// Read looks for batches. True: done now, from memory or with an error; false:
// Owner.ReadDone is called later.
func (s *Store) Read(r *Read) bool {
	l := r.Log
	r.Reset()
	r.Next = r.Offset
	if l.state == logDropped {
		r.Err = ErrLogDropped
		return true
	}
	if r.Offset < l.start || r.Offset > l.end {
		r.Err = &RangeError{Offset: r.Offset, Start: l.start, End: l.end}
		return true
	}
	l.usedAt = s.mono
	limit, bad := l.readable(r.Offset, min(r.Limit, l.end))
	if bad != nil {
		r.Err = &CorruptError{Start: bad.Start, Next: bad.Next, Cause: bad.Cause}
		return true
	}
	if r.Offset >= limit {
		return true
	}
	i, cached := l.cached(r.Offset)
	if !r.Unseen {
		s.cache.read()
		if cached {
			s.stats.ReadsCached++
		} else {
			s.stats.ReadsDisk++
		}
	}
	if cached {
		s.readChunks(r, i, limit)
		return true
	}
	return s.readDisk(r, limit)
}

// cached is the chunk in memory that holds an offset.
func (l *Log) cached(offset core.Offset) (chunk int, ok bool) {
	chunk = l.chunks.findOffset(offset)
	return chunk, chunk < l.chunks.len() && l.chunks.at(chunk).base <= offset
}

// Cost is about how many bytes a read of one batch at an offset takes from the disk; 0: it is in
// memory. A segment that is still written may have no index there, and is read up to its end.
func (l *Log) Cost(offset core.Offset) int64 {
	if _, ok := l.cached(offset); ok {
		return 0
	}
	if g := l.segmentAt(offset); g != nil && g == l.active() && !g.indexed(offset) {
		return g.position
	}
	return readBytesMin + core.IndexIntervalBytes
}

// readable bounds a read by the damage in its way: the offset from which on, or
// the range in which it begins.
func (l *Log) readable(offset, limit core.Offset) (core.Offset, *DamageRange) {
	for i := range l.damaged {
		d := &l.damaged[i]
		if errors.Is(d.Cause, ErrUnreadable) {
			continue // the device may give it now
		}
		if offset >= d.Start && offset < d.Next {
			return offset, d
		}
		if d.Start > offset && d.Start < d.Next {
			limit = min(limit, d.Start)
		}
	}
	return limit, nil
}

func (s *Store) readChunks(r *Read, i int, limit core.Offset) {
	l := r.Log
	for ; i < l.chunks.len(); i++ {
		c := l.chunks.at(i)
		if c.base >= limit {
			return
		}
		retained := false
		for at := c.find(r.Next); at < c.used; {
			f := readFrameFields(c.slab.Bytes[at:])
			stored := at + frameTimeAt
			payload := c.slab.Bytes[at+FrameHeaderBytes : at+FrameHeaderBytes+f.bytes]
			at += FrameHeaderBytes + f.bytes
			if f.kind != FrameData || f.base+core.Offset(f.span) <= r.Next {
				continue
			}
			if f.base > r.Next {
				if r.Next == r.Offset {
					r.Err = s.missing(l, r.Next, f.base, errNoFrame)
				}
				return
			}
			run, more := r.take(&f, payload, limit)
			if len(run) > 0 && r.Stored == 0 {
				r.Stored = int64(binary.BigEndian.Uint64(c.slab.Bytes[stored:]))
			}
			if len(run) > 0 && !s.copySmall(r, run) {
				r.Slices = append(r.Slices, run)
				if !retained {
					c.slab.Retain()
					r.Slabs = append(r.Slabs, c.slab)
					retained = true
				}
			}
			if !more {
				return
			}
		}
	}
}

// take cuts from a frame's payload the run of batches that the read wants, and
// says whether it wants more behind it.
func (r *Read) take(f *frameFields, payload []byte, limit core.Offset) (run []byte, more bool) {
	end := f.base + core.Offset(f.span)
	if f.base >= r.Next && end <= limit && r.Bytes+len(payload) <= r.BytesMax && (r.RecordsMax <= 0 || r.Records+int(f.span) <= r.RecordsMax) {
		r.Bytes += len(payload)
		r.Records += int(f.span)
		r.Next, r.Term = end, f.term
		return payload, end < limit && len(r.Slices) < readSlicesMax-1
	}
	from := -1
	for at := 0; at+proto.BatchHeaderBytes <= len(payload); {
		b := payload[at:]
		n := int(batchLength(b))
		if n < proto.BatchHeaderBytes || n > len(b) {
			break
		}
		next := batchBase(b) + core.Offset(batchSpan(b))
		if next <= r.Next {
			at += n
			continue
		}
		count := int(batchCount(b))
		if next > limit || r.Bytes > 0 && (r.Bytes+n > r.BytesMax || r.RecordsMax > 0 && r.Records+count > r.RecordsMax) {
			if from < 0 {
				return nil, false
			}
			return payload[from:at], false
		}
		if from < 0 {
			from = at
		}
		at += n
		r.Bytes += n
		r.Records += count
		r.Next, r.Term = next, f.term
	}
	r.Term = f.term
	if from < 0 {
		r.Next = max(r.Next, min(end, limit)) // a compacted frame may hold nothing here
		return nil, true
	}
	r.Next = max(r.Next, min(end, limit))
	return payload[from:], r.Next < limit && len(r.Slices) < readSlicesMax-1
}

// copySmall copies a short run behind the one before, so that an answer of many
// small frames is one slice and not hundreds. False: no memory for it.
func (s *Store) copySmall(r *Read, run []byte) bool {
	if len(run) >= readCopyBytesMax {
		r.copySlab = nil
		return false
	}
	if r.copySlab == nil || r.copyAt+len(run) > len(r.copySlab.Bytes) {
		slab := s.ports.Slabs.Get(min(readCopySlabMax, max(r.BytesMax-r.Bytes+len(run), len(run))))
		if slab == nil {
			r.copySlab = nil
			return false
		}
		r.Slabs = append(r.Slabs, slab)
		r.Slices = append(r.Slices, slab.Bytes[:0])
		r.copySlab, r.copyAt = slab, 0
	}
	copy(r.copySlab.Bytes[r.copyAt:], run)
	start := r.copyAt - len(r.Slices[len(r.Slices)-1])
	r.copyAt += len(run)
	r.Slices[len(r.Slices)-1] = r.copySlab.Bytes[start:r.copyAt]
	return true
}

// segmentAt is the segment that holds an offset, or nil.
func (l *Log) segmentAt(offset core.Offset) *segment {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].header.BaseOffset > offset })
	if i == 0 || l.segments[i-1].next <= offset {
		return nil
	}
	return l.segments[i-1]
}
