package segment

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// partitionVerifier checks one partition's folder.
type partitionVerifier struct {
	*verifier
	dir  string
	want FileHeader // Partition is filled in from the first segment

	segments []verifiedSegment
	states   map[core.SegmentNumber]*State
	others   []core.DirEntry // indexes and states

	journaled *journaled
	runs      []frameRun
	durable   core.Index
}

type verifiedSegment struct {
	name     string
	size     int64
	header   FileHeader
	headless bool
	holes    []Hole
	torn     bool
	tail     Hole
}

func (p *partitionVerifier) run() error {
	entries, err := p.files.List(p.dir)
	if err != nil {
		return err
	}
	stems := map[string]bool{}
	for _, e := range entries {
		name := path.Join(p.dir, e.Name)
		base, number, extension, ok := ParseSegmentName(e.Name)
		switch {
		case IsUnfinished(e.Name):
			p.report.warn(name, "was never completed; the next start removes it")
		case !ok || e.IsDir:
			p.report.warn(name, "is no file of a partition")
		case extension == LogExtension:
			stems[SegmentName(base, number)] = true
			if err := p.header(name, base, number, e.Size); err != nil {
				return err
			}
		case extension == IndexExtension || extension == StateExtension:
			p.others = append(p.others, e)
		default:
			p.report.warn(name, "is no file of a partition")
		}
	}
	p.supersede()
	if p.want.Partition == 0 {
		p.journaled = &journaled{starts: map[core.Generation]core.Index{}}
	} else {
		p.journaled = p.of(p.want.Partition)
	}
	for i := range p.segments {
		p.of(p.segments[i].header.Partition).foldered = true
	}
	p.durable = p.journaled.durable
	p.loadStates(stems)
	for i := range p.segments {
		if err := p.segment(&p.segments[i]); err != nil {
			return err
		}
	}
	p.judgeHoles()
	p.judgeRuns()
	return nil
}

// header reads a segment's header and refuses what does not belong here.
func (p *partitionVerifier) header(name string, base core.Offset, number core.SegmentNumber, size int64) error {
	p.sum.Segments++
	f, err := p.files.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, min(size, FileHeaderBytes))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		p.report.damage(DamageLine{File: name, End: int64(len(b)), What: err.Error()})
		return nil
	}
	h, err := ParseFileHeader(b)
	s := verifiedSegment{name: name, size: size, header: h}
	if err != nil {
		// A file without a single write behind its header never held anything: its
		// creation was cut short, and recovery removes it.
		var w scanWindow
		w.reset(f, size)
		unborn := allZero(w.view(FileHeaderBytes, 2*FrameHeaderBytes)) && w.unreadable == 0
		p.report.damage(DamageLine{File: name, End: int64(len(b)), What: err.Error(), Torn: unborn})
		if unborn || !p.scanner.salvage(f, size) {
			return nil
		}
		s.headless = true
		s.header = p.scanner.Header
		s.header.Segment, s.header.BaseOffset = number, base
	} else {
		if !p.owned(name, &h) {
			return nil
		}
		want := p.want
		want.Segment = number
		if want.Partition == 0 {
			want.Partition = h.Partition
		}
		if err := checkOwner(&h, &want); err != nil || h.Kind != FileSegment || h.BaseOffset != base {
			p.report.damaged(name, "foreign file: it says %s, topic %s, partition %d (id %d), segment %d, base offset %d: %v",
				h.Kind, h.Topic, h.Number, h.Partition, h.Segment, h.BaseOffset, err)
			return nil
		}
		p.want.Partition = h.Partition
	}
	p.segments = append(p.segments, s)
	return nil
}

// supersede leaves out what a compacted segment stands for, and sorts the rest.
func (p *partitionVerifier) supersede() {
	headers := make([]FileHeader, len(p.segments))
	for i := range p.segments {
		headers[i] = p.segments[i].header
	}
	var left []verifiedSegment
	for i, out := range SupersededSegments(headers) {
		if out {
			p.report.warn(p.segments[i].name, "a compacted segment stands for it; the next start removes it")
			continue
		}
		left = append(left, p.segments[i])
	}
	slices.SortStableFunc(left, func(a, b verifiedSegment) int {
		if c := cmp.Compare(a.header.BaseOffset, b.header.BaseOffset); c != 0 {
			return c
		}
		return cmp.Compare(a.header.Segment, b.header.Segment)
	})
	for i := 1; i < len(left); i++ {
		if a, b := &left[i-1].header, &left[i].header; segmentsOverlap(a, b) || a.BaseIndex > b.BaseIndex || a.ReplacesNext > 0 && b.ReplacesNext > 0 && b.BaseIndex < a.ReplacesNext {
			p.report.damaged(left[i].name, "overlaps %s", left[i-1].name)
		}
	}
	p.segments = left
}

// loadStates parses the states, which are compared while their segments are read.
func (p *partitionVerifier) loadStates(stems map[string]bool) {
	p.states = map[core.SegmentNumber]*State{}
	for _, e := range p.others {
		base, number, extension, _ := ParseSegmentName(e.Name)
		name := path.Join(p.dir, e.Name)
		if !stems[SegmentName(base, number)] {
			p.report.warn(name, "its segment is not there")
		}
		if extension != StateExtension {
			continue
		}
		p.sum.States++
		p.sum.Bytes += e.Size
		want := p.want
		want.Segment = number
		s, err := loadState(p.files, name, &want, base)
		if err != nil {
			p.report.damaged(name, "%v; the one before it and the log stand in", err)
			continue
		}
		p.states[number] = s
		p.durable = max(p.durable, s.Index)
		p.journaled.logStart = max(p.journaled.logStart, s.LogStart)
	}
}

// segment reads one segment to its end.
func (p *partitionVerifier) segment(v *verifiedSegment) error {
	f, err := p.files.OpenRead(v.name)
	if err != nil {
		return err
	}
	defer f.Close()
	p.sum.Bytes += v.size
	s := &p.scanner
	if v.headless {
		if !s.salvage(f, v.size) {
			return nil
		}
	} else if err := s.Open(f, v.size, &v.header); err != nil {
		p.report.damaged(v.name, "%v", err)
		return nil
	}
	p.index.Reset(v.header.BaseOffset, v.header.BaseIndex)
	state := p.states[v.header.Segment]
	index, next := v.header.BaseIndex-1, v.header.BaseOffset
	for s.Next() {
		if state != nil && s.Position >= state.Position {
			p.judgeState(v, state, index, next)
			state = nil
		}
		t := TimestampNone
		if s.Frame.Kind == FrameData {
			t = PayloadMaxTimestamp(s.Payload)
			p.batches(v.name, s)
		}
		p.index.Add(&s.Frame, s.Position, t)
		if s.Frame.Kind == FrameGeneration {
			p.journaled.begins(s.Frame.Generation, s.Frame.Index)
		}
		if !frameIndexed(s.Frame.Kind) {
			continue
		}
		p.sum.Frames++
		p.journaled.control(&s.Frame, s.Payload)
		first := s.Frame.Index
		if v.header.ReplacesNext > 0 && len(s.Holes) == 0 {
			first = min(first, index+1)
		}
		p.runs = addToRuns(p.runs, &s.Frame, first, v.name)
		index, next = s.Frame.Index, s.Frame.Next()
	}
	if state != nil && state.Position <= s.End {
		p.judgeState(v, state, index, next)
	} else if state != nil {
		p.report.damaged(stateName(v.name), "stands for position %d, its segment ends at %d", state.Position, s.End)
	}
	if s.Err() != nil {
		p.report.damaged(v.name, "%v", s.Err())
	}
	v.holes, v.torn, v.tail = slices.Clone(s.Holes), s.Torn, s.Tail
	p.durable = max(p.durable, s.Durable)
	if v.header.ReplacesNext > 0 && index+1 != v.header.ReplacesNext {
		p.report.damaged(v.name, "compacted up to index %d, it ends at %d", v.header.ReplacesNext-1, index)
	}
	if !v.headless {
		p.judgeIndex(v)
	}
	return nil
}

func stateName(log string) string { return log[:len(log)-len(LogExtension)] + StateExtension }

// judgeState compares a state with the frames before its point.
func (p *partitionVerifier) judgeState(v *verifiedSegment, s *State, index core.Index, next core.Offset) {
	if s.Index != index || s.NextOffset != next {
		p.report.damaged(stateName(v.name), "stands for index %d, next offset %d at position %d; the segment has %d, %d there",
			s.Index, s.NextOffset, s.Position, index, next)
	}
}

// batches checks the record batches of a data frame.
func (p *partitionVerifier) batches(name string, s *Scanner) {
	h := &s.Frame
	next := h.BaseOffset
	damage := func(what string) {
		base, end := h.BaseOffset, h.Next()
		p.report.damage(DamageLine{File: name, Start: s.Position, End: s.Position + FrameHeaderBytes + int64(h.Bytes), What: what,
			Partition: h.Partition, IndexFirst: h.Index, IndexNext: h.Index + 1, OffsetFirst: &base, OffsetNext: &end})
	}
	err := eachBatch(s.Payload, func(_ int, b proto.Batch) error {
		p.sum.Batches++
		p.sum.Records += int64(b.Count())
		base := core.Offset(b.BaseOffset())
		// Compaction leaves gaps between the batches of a frame, and none overlaps.
		if base < next || core.Offset(b.NextOffset()) > h.Next() || b.LeaderEpoch() != int32(h.Term) {
			damage("a batch does not fit its frame in offsets or epoch")
		}
		next = core.Offset(b.NextOffset())
		return b.ValidateCRC()
	})
	if err != nil {
		damage(err.Error())
	}
}

// judgeIndex compares a segment's index file with the one just made. An index is
// a cache that is never synced, so a bad one is worth a warning only.
func (p *partitionVerifier) judgeIndex(v *verifiedSegment) {
	name := v.name[:len(v.name)-len(LogExtension)] + IndexExtension
	b, err := readFile(p.files, name, indexFileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.sum.Indexes++
	p.sum.Bytes += int64(len(b))
	var h FileHeader
	var x *Index
	if err == nil {
		h, x, err = ParseIndexFile(b)
	}
	if err == nil {
		err = checkOwner(&h, &v.header)
	}
	if err != nil {
		p.report.warn(name, "%v; the next start rebuilds it", err)
		return
	}
	if len(v.holes) > 0 || v.torn {
		return // the index may well know what the segment has lost
	}
	same := h.Salt == v.header.Salt && len(x.Entries) <= len(p.index.Entries) && slices.Equal(x.Entries, p.index.Entries[:len(x.Entries)])
	switch {
	case !same:
		p.report.warn(name, "does not fit its segment; the next start rebuilds it")
	case alignUp(x.End) != alignUp(p.index.End):
		p.report.warn(name, "ends at position %d, its segment at %d; the next start rebuilds it", x.End, p.index.End)
	case len(x.Entries) != len(p.index.Entries) || x.NextOffset != p.index.NextOffset || x.LastIndex != p.index.LastIndex ||
		x.MaxTimestamp != p.index.MaxTimestamp:
		p.report.warn(name, "does not fit its segment; the next start rebuilds it")
	}
}

// judgeHoles says of each hole whether it is damage. It is a torn write when
// nothing calls what stood there durable, or when the journal still holds it: a
// segment is synced later than the journal, and recovery writes it anew from
// there. Below the sealed point the segment itself was synced.
func (p *partitionVerifier) judgeHoles() {
	for i := range p.segments {
		v := &p.segments[i]
		// From the next segment's base on nothing in this one counts: recovery ends a
		// segment where a cut frame left something in its last block.
		left := func(h *Hole) bool {
			return i+1 < len(p.segments) && h.IndexFirst >= p.segments[i+1].header.BaseIndex
		}
		for _, h := range v.holes {
			p.report.damage(holeLine(v.name, h, v.header.Partition, left(&h) || p.isTorn(&h)))
		}
		if v.torn {
			h := v.tail
			if h.IndexNext == h.IndexFirst {
				h.IndexNext++ // at least one frame was being written
			}
			p.report.damage(holeLine(v.name, v.tail, v.header.Partition, left(&h) || p.isTorn(&h)))
		}
	}
}

func (p *partitionVerifier) isTorn(h *Hole) bool {
	if errors.Is(h.Cause, ErrUnreadable) || h.IndexNext == h.IndexFirst {
		return false
	}
	if h.IndexFirst > p.durable {
		return true
	}
	if h.IndexFirst <= p.journaled.sealed {
		return false
	}
	for index := h.IndexFirst; index < h.IndexNext; {
		next := p.covered(index)
		if next <= index {
			return index > p.durable
		}
		index = next
	}
	return true
}

// covered is the index up to which frames from the given one on stand in another
// place: in the journal, or in a later segment that was written instead.
func (p *partitionVerifier) covered(index core.Index) core.Index {
	next := index
	for _, runs := range [][]frameRun{p.journaled.runs, p.runs} {
		for _, r := range runs {
			if index >= r.first {
				next = max(next, r.next)
			}
		}
	}
	return next
}

// judgeRuns looks for frames that are missing, doubled or do not follow.
func (p *partitionVerifier) judgeRuns() {
	all := slices.Clone(p.runs)
	if len(p.segments) > 0 {
		// What the journal still holds of removed segments does not count.
		lowest := p.segments[0].header.BaseIndex
		for _, r := range p.journaled.runs {
			if r.next > lowest {
				all = append(all, r)
			}
		}
	} else {
		all = append(all, p.journaled.runs...)
	}
	for _, r := range all {
		p.journaled.begins(r.generation, r.first)
	}
	live, discarded := liveRuns(all, p.journaled.starts)
	p.sum.Discarded += discarded
	if len(live) == 0 {
		if p.durable > 0 && len(p.segments) > 0 {
			p.report.damaged(p.dir, "frames up to index %d were durable, none is left", p.durable)
		}
		return
	}
	next, end := live[0].first, live[0].base
	if len(p.segments) > 0 && p.segments[0].header.BaseIndex > 0 {
		next, end = p.segments[0].header.BaseIndex, p.segments[0].header.BaseOffset
		if end > p.journaled.logStart {
			p.report.warn(p.dir, "the first segment begins at offset %d, and nothing says that the log starts after %d", end, p.journaled.logStart)
		}
	}
	for _, r := range live {
		switch {
		case r.first > next:
			p.gap(next, r.first, end, r.base, r.file)
		case r.first == next && end >= 0 && r.base != end:
			p.report.damaged(r.file, "index %d is at offset %d, the frame before it ends at %d", r.first, r.base, end)
		}
		if r.next > next {
			next, end = r.next, r.end
		}
	}
	if p.durable >= next {
		p.gap(next, p.durable+1, end, -1, p.dir)
	}
}

// gap reports frames that are nowhere, unless a hole has been reported for them.
func (p *partitionVerifier) gap(first, next core.Index, base, end core.Offset, file string) {
	for i := range p.segments {
		v := &p.segments[i]
		for _, h := range append(slices.Clone(v.holes), v.tail) {
			if h.IndexNext > h.IndexFirst && h.IndexFirst <= first && h.IndexNext >= next {
				return
			}
		}
	}
	// A frame that was written after a synced group that is lost, and stands: what is
	// missing before it was durable, too.
	lost := p.hurt[p.journaled.shard] && base >= 0 && end > base
	if first > p.durable && !lost {
		p.report.warn(file, "indexes [%d, %d) are missing above the durable point %d; the next start cuts there", first, next, p.durable)
		return
	}
	line := DamageLine{File: file, What: "frames are missing", Partition: p.want.Partition, IndexFirst: first, IndexNext: next}
	if base >= 0 && end > base {
		line.OffsetFirst, line.OffsetNext = &base, &end
	}
	p.report.damage(line)
}
