package segment

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// readDepth is how many reads of one request are in flight at a time.
	readDepth    = 4
	readBytesMin = 64 << 10
	readsMax     = 1024
)

// diskRead answers a Read from a segment's file: the index says where to begin,
// up to readDepth aligned reads fill one slab, every frame's checksum is verified.
type diskRead struct {
	store    *Store
	read     *Read
	limit    core.Offset
	segment  *segment
	slab     *core.Slab
	start    int64      // file position of the slab's first byte, aligned
	frame    int64      // file position of the frame to begin with
	past     core.Index // the first index that does not count in the segment
	trailed  bool       // it began where another read had ended, or at the segment's beginning
	trail    int64      // file position behind the last frame that was taken whole; 0 none
	length   int
	ops      [readDepth]core.DiskOp
	waiting  int
	err      error
	acquired bool
	inline   bool // still inside Store.Read
	done     bool
}

// readDisk begins; true when it ended at once.
func (s *Store) readDisk(r *Read, limit core.Offset) bool {
	if s.reads >= readsMax {
		r.Err = ErrStoreBusy
		return true
	}
	g := r.Log.segmentAt(r.Offset)
	if g == nil {
		r.Err = s.missing(r.Log, r.Offset, r.Log.behindGap(r.Offset), errNoSegment)
		return true
	}
	var d *diskRead
	if n := len(s.readPool); n > 0 {
		d = s.readPool[n-1]
		s.readPool = s.readPool[:n-1]
	} else {
		d = new(diskRead)
	}
	s.reads++
	*d = diskRead{store: s, read: r, limit: limit, segment: g, past: g.past(), inline: true}
	g.readers++ // the segment stays until the read has ended
	d.locate()
	d.inline = false
	if d.done {
		d.free()
		return true
	}
	return false
}

// behindGap is the base offset of the first segment behind an offset that none holds.
func (l *Log) behindGap(offset core.Offset) core.Offset {
	for _, g := range l.segments {
		if g.header.BaseOffset > offset {
			return g.header.BaseOffset
		}
	}
	return l.end
}

// missing takes note of offsets that nothing holds. Frames stand without a gap, also
// where compaction took their records, so a gap is damage that an earlier start went
// around: it is not found again where a start begins behind it.
func (s *Store) missing(l *Log, start, next core.Offset, cause error) error {
	next = max(next, start+1)
	s.noteDamage(l, DamageRange{Start: start, Next: next, Cause: cause}, damageOfGap)
	return &CorruptError{Start: start, Next: next, Cause: cause}
}

var (
	errNoSegment = errors.New("no segment holds the offset")
	errNoFrame   = errors.New("the frame that held the offset is not there")
)

// locate finds out where to begin: where another read has ended, or what the index says.
func (d *diskRead) locate() {
	g := d.segment
	if position, ok := d.store.trails.find(g, d.read.Offset); ok {
		d.frame, d.trailed = position, true
		d.fetch(d.want())
		return
	}
	d.consult()
}

// want is how much a read of the batches takes that begins at the first of them.
func (d *diskRead) want() int {
	return max(readBytesMin, min(d.read.BytesMax, core.AnswerChunkBytesMax)+2*core.DiskAlignment)
}

// retrace begins anew by the index. A read that met anything but records on its way
// says nothing about it before: only the index knows how far what is missing reaches.
// False: it has begun by the index.
func (d *diskRead) retrace() bool {
	if !d.trailed {
		return false
	}
	d.trailed = false
	if d.slab != nil {
		d.slab.Release()
		d.slab = nil
	}
	d.consult()
	return true
}

// consult asks the index where to begin.
func (d *diskRead) consult() {
	g := d.segment
	if !g.indexed(d.read.Offset) {
		d.store.awaitIndex(g, d)
		return
	}
	g.indexUsed = d.store.mono
	entry, ok := g.index.Find(d.read.Offset)
	if !ok {
		entry.Position = FileHeaderBytes
	}
	d.frame = entry.Position
	d.fetch(d.want() + core.IndexIntervalBytes) // the entry may lie an interval before the frame
}

// indexLoaded goes on once the segment's index is there.
func (d *diskRead) indexLoaded(err error) {
	if errors.Is(err, errUnreadable) {
		// Trying again is no way past it, and a reader would not get to what lies behind.
		d.store.log.Error("a segment's index could not be built", "file", d.segment.path, "error", err)
		d.end(&CorruptError{Start: d.read.Offset, Next: d.offsetBehind(0), Cause: err})
		return
	}
	if err != nil {
		d.end(fmt.Errorf("index of %s: %w", d.segment.path, err))
		return
	}
	d.consult()
}

// fetch reads n bytes from d.frame on.
func (d *diskRead) fetch(n int) {
	d.start = d.frame &^ (core.DiskAlignment - 1)
	n = int(min(alignUp(int64(n)), d.segment.position-d.start, core.SlabBytesMax))
	if n <= 0 { // the file ends before the frames that should stand there
		if !d.retrace() {
			d.end(d.behind())
		}
		return
	}
	if d.slab = d.store.readSlab(n); d.slab == nil {
		d.end(ErrStoreBusy)
		return
	}
	d.length = n
	if d.acquired || d.store.files.acquire(d.segment, d) {
		d.acquired = true
		d.submit()
	}
}

// readSlab is memory for a read; nil when there is none. What tails and the cache
// leave comes first, so that what reads have for themselves is there when those
// leave nothing: under a producer that fills whatever comes free.
func (s *Store) readSlab(n int) *core.Slab {
	if slab := s.ports.Slabs.Get(n); slab != nil {
		return slab
	}
	if s.ports.ReadSlabs != nil {
		if slab := s.ports.ReadSlabs.Get(n); slab != nil {
			return slab
		}
	}
	s.cache.evict(int64(n))
	return s.ports.Slabs.Get(n)
}

func (d *diskRead) fileReady(_ *segment, err error) {
	if err != nil {
		d.end(err)
		return
	}
	d.acquired = true
	d.submit()
}

func (d *diskRead) submit() {
	part := int(alignUp(int64((d.length + readDepth - 1) / readDepth)))
	part = max(part, 64<<10)
	d.err = nil
	d.waiting = 1 // so that nothing ends before all are submitted
	for i, at := 0, 0; at < d.length; i, at = i+1, at+part {
		n := min(part, d.length-at)
		d.ops[i] = core.DiskOp{Kind: core.DiskRead, File: d.segment.file, Buf: d.slab.Bytes[at : at+n], Offset: d.start + int64(at), Owner: d}
		d.waiting++
		if !d.store.ports.Disk.Submit(&d.ops[i]) {
			d.waiting--
			if d.err == nil {
				d.err = ErrStoreBusy
			}
			break
		}
	}
	d.waiting--
	if d.waiting == 0 {
		d.parse()
	}
}

// Complete takes an ended read.
func (d *diskRead) Complete(op *core.DiskOp) {
	d.waiting--
	d.store.stats.ReadBytes += uint64(op.N)
	if op.Err != nil && d.err == nil {
		d.err = op.Err
	}
	if op.Err == nil && op.N < len(op.Buf) {
		clear(op.Buf[op.N:]) // behind the file's end
	}
	if d.waiting == 0 {
		d.parse()
	}
}

// parse takes the batches out of what was read.
func (d *diskRead) parse() {
	r, g := d.read, d.segment
	if d.err != nil {
		if errors.Is(d.err, ErrStoreBusy) {
			d.end(d.err)
			return
		}
		if !g.indexed(r.Offset) && d.retrace() {
			return
		}
		d.store.log.Error("a read failed", "file", g.path, "position", d.start, "error", d.err)
		d.end(&CorruptError{Start: r.Next, Next: d.offsetBehind(d.start + int64(d.length)), Cause: d.err})
		return
	}
	b := d.slab.Bytes[:d.length]
	at := int(d.frame - d.start)
	took, retained := false, false
	for at < len(b) {
		if at%core.DiskAlignment != 0 && allZero(b[at:min(len(b), int(alignUp(int64(at))))]) {
			at = int(alignUp(int64(at)))
			continue
		}
		if at+FrameHeaderBytes > len(b) {
			break
		}
		h, err := ParseFrameHeader(b[at:])
		if err != nil {
			if to := d.resume(b, at); to > at {
				at = to
				continue
			}
			if !took {
				d.damage(d.start+int64(at), nil, err)
				return
			}
			break
		}
		if frameIndexed(h.Kind) && h.Index >= d.past {
			// It was given up, and what has its index now stands in the next segment.
			if r.Next > r.Offset {
				d.end(nil)
			} else if !d.retrace() {
				d.end(d.behind())
			}
			return
		}
		n := FrameHeaderBytes + int(h.Bytes)
		if h.Kind != FrameData || h.Next() <= r.Next {
			at += n
			continue
		}
		if h.BaseOffset > r.Next {
			if r.Next > r.Offset {
				d.end(nil) // what lies before is good; the reader meets the gap with its next read
			} else if !d.retrace() {
				d.end(d.store.missing(r.Log, r.Next, h.BaseOffset, errNoFrame))
			}
			return
		}
		if at+n > len(b) {
			break // not whole
		}
		payload := b[at+FrameHeaderBytes : at+n]
		if crcOf(payload) != h.PayloadCRC {
			if !took {
				d.damage(d.start+int64(at), &h, ErrFramePayload)
				return
			}
			break
		}
		f := frameFields{kind: h.Kind, index: h.Index, term: h.Term, base: h.BaseOffset, span: h.Span, bytes: int(h.Bytes)}
		run, more := r.take(&f, payload, d.limit)
		if len(run) > 0 && r.Stored == 0 {
			r.Stored = h.AppendTime
		}
		if len(run) > 0 && !d.store.copySmall(r, run) {
			r.Slices = append(r.Slices, run)
			if !retained { // a run before this one may have been copied out of the slab
				d.slab.Retain()
				r.Slabs = append(r.Slabs, d.slab)
				retained = true
			}
		}
		took = took || len(run) > 0
		if d.trail = d.start + int64(at); r.Next >= h.Next() {
			d.trail += int64(n)
		}
		at += n
		if !more {
			d.end(nil)
			return
		}
	}
	if r.Bytes > 0 {
		d.end(nil)
		return
	}
	// Nothing yet: the frame is larger than what was read, or lies further on.
	frame := d.start + int64(at)
	if frame >= g.position {
		if r.Next > r.Offset && r.Next >= g.next {
			d.end(nil) // compaction left no record up to the segment's end: go on behind it
			return
		}
		if !d.retrace() {
			d.end(d.behind())
		}
		return
	}
	whole := frame == d.frame && d.length >= int(min(core.SlabBytesMax, g.position-d.start))
	if whole {
		d.damage(frame, nil, ErrFrameShort)
		return
	}
	d.slab.Release()
	d.slab = nil
	d.frame = frame
	d.fetch(core.SlabBytesMax)
}

// resume is where a read goes on behind a header that makes no sense, if no record is
// lost that it wants: only the mark is hurt, or what stood there lies before. 0: there
// is no such place.
func (d *diskRead) resume(b []byte, at int) int {
	if (d.start+int64(at))%core.DiskAlignment == 0 {
		if base, ok := d.frameBase(b, at+FrameHeaderBytes); ok && base <= d.read.Next {
			return at + FrameHeaderBytes
		}
	}
	if i, base := d.markBehind(b, at+1); i > 0 && base <= d.read.Next {
		return i
	}
	return 0
}

// frameBase is the base offset of a frame of the log that stands at a place.
func (d *diskRead) frameBase(b []byte, at int) (core.Offset, bool) {
	if at+FrameHeaderBytes > len(b) {
		return 0, false
	}
	h, err := ParseFrameHeader(b[at:])
	return h.BaseOffset, err == nil && frameIndexed(h.Kind) && h.Partition == d.read.Log.id.Partition
}

// markBehind finds the next write mark, and the base offset of the frame behind it.
func (d *diskRead) markBehind(b []byte, from int) (at int, base core.Offset) {
	for from < len(b) {
		i := bytes.Index(b[from:], frameMagicBytes)
		if i < 0 {
			return 0, 0
		}
		from += i
		h, err := ParseFrameHeader(b[from:])
		if err == nil && h.Kind == FrameWriteMark && h.Partition == d.read.Log.id.Partition &&
			checkMark(&h, d.segment.header.Salt, d.start+int64(from)) == nil {
			if base, ok := d.frameBase(b, from+FrameHeaderBytes); ok {
				return from, base
			}
		}
		from++
	}
	return 0, 0
}

// behind is what a read says that met the end of its segment without a batch: the
// offsets up to the next segment are not there.
func (d *diskRead) behind() error {
	return d.store.missing(d.read.Log, d.read.Next, d.segment.next, errNoFrame)
}

// damage takes note of a frame that is not what was written, and answers the
// range that it held.
func (d *diskRead) damage(position int64, h *FrameHeader, cause error) {
	if d.retrace() {
		return
	}
	r, l := d.read, d.read.Log
	start, next := r.Next, core.Offset(0)
	if h != nil {
		start, next = h.BaseOffset, h.Next()
	} else {
		next = d.offsetBehind(position + 1)
		if i, base := d.markBehind(d.slab.Bytes[:d.length], int(position+1-d.start)); i > 0 {
			next = min(next, base)
		}
	}
	next = max(next, start+1)
	d.store.noteDamage(l, DamageRange{Start: start, Next: next, File: d.segment.path, Cause: cause}, damageOfRead)
	if start > r.Offset {
		// What lies before is good; the reader meets the range with its next read.
		d.limit = start
		d.end(nil)
		return
	}
	d.end(&CorruptError{Start: start, Next: next, Cause: cause})
}

// offsetBehind is the base offset of the first indexed frame at or behind a position.
func (d *diskRead) offsetBehind(position int64) core.Offset {
	if d.segment.index == nil {
		return max(d.segment.next, d.read.Next+1)
	}
	for _, e := range d.segment.index.Entries {
		if e.Position >= position && e.Offset > d.read.Offset {
			return e.Offset
		}
	}
	return d.segment.next
}

func (d *diskRead) end(err error) {
	r := d.read
	r.Err = err
	if err == nil && d.trail > 0 {
		d.store.trails.note(d.segment, r.Next, d.trail)
	}
	if d.slab != nil {
		d.slab.Release()
		d.slab = nil
	}
	if d.acquired {
		d.store.files.release(d.segment)
	}
	d.acquired, d.done = false, true
	d.segment.readers--
	d.store.reads--
	d.store.segmentUnused(d.segment)
	if d.inline {
		return
	}
	d.free()
	r.Owner.ReadDone(r)
}

func (d *diskRead) free() {
	s := d.store
	d.read, d.segment, d.store = nil, nil, nil
	s.readPool = append(s.readPool, d)
}
