package segment

import (
	"github.com/pulsemq/pulsemq/core"
)

// Lookup is the answer of a look-up by time.
type Lookup struct {
	Offset    core.Offset // -1: there is no such record
	Timestamp int64       // milliseconds; -1: none
	Epoch     core.LeaderEpoch
}

// LookupOwner is told what a look-up found.
type LookupOwner interface {
	LookupDone(found Lookup, err error)
}

// timeLookup goes through a log for one look-up: segment by segment, the indexes
// say where to begin, a worker opens the batches; then what is only in memory.
type timeLookup struct {
	store *Store
	log   *Log
	query TimeQuery
	owner LookupOwner
	next  core.SegmentNumber // segments before it have been looked through
	chunk core.Index         // chunks up to this index have been looked through
	held  *segment
	whole bool // Max: what the indexes said is gone; look at everything
}

// LookupTime finds the first record, by offset, whose timestamp is at or after t
// (milliseconds), among those that readers may see. The owner is told later.
func (s *Store) LookupTime(l *Log, t int64, owner LookupOwner) {
	s.lookup(l, TimeQuery{Timestamp: t}, owner)
}

// LookupMaxTimestamp finds the record with the greatest timestamp, of several the
// first. The owner is told later.
func (s *Store) LookupMaxTimestamp(l *Log, owner LookupOwner) {
	s.lookup(l, TimeQuery{Max: true}, owner)
}

func (s *Store) lookup(l *Log, q TimeQuery, owner LookupOwner) {
	q.First, q.Limit = l.start, l.ReachedOffset(l.options.Durability)
	l.usedAt = s.mono
	u := &timeLookup{store: s, log: l, query: q, owner: owner}
	s.lookups = append(s.lookups, u) // begun by Flush, so that the owner is never told from within
}

// stepLookups begins the look-ups of this turn.
func (s *Store) stepLookups() {
	waiting := s.lookups
	s.lookups = nil
	for _, u := range waiting {
		u.step()
	}
}

// step goes on where the last part ended.
func (u *timeLookup) step() {
	l := u.log
	if l.state == logDropped {
		u.end(Lookup{Offset: -1, Timestamp: -1}, ErrLogDropped)
		return
	}
	for _, g := range l.segments {
		if !g.learned && !g.empty() {
			if g == l.active() && g.indexWhole() {
				continue // its index is at hand
			}
			u.hold(g)
			if !u.store.loadIndex(g, u) {
				u.again()
			}
			return
		}
	}
	if u.query.Max {
		u.stepMax()
		return
	}
	for _, g := range l.segments {
		if g.header.Segment < u.next || g.empty() || g.next <= u.query.First || g.maxTime() < u.query.Timestamp {
			continue
		}
		if !g.indexWhole() {
			u.hold(g)
			if !u.store.loadIndex(g, u) {
				u.again()
			}
			return
		}
		u.next = g.header.Segment + 1
		entry, ok := g.index.FindTime(u.query.Timestamp)
		if !ok || entry.Position >= l.writtenEnd(g) {
			continue
		}
		u.run(g, []TimeSource{l.timeSource(g, entry)})
		return
	}
	for i := range l.chunks.len() {
		c := l.chunks.at(i)
		if c.state >= chunkWritten || c.lastIndex <= u.chunk || c.maxTimestamp < u.query.Timestamp {
			continue
		}
		u.chunk = c.lastIndex
		u.run(nil, []TimeSource{{Batches: c.batches()}})
		return
	}
	u.end(Lookup{Offset: -1, Timestamp: -1}, nil)
}

// stepMax looks where the greatest timestamp is said to be, and, when that record
// is not one that counts, at everything.
func (u *timeLookup) stepMax() {
	l := u.log
	most := TimestampNone
	for _, g := range l.segments {
		if !g.empty() && g.next > u.query.First {
			most = max(most, g.maxTime())
		}
	}
	for i := range l.chunks.len() {
		if c := l.chunks.at(i); c.state < chunkWritten {
			most = max(most, c.maxTimestamp)
		}
	}
	if most == TimestampNone {
		u.end(Lookup{Offset: -1, Timestamp: -1}, nil)
		return
	}
	var sources []TimeSource
	var first *segment
	for _, g := range l.segments {
		if g.empty() || g.next <= u.query.First || !u.whole && g.maxTime() < most {
			continue
		}
		if !g.indexWhole() {
			if !u.whole {
				u.hold(g)
				if !u.store.loadIndex(g, u) {
					u.again()
				}
				return
			}
			sources = append(sources, l.timeSource(g, IndexEntry{}))
			continue
		}
		entry := IndexEntry{}
		if !u.whole {
			entry, _ = g.index.Find(g.index.MaxTimestampOffset)
		}
		sources = append(sources, l.timeSource(g, entry))
		if first = g; !u.whole {
			break
		}
	}
	if first == nil || u.whole {
		for i := range l.chunks.len() {
			if c := l.chunks.at(i); c.state < chunkWritten && (u.whole || c.maxTimestamp == most) {
				sources = append(sources, TimeSource{Batches: c.batches()})
			}
		}
	}
	u.run(first, sources)
}

// writtenEnd is up to where the segment's file holds what was written.
func (l *Log) writtenEnd(g *segment) int64 {
	for i := range l.chunks.len() {
		if c := l.chunks.at(i); c.segment == g && c.state == chunkIssued {
			return c.position
		}
	}
	return g.position
}

func (l *Log) timeSource(g *segment, e IndexEntry) TimeSource {
	x := TimeSource{Path: g.path, Header: g.header, End: l.writtenEnd(g), Past: g.past()}
	if e.Position > 0 {
		x.From = SealedPoint{Segment: g.header.Segment, Position: e.Position, Index: e.Index - 1, NextOffset: e.Offset}
	}
	return x
}

// batches copies the record batches of a chunk.
func (c *chunk) batches() []byte {
	b := make([]byte, 0, c.used-c.start)
	for at := c.start + FrameHeaderBytes; at < c.used; {
		f := readFrameFields(c.slab.Bytes[at:])
		if f.kind == FrameData {
			b = append(b, c.slab.Bytes[at+FrameHeaderBytes:at+FrameHeaderBytes+f.bytes]...)
		}
		at += FrameHeaderBytes + f.bytes
	}
	return b
}

// maxTime is the greatest timestamp of the segment, or a bound of it.
func (g *segment) maxTime() int64 {
	if g.indexWhole() {
		return g.index.MaxTimestamp
	}
	return g.maxTimestamp
}

// run has a worker look through the sources.
func (u *timeLookup) run(g *segment, sources []TimeSource) {
	if g != nil {
		u.hold(g)
	}
	u.store.submitSmall(&TimeLookup{Files: u.store.ports.FS, Query: u.query, Sources: sources, Ended: u.looked})
}

func (u *timeLookup) looked(j *TimeLookup) {
	u.release()
	switch {
	case j.Err != nil:
		u.end(Lookup{Offset: -1, Timestamp: -1}, j.Err)
	case j.Found:
		u.end(Lookup{Offset: j.Hit.Offset, Timestamp: j.Hit.Timestamp, Epoch: j.Hit.Epoch}, nil)
	case u.query.Max && u.whole:
		u.end(Lookup{Offset: -1, Timestamp: -1}, nil)
	default:
		u.whole = u.query.Max
		u.again()
	}
}

func (u *timeLookup) indexLoaded(err error) {
	u.release()
	if err != nil {
		u.end(Lookup{Offset: -1, Timestamp: -1}, err)
		return
	}
	u.again()
}

// again goes on at the next turn.
func (u *timeLookup) again() {
	u.release()
	u.store.lookups = append(u.store.lookups, u)
}

func (u *timeLookup) hold(g *segment) {
	u.held = g
	g.readers++
}

func (u *timeLookup) release() {
	if g := u.held; g != nil {
		u.held = nil
		g.readers--
		u.store.segmentUnused(g)
	}
}

func (u *timeLookup) end(found Lookup, err error) {
	u.release()
	u.owner.LookupDone(found, err)
}
