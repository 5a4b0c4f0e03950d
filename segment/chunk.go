package segment

import (
	"encoding/binary"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

type chunkState uint8

const (
	chunkOpen    chunkState = iota // frames may be added
	chunkClosed                    // padded; waits for the writer
	chunkIssued                    // its write is in flight
	chunkWritten                   // in the segment, not synced
	chunkSealed                    // synced; kept for readers
)

// chunkPointBytes is how far apart the entries of a chunk's directory are.
const chunkPointBytes = 4 << 10

// chunkPoint says where in the slab the frame with a base offset begins.
type chunkPoint struct {
	base core.Offset
	at   int32
}

// chunk is a run of a log's frames in memory, laid out as it stands in the
// segment: write mark, frames, zeros up to the disk's unit. A tail chunk gathers
// small batches; a direct chunk is a large batch in the slab it arrived in.
//
// Invariants: start is a multiple of core.DiskAlignment; frames fill
// [start+FrameHeaderBytes, used) without a gap.
type chunk struct {
	log      *Log
	slab     *core.Slab
	start    int // of the write mark in the slab
	used     int // end of the last whole frame in the slab
	placedAt int // up to where frames went to the journal, when that was told
	pointAt  int // from where on a frame gets a point: the last point is looked up by readers alone
	limit    int // how far the chunk may grow
	state    chunkState

	frameOpen bool // a gathering frame is open at used
	frameUsed int  // end of its payload so far
	frameCRC  uint32
	frameTime int64
	frameBase core.Offset

	firstIndex, lastIndex core.Index // lastIndex < firstIndex while there is no frame
	base, next            core.Offset
	maxTimestamp          int64 // of its records; TimestampNone without
	direct                bool  // the slab came with its batch
	level                 core.Durability
	bypass                bool // some frame does not go through the journal

	segment  *segment
	position int64 // of the write mark in the segment's file; -1 before it is issued

	snapshot *stateJob // derived state at the chunk's end, to become a .state file
	points   []chunkPoint

	older, newer *chunk // the store's list of closed chunks in memory, by age
	charged      int64  // bytes charged to the cache budget
}

// bytes is what the chunk takes in the segment.
func (c *chunk) bytes() int { return int(alignUp(int64(c.used))) - c.start }

func (c *chunk) empty() bool { return c.used == c.start+FrameHeaderBytes }

// notePoint keeps the directory of frames.
func (c *chunk) notePoint(base core.Offset, at int) {
	if at >= c.pointAt {
		c.points = append(c.points, chunkPoint{base: base, at: int32(at)})
		c.pointAt = at + chunkPointBytes
	}
}

// cutPoints forgets the frames from a place on.
func (c *chunk) cutPoints(at int) {
	n := len(c.points)
	for n > 0 && int(c.points[n-1].at) >= at {
		n--
	}
	c.points, c.pointAt = c.points[:n], 0
	if n > 0 {
		c.pointAt = int(c.points[n-1].at) + chunkPointBytes
	}
}

// find is where to begin to look for an offset.
func (c *chunk) find(offset core.Offset) int {
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].base > offset })
	if i == 0 {
		return c.start + FrameHeaderBytes
	}
	return int(c.points[i-1].at)
}

// frameFields are the fields of a frame header that walking memory needs. What
// stands in a chunk was made here or verified when it was read, so no checksum
// is looked at.
type frameFields struct {
	kind  FrameKind
	index core.Index
	term  core.Term
	base  core.Offset
	span  uint32
	bytes int
}

func readFrameFields(b []byte) frameFields {
	_ = b[FrameHeaderBytes-1]
	return frameFields{
		kind:  FrameKind(b[5]),
		index: core.Index(binary.BigEndian.Uint64(b[24:])),
		term:  core.Term(binary.BigEndian.Uint32(b[32:])),
		base:  core.Offset(binary.BigEndian.Uint64(b[40:])),
		span:  binary.BigEndian.Uint32(b[48:]),
		bytes: int(binary.BigEndian.Uint32(b[52:])),
	}
}

// readFrameHeader decodes a header that was made here or verified before.
func readFrameHeader(b []byte) FrameHeader {
	_ = b[FrameHeaderBytes-1]
	return FrameHeader{
		Kind:       FrameKind(b[5]),
		PayloadCRC: binary.BigEndian.Uint32(b[12:]),
		Partition:  core.PartitionID(binary.BigEndian.Uint64(b[16:])),
		Index:      core.Index(binary.BigEndian.Uint64(b[24:])),
		Term:       core.Term(binary.BigEndian.Uint32(b[32:])),
		Generation: core.Generation(binary.BigEndian.Uint32(b[36:])),
		BaseOffset: core.Offset(binary.BigEndian.Uint64(b[40:])),
		Span:       binary.BigEndian.Uint32(b[48:]),
		Bytes:      binary.BigEndian.Uint32(b[52:]),
		AppendTime: int64(binary.BigEndian.Uint64(b[56:])),
	}
}

// chunkDeque is a list of chunks, oldest first, that keeps its memory.
//
// Invariant: newest is the last of the list, nil without one. Each append looks at
// it, and with many partitions the list itself is far away.
type chunkDeque struct {
	list   []*chunk
	head   int
	newest *chunk
}

func (d *chunkDeque) len() int        { return len(d.list) - d.head }
func (d *chunkDeque) at(i int) *chunk { return d.list[d.head+i] }

func (d *chunkDeque) last() *chunk { return d.newest }

func (d *chunkDeque) push(c *chunk) {
	if d.head > 32 && d.head > len(d.list)/2 {
		n := copy(d.list, d.list[d.head:])
		clear(d.list[n:])
		d.list, d.head = d.list[:n], 0
	}
	d.list = append(d.list, c)
	d.newest = c
}

func (d *chunkDeque) popFirst() *chunk {
	c := d.list[d.head]
	d.list[d.head] = nil
	d.head++
	if d.head == len(d.list) {
		d.list, d.head, d.newest = d.list[:0], 0, nil
	}
	return c
}

func (d *chunkDeque) popLast() *chunk {
	c := d.newest
	d.list[len(d.list)-1] = nil
	d.list = d.list[:len(d.list)-1]
	if d.head == len(d.list) {
		d.list, d.head, d.newest = d.list[:0], 0, nil
	} else {
		d.newest = d.list[len(d.list)-1]
	}
	return c
}

// findOffset is the first chunk whose frames end behind the offset, or len.
func (d *chunkDeque) findOffset(offset core.Offset) int {
	return sort.Search(d.len(), func(i int) bool { return d.at(i).next > offset })
}

// findIndex is the first chunk whose last frame is at or behind the index, or len.
func (d *chunkDeque) findIndex(index core.Index) int {
	return sort.Search(d.len(), func(i int) bool { return d.at(i).lastIndex >= index })
}
