package segment

import "github.com/pulsemq/pulsemq/core"

// pendingFramesMax bounds the frames of one partition that are on their way to
// the disk; above it appends answer ErrStoreBusy.
const pendingFramesMax = 4096

const (
	frameWritten   uint8 = 1 << iota // in the journal or in the segment, not necessarily synced
	frameDurable                     // synced
	frameJournaled                   // went through the journal
	frameOpening                     // opens a term: counts as written only when durable
)

// pendingFrame is a frame that is not durable yet.
type pendingFrame struct {
	next  core.Offset // after the frame
	at    int64       // monotonic, when it was appended
	bytes uint32
	flags uint8
}

// pendingRing holds the frames of a log from the first that is not durable on,
// in order of their indexes. Its memory grows with use and is given up when the
// partition is idle.
type pendingRing struct {
	frames  []pendingFrame // length is a power of two, or 0
	head    int
	count   int
	written int        // of the leading frames, how many have been written
	first   core.Index // index of the frame at head
}

func (r *pendingRing) at(index core.Index) *pendingFrame {
	return &r.frames[(r.head+int(index-r.first))&(len(r.frames)-1)]
}

func (r *pendingRing) has(index core.Index) bool {
	return index >= r.first && index < r.first+core.Index(r.count)
}

// push appends the frame after the last one.
func (r *pendingRing) push(index core.Index, f pendingFrame) {
	if r.count == 0 {
		r.first = index
	}
	core.Assert(index == r.first+core.Index(r.count), "frames get consecutive indexes")
	if r.count == len(r.frames) {
		r.grow()
	}
	r.count++
	*r.at(index) = f
}

func (r *pendingRing) grow() {
	larger := make([]pendingFrame, max(16, 2*len(r.frames)))
	for i := range r.count {
		larger[i] = r.frames[(r.head+i)&(len(r.frames)-1)]
	}
	r.frames, r.head = larger, 0
}

// mark sets flags on the frames [first, last] that are still pending.
func (r *pendingRing) mark(first, last core.Index, flags uint8) {
	if r.count == 0 {
		return
	}
	first = max(first, r.first)
	last = min(last, r.first+core.Index(r.count)-1)
	for i := first; i <= last; i++ {
		r.at(i).flags |= flags
	}
}

// markJournalSynced makes durable what was written through the journal.
func (r *pendingRing) markJournalSynced() {
	for i := range r.count {
		f := &r.frames[(r.head+i)&(len(r.frames)-1)]
		if f.flags&(frameWritten|frameJournaled) == frameWritten|frameJournaled {
			f.flags |= frameDurable
		}
	}
}

// pop takes the first frame away.
func (r *pendingRing) pop() {
	r.head = (r.head + 1) & (len(r.frames) - 1)
	r.count--
	r.first++
	if r.written > 0 {
		r.written--
	}
}

// cut forgets the frames from an index on.
func (r *pendingRing) cut(index core.Index) {
	if r.count == 0 || index >= r.first+core.Index(r.count) {
		return
	}
	r.count = int(max(index, r.first) - r.first)
	r.written = min(r.written, r.count)
}

// advance moves the log's written and durable points as far as the prefix rule
// allows, and tells the owner when something moved.
func (l *Log) advance() {
	r := &l.pending
	moved := false
	for r.count > 0 {
		f := &r.frames[r.head]
		if f.flags&frameDurable == 0 {
			break
		}
		l.durableIndex, l.durable = r.first, f.next
		l.unsynced -= int64(f.bytes)
		if l.writtenIndex < l.durableIndex {
			l.writtenIndex, l.written = l.durableIndex, f.next
		}
		if l.opening != 0 && r.first >= l.opening {
			l.opening = 0
			l.store.kick(l) // what gathered behind it may be due
		}
		r.pop()
		moved = true
	}
	for r.written < r.count {
		f := &r.frames[(r.head+r.written)&(len(r.frames)-1)]
		if f.flags&frameWritten == 0 || f.flags&frameOpening != 0 {
			break
		}
		r.written++
		l.writtenIndex, l.written = r.first+core.Index(r.written-1), f.next
		moved = true
	}
	l.unsyncedSince = 0
	if r.count > 0 {
		l.unsyncedSince = r.frames[r.head].at
	}
	if moved && len(l.trims) > 0 {
		l.trimmed()
	}
	if moved && l.state != logDropped {
		l.owner.Advanced(l)
	}
}
