package segment

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Compaction keeps the newest record of each key. It is the only writer that
// re-encodes batches, and it touches sealed segments alone: those whose frames
// lie below the raft first index, and below the points of the two newest .state
// files, so that no recovery ever replays what it changed.
//
// What stays the same: every frame's base offset, span, term and place in the
// order; every surviving record's bytes, offset, timestamp and leader epoch.
//
// What may change: a batch holds fewer records and a smaller count. A batch
// without records is dropped, unless it is its producer's last one here: then
// its header stays with a count of 0, as Kafka keeps it, so that the producer's
// sequence can still be told from the log. Clients see such a batch as one with
// no records. A data frame whose batches are all gone keeps its place with an
// empty payload; neighbours of one term and generation become one frame with the
// index of the last and the span of all. Readers step over them.
//
// Records without a key are kept. A tombstone (a null value) is kept until all
// older records of its key are gone and TombstoneRetention has passed since.
//
// One job is one pass: it learns the keys of the dirty part, which no pass has
// seen, as far as MapBytes holds them, and rewrites all segments up to there.
// Another pass goes on where this one ended: see CleanNext.
//
// The swap. Outputs are new segment files with new numbers under a name that
// recovery removes, synced and read back by the job. The engine then takes them
// in order, one at a time: Swap renames and syncs the folder, and when that has
// completed the output takes the place of what it Replaces in the list of
// segments, whose files are removed once no read uses them. After a
// crash at any moment SupersededSegments tells which files are out: an output's
// header says which range of frames it replaces, so each range is valid once,
// before the rename through the old files and after it through the new one.
// Outputs must become durable in order: a tombstone goes only where all older
// outputs are in place. An output has a higher number than segments behind it, so
// the order of a log's segments is that of their base index, not of their number.
// Its .index file is written by the job; the .state files of what it replaces are
// no longer usable, because their segment is gone.
type Compaction struct {
	Files core.FS
	Clock core.Clock
	Dir   string // the partition's folder
	// Segments are all sealed ones that may be touched, in the log's order, from the first.
	Segments []CompactSegment
	// NumberNext is the first of len(Segments) segment numbers reserved for outputs.
	NumberNext core.SegmentNumber
	// Salt seeds the outputs' salts. It must be random.
	Salt uint64
	// LogStart: records below it are gone already.
	LogStart core.Offset
	// SegmentBytes bounds the segments that are merged into one.
	SegmentBytes int64
	// MapBytes bounds the memory for keys.
	MapBytes int64
	// TombstoneRetention is in nanoseconds.
	TombstoneRetention int64
	// Stopped, if not nil, is asked between frames whether to give up.
	Stopped func() bool
	// Ended is called on the shard.
	Ended func(*Compaction)

	// Outputs are to be swapped in, in order. None: nothing had to change.
	Outputs []*CompactOutput
	// CleanNext is how far the log is clean once the outputs are in place.
	CleanNext core.Offset
	// Irregular are the numbers of segments that were left alone because they are
	// damaged or hold frames that later ones replaced. While there are any, no
	// tombstone is dropped: an older record may lie there for ever.
	Irregular []core.SegmentNumber
	Stats     CompactStats
	Err       error

	keys      *keyTable
	droppable core.Offset // tombstones below it may go
	producers map[int64]core.Offset
	irregular map[core.SegmentNumber]bool
	scanner   Scanner
	records   proto.RecordIterator
	filter    proto.BatchFilter
	payload   []byte
}

// TombstoneRetentionDefault is a day, in nanoseconds.
const TombstoneRetentionDefault int64 = 24 * 3600 * 1e9

// CompactSegment is one input.
type CompactSegment struct {
	Header FileHeader // of its file
	End    SealedPoint
}

// CompactStats counts what a pass did.
type CompactStats struct {
	RecordsRead, RecordsKept int64
	BytesRead, BytesWritten  int64
	Keys                     int
	BatchesUnreadable        int64 // kept as they are
}

var (
	// ErrCompactionStopped reports a job that was asked to give up; nothing has changed.
	ErrCompactionStopped = errors.New("compaction: stopped")
	// ErrCompactionGrows reports a frame that recompression made larger than a frame may be.
	ErrCompactionGrows = errors.New("compaction: a frame grows beyond its bound")
	// errCompactionEnough ends a walk early.
	errCompactionEnough = errors.New("enough")
)

// CleanNext is how far the segments' headers say that a log is clean.
func CleanNext(segments []CompactSegment) core.Offset {
	points := cleanPoints(segments)
	return points.Next()
}

func cleanPoints(segments []CompactSegment) CleanPoints {
	var best CleanPoints
	for i := range segments {
		if c := &segments[i].Header.Clean; c.Next() > best.Next() {
			best = *c
		}
	}
	return best
}

// DirtyBytes is the size of what no pass has seen, and of all; for scheduling.
func DirtyBytes(segments []CompactSegment) (dirty, all int64) {
	clean := CleanNext(segments)
	for i := range segments {
		s := &segments[i]
		all += s.End.Position
		if s.End.NextOffset > clean {
			dirty += s.End.Position
		}
	}
	return dirty, all
}

// Run does the pass.
func (c *Compaction) Run() {
	if c.Err = c.run(); c.Err != nil {
		for _, o := range c.Outputs {
			o.discard(c.Files)
		}
		c.Outputs = nil
	}
	c.keys, c.producers, c.payload = nil, nil, nil
}

// Done hands the outcome to the owner.
func (c *Compaction) Done() { c.Ended(c) }

func (c *Compaction) run() error {
	points := cleanPoints(c.Segments)
	c.CleanNext = points.Next()
	c.producers = map[int64]core.Offset{}
	c.irregular = map[core.SegmentNumber]bool{}
	for i := range c.Segments {
		if err := c.inspect(&c.Segments[i]); err != nil {
			return err
		}
	}
	if len(c.Irregular) == 0 {
		c.droppable = points.Droppable(c.Clock.Now(), c.TombstoneRetention)
	}
	if err := c.learn(points.Next()); err != nil {
		return err
	}
	groups := c.groups()
	advanced := c.CleanNext > points.Next()
	for i, group := range groups {
		last := i == len(groups)-1
		changes := len(group) > 1 || last && advanced
		if !changes {
			var err error
			if changes, err = c.changes(&group[0]); err != nil {
				return err
			}
		}
		if !changes {
			continue
		}
		if err := c.rewrite(group, core.SegmentNumber(i), func() CleanPoints {
			if last && advanced {
				return points.Add(c.CleanNext, c.Clock.Now(), c.TombstoneRetention)
			}
			return points
		}); err != nil {
			return err
		}
	}
	return nil
}

// walk calls each for the frames of a segment that are part of the log.
func (c *Compaction) walk(s *CompactSegment, each func(h *FrameHeader, payload []byte) error) error {
	f, err := c.Files.OpenRead(s.path(c.Dir))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := c.scanner.Open(f, min(size, alignUp(s.End.Position)), &s.Header); err != nil {
		return err
	}
	c.scanner.Past = s.End.Index + 1
	for c.scanner.Next() {
		if c.Stopped != nil && c.Stopped() {
			return ErrCompactionStopped
		}
		h := &c.scanner.Frame
		c.Stats.BytesRead += FrameHeaderBytes + int64(h.Bytes)
		if !frameIndexed(h.Kind) {
			continue
		}
		if err := each(h, c.scanner.Payload); err != nil {
			return err
		}
	}
	return c.scanner.Err()
}

func (s *CompactSegment) path(dir string) string {
	return path.Join(dir, SegmentName(s.Header.BaseOffset, s.Header.Segment)+LogExtension)
}

// inspect looks for what must not be rewritten, and for each producer's last batch.
func (c *Compaction) inspect(s *CompactSegment) error {
	index, next := s.Header.BaseIndex-1, s.Header.BaseOffset
	regular := true
	err := c.walk(s, func(h *FrameHeader, payload []byte) error {
		if h.Index <= index || h.BaseOffset != next {
			regular = false
		}
		index, next = h.Index, h.Next()
		if h.Kind != FrameData {
			return nil
		}
		return eachBatch(payload, func(_ int, b proto.Batch) error {
			if id := b.ProducerID(); id != proto.ProducerIDNone {
				c.producers[id] = core.Offset(b.BaseOffset())
				c.boundProducers()
			}
			return nil
		})
	})
	switch {
	case errors.Is(err, ErrFrameUnknown), errors.Is(err, ErrBatch), errors.Is(err, ErrFileHeader):
		regular = false
	case err != nil:
		return fmt.Errorf("compaction: %s: %w", s.path(c.Dir), err)
	}
	if !regular || len(c.scanner.Holes) > 0 || c.scanner.Torn || index != s.End.Index || next != s.End.NextOffset {
		c.irregular[s.Header.Segment] = true
		c.Irregular = append(c.Irregular, s.Header.Segment)
	}
	return nil
}

// boundProducers forgets the producers that were last seen longest ago, when
// there are twice as many as a partition remembers.
func (c *Compaction) boundProducers() {
	if len(c.producers) < 2*core.ProducersPerPartitionMax {
		return
	}
	seen := slices.Sorted(maps.Values(c.producers))
	oldest := seen[len(seen)-core.ProducersPerPartitionMax]
	maps.DeleteFunc(c.producers, func(_ int64, o core.Offset) bool { return o < oldest })
}

// learn fills the table with the keys of the dirty part, as far as it holds them.
func (c *Compaction) learn(clean core.Offset) error {
	c.keys = newKeyTable(c.MapBytes)
	start := clean
	for i := range c.Segments {
		s := &c.Segments[i]
		if s.End.NextOffset <= start {
			continue
		}
		if c.irregular[s.Header.Segment] {
			c.CleanNext = s.End.NextOffset
			continue
		}
		err := c.walk(s, func(h *FrameHeader, payload []byte) error {
			if h.Next() <= start {
				return nil
			}
			// A frame that does not fit is left for the next pass. The first one must
			// fit, or no pass would ever get on.
			first := c.CleanNext <= start
			if h.Kind == FrameData && !c.learnFrame(payload, first) {
				return errCompactionEnough
			}
			c.CleanNext = h.Next()
			return nil
		})
		if errors.Is(err, errCompactionEnough) {
			break
		}
		if err != nil {
			return err
		}
	}
	c.Stats.Keys = c.keys.used
	return nil
}

func (c *Compaction) learnFrame(payload []byte, grow bool) bool {
	fits := true
	_ = eachBatch(payload, func(_ int, b proto.Batch) error {
		if c.records.Reset(b, lookupRecordBytesMax) != nil {
			return nil // unreadable: it stays as it is
		}
		for fits && c.records.Next() {
			if r := c.records.Record(); r.Key != nil {
				fits = c.keys.add(hashKey(r.Key), core.Offset(r.Offset), grow)
			}
		}
		return nil
	})
	return fits
}

// groups cuts the segments that lie below the clean point into runs that become
// one segment each.
func (c *Compaction) groups() [][]CompactSegment {
	var groups [][]CompactSegment
	open, size := false, int64(0)
	for i := range c.Segments {
		s := &c.Segments[i]
		// Segments that do not follow each other seamlessly stay apart.
		open = open && s.Header.BaseIndex == c.Segments[i-1].End.Index+1 && s.Header.BaseOffset == c.Segments[i-1].End.NextOffset
		if s.Header.BaseOffset >= c.CleanNext || c.irregular[s.Header.Segment] || s.End.Index < s.Header.BaseIndex {
			open = false
			continue
		}
		if size += s.End.Position; !open || size > c.SegmentBytes {
			groups = append(groups, nil)
			open, size = true, s.End.Position
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], *s)
	}
	return groups
}

// keep says whether a record stays.
func (c *Compaction) keep(r *proto.Record) bool {
	offset := core.Offset(r.Offset)
	if offset < c.LogStart {
		return false
	}
	if r.Key == nil {
		return true
	}
	if r.Value == nil && offset < c.droppable {
		return false
	}
	newest, ok := c.keys.newest(hashKey(r.Key))
	return !ok || offset >= newest
}

// changes says whether a segment has anything to lose.
func (c *Compaction) changes(s *CompactSegment) (bool, error) {
	err := c.walk(s, func(h *FrameHeader, payload []byte) error {
		if h.Kind != FrameData {
			return nil
		}
		return eachBatch(payload, func(_ int, b proto.Batch) error {
			if b.Count() == 0 && !c.lastOfProducer(b) {
				return errCompactionEnough
			}
			if c.records.Reset(b, lookupRecordBytesMax) != nil {
				return nil
			}
			for c.records.Next() {
				if !c.keep(c.records.Record()) {
					return errCompactionEnough
				}
			}
			return nil
		})
	})
	if errors.Is(err, errCompactionEnough) {
		return true, nil
	}
	return false, err
}

func (c *Compaction) lastOfProducer(b proto.Batch) bool {
	last, ok := c.producers[b.ProducerID()]
	return ok && last == core.Offset(b.BaseOffset())
}

// thin makes the payload of a data frame without what goes.
func (c *Compaction) thin(payload []byte) ([]byte, error) {
	c.payload = c.payload[:0]
	err := eachBatch(payload, func(_ int, b proto.Batch) error {
		before := len(c.payload)
		out, kept, err := c.filter.Append(c.payload, b, lookupRecordBytesMax, c.keep)
		if err != nil {
			c.Stats.BatchesUnreadable++
			c.payload = append(c.payload[:before], b...)
			return nil
		}
		c.payload = out
		c.Stats.RecordsRead += int64(b.Count())
		c.Stats.RecordsKept += int64(kept)
		if kept == 0 && !c.lastOfProducer(b) {
			c.payload = c.payload[:before]
		}
		return nil
	})
	if err == nil && len(c.payload) > framePayloadBytesMax {
		err = ErrCompactionGrows
	}
	return c.payload, err
}
