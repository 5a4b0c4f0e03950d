package segment

import "github.com/pulsemq/pulsemq/core"

const (
	// trailSets and trailWays make the room for places: 1,024 of them, more than readers
	// are at work at a time on most shards.
	trailSets = 128
	trailWays = 8
)

// trails remembers where reads of segments have ended. Whoever reads on from there
// needs no index: neither the memory of it nor, for a segment that has none in its
// file yet, a pass over all of its bytes. One that reads a log from its beginning
// never needs any.
//
// All places of a segment are in one set, in which a new one takes that of the oldest:
// readers of other segments do not drive a reader's place out, and several readers
// that follow each other through one segment find the same places. What is forgotten
// is found by the index.
type trails struct {
	sets [trailSets][trailWays]trailPlace
	uses uint64
}

// trailPlace says that a frame begins at or behind the position, up to padding and
// marks, whose records begin at the offset or before it.
type trailPlace struct {
	segment  *segment
	offset   core.Offset
	position int64
	used     uint64
}

func (t *trails) set(g *segment) *[trailWays]trailPlace {
	x := uint64(g.header.Partition)*0x9e3779b97f4a7c15 ^ uint64(g.header.Segment)*0xbf58476d1ce4e5b9
	x ^= x >> 29
	return &t.sets[x*0x94d049bb133111eb>>32%trailSets]
}

// note remembers where the frames from an offset on begin.
func (t *trails) note(g *segment, offset core.Offset, position int64) {
	set := t.set(g)
	into := &set[0]
	for i := range set {
		p := &set[i]
		if p.segment == g && p.offset == offset {
			into = p
			break
		}
		if p.used < into.used {
			into = p
		}
	}
	t.uses++
	*into = trailPlace{segment: g, offset: offset, position: position, used: t.uses}
}

// find is where to begin to read for an offset; false when that is not known.
func (t *trails) find(g *segment, offset core.Offset) (int64, bool) {
	if offset <= g.header.BaseOffset {
		return FileHeaderBytes, true
	}
	set := t.set(g)
	for i := range set {
		if p := &set[i]; p.segment == g && p.offset == offset {
			return p.position, true
		}
	}
	return 0, false
}

// forget is for a segment of which something was taken back, or that is gone.
func (t *trails) forget(g *segment) {
	set := t.set(g)
	for i := range set {
		if set[i].segment == g {
			set[i] = trailPlace{}
		}
	}
}
