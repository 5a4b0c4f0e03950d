package segment

import (
	"fmt"
	"math"
	"path"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// CompactOutput is one segment that a pass has written, durable but under a name
// that recovery removes, until it is swapped in.
type CompactOutput struct {
	Header   FileHeader
	Dir      string
	End      SealedPoint
	Index    *Index
	Replaces []CompactSegment
}

// Segment is the output as an input of the next pass.
func (o *CompactOutput) Segment() CompactSegment {
	return CompactSegment{Header: o.Header, End: o.End}
}

// Path is the segment's file once it is swapped in.
func (o *CompactOutput) Path() string {
	return path.Join(o.Dir, SegmentName(o.Header.BaseOffset, o.Header.Segment)+LogExtension)
}

// Swap makes the output part of the log, durably. It blocks: the engine has a
// worker do it. What it replaces is removed after that; the removal need not be
// durable, because SupersededSegments finds it again.
func (o *CompactOutput) Swap(files core.FS) error {
	if err := files.Rename(o.Path()+newSuffix, o.Path()); err != nil {
		return err
	}
	return files.SyncDir(o.Dir)
}

func (o *CompactOutput) discard(files core.FS) {
	_ = files.Remove(o.Path() + newSuffix)
	_ = files.Remove(path.Join(o.Dir, SegmentName(o.Header.BaseOffset, o.Header.Segment)+IndexExtension))
}

// SupersededSegments is the rule that recovery applies to the headers of a
// partition's segment files: it says of each whether a compacted segment stands
// for it, so that its files are to be removed and not read. Files that
// IsUnfinished names are removed before.
func SupersededSegments(headers []FileHeader) []bool {
	out := make([]bool, len(headers))
	for i := range headers {
		for j := range headers {
			h, by := &headers[i], &headers[j]
			if by.ReplacesNext > 0 && by.Segment > h.Segment && h.BaseIndex >= by.BaseIndex && h.BaseIndex < by.ReplacesNext {
				out[i] = true
			}
		}
	}
	return out
}

const (
	// compactWriteBytes is about how much an output writes at a time.
	compactWriteBytes = 1 << 20
	// compactMarkBytes is how far marks stand apart inside a write, so that a bad
	// frame header does not cost the rest of it.
	compactMarkBytes = 16 << 10
)

// compactWriter lays out one output.
//
// Invariant: buf is empty, or begins with room for a write mark.
type compactWriter struct {
	file    core.File
	header  *FileHeader
	durable core.Index // of the partition: all inputs are
	at      int64      // where buf goes
	buf     []byte
	marked  int // where in buf the last mark stands
	written int64

	empty   FrameHeader // frames whose records are all gone, gathered
	gathers bool
}

// rewrite makes one output of a group of segments.
func (c *Compaction) rewrite(group []CompactSegment, place core.SegmentNumber, clean func() CleanPoints) (err error) {
	first, last := &group[0], &group[len(group)-1]
	o := &CompactOutput{Dir: c.Dir, Header: first.Header, Replaces: group}
	o.Header.Segment = c.NumberNext + place
	o.Header.Salt = mixSalt(c.Salt, uint64(o.Header.Segment))
	o.Header.ReplacesNext = last.End.Index + 1
	c.Outputs = append(c.Outputs, o)
	o.discard(c.Files)
	f, err := c.Files.Create(o.Path() + newSuffix)
	if err != nil {
		return fmt.Errorf("compaction: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("compaction: %w", e)
		}
	}()
	w := &compactWriter{file: f, header: &o.Header, durable: last.End.Index, at: FileHeaderBytes}
	for i := range group {
		if err := c.walk(&group[i], func(h *FrameHeader, payload []byte) error { return c.copyFrame(w, h, payload) }); err != nil {
			return err
		}
	}
	if err := w.finish(clean()); err != nil {
		return fmt.Errorf("compaction: write %s: %w", o.Path(), err)
	}
	c.Stats.BytesWritten += w.written
	return c.prove(f, o, w.at, last.End)
}

// mixSalt spreads one random number over several files; the constants are splitmix64's.
func mixSalt(seed, n uint64) uint64 {
	x := seed + n*0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (c *Compaction) copyFrame(w *compactWriter, h *FrameHeader, payload []byte) error {
	if h.Kind != FrameData {
		return w.frame(h, payload)
	}
	thin, err := c.thin(payload)
	if err != nil {
		return err
	}
	if len(thin) == 0 {
		return w.gather(h)
	}
	head := *h
	head.Bytes, head.PayloadCRC = uint32(len(thin)), proto.CRC(thin)
	return w.frame(&head, thin)
}

// gather takes a frame without records into the one that stands for its neighbours too.
func (w *compactWriter) gather(h *FrameHeader) error {
	if e := &w.empty; w.gathers && e.Term == h.Term && e.Generation == h.Generation && e.Next() == h.BaseOffset &&
		uint64(e.Span)+uint64(h.Span) <= math.MaxUint32 {
		e.Index, e.Span, e.AppendTime = h.Index, e.Span+h.Span, max(e.AppendTime, h.AppendTime)
		return nil
	}
	if err := w.release(); err != nil {
		return err
	}
	w.empty, w.gathers = *h, true
	w.empty.Bytes, w.empty.PayloadCRC = 0, proto.CRC(nil)
	return nil
}

// release writes the gathered frame.
func (w *compactWriter) release() error {
	if !w.gathers {
		return nil
	}
	w.gathers = false
	return w.put(&w.empty, nil)
}

func (w *compactWriter) frame(h *FrameHeader, payload []byte) error {
	if err := w.release(); err != nil {
		return err
	}
	return w.put(h, payload)
}

func (w *compactWriter) put(h *FrameHeader, payload []byte) error {
	if len(w.buf) == 0 || len(w.buf)-w.marked >= compactMarkBytes {
		w.marked = len(w.buf)
		w.buf = append(w.buf, zeroBlock[:FrameHeaderBytes]...)
		mark := WriteMark{Partition: w.header.Partition, Durable: w.durable, Next: h.BaseOffset, Term: h.Term,
			Generation: h.Generation, Salt: w.header.Salt, Position: w.at + int64(w.marked)}
		mark.Put(w.buf[w.marked:])
	}
	at := len(w.buf)
	w.buf = append(w.buf, zeroBlock[:FrameHeaderBytes]...)
	h.Put(w.buf[at:])
	w.buf = append(w.buf, payload...)
	if len(w.buf) >= compactWriteBytes {
		return w.flush()
	}
	return nil
}

func (w *compactWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.buf = append(w.buf, zeroBlock[:alignUp(int64(len(w.buf)))-int64(len(w.buf))]...)
	if _, err := w.file.WriteAt(w.buf, w.at); err != nil {
		return err
	}
	w.at += int64(len(w.buf))
	w.written += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// finish writes the header last, so that the clean point's time is not before
// the work it stands for, and makes everything durable.
func (w *compactWriter) finish(clean CleanPoints) error {
	if err := w.release(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.header.Clean = clean
	b := make([]byte, FileHeaderBytes)
	w.header.Put(b)
	if _, err := w.file.WriteAt(b, 0); err != nil {
		return err
	}
	return w.file.Sync()
}

// prove reads an output back: it must be whole and reach exactly as far as what
// it replaces. The walk also makes its index.
func (c *Compaction) prove(f core.File, o *CompactOutput, size int64, end SealedPoint) error {
	if err := c.scanner.Open(f, size, &o.Header); err != nil {
		return fmt.Errorf("compaction: read back %s: %w", o.Path(), err)
	}
	o.Index = NewIndex(o.Header.BaseOffset, o.Header.BaseIndex)
	if err := RebuildIndex(&c.scanner, o.Index); err != nil {
		return fmt.Errorf("compaction: read back %s: %w", o.Path(), err)
	}
	if len(c.scanner.Holes) > 0 || c.scanner.Torn || o.Index.LastIndex != end.Index || o.Index.NextOffset != end.NextOffset {
		return fmt.Errorf("compaction: read back %s: it ends at index %d, offset %d with %d holes; expected %d, %d",
			o.Path(), o.Index.LastIndex, o.Index.NextOffset, len(c.scanner.Holes), end.Index, end.NextOffset)
	}
	o.End = SealedPoint{Segment: o.Header.Segment, Position: size, Index: end.Index, NextOffset: end.NextOffset}
	stem := path.Join(o.Dir, SegmentName(o.Header.BaseOffset, o.Header.Segment))
	if err := SaveIndex(c.Files, stem+IndexExtension, &o.Header, o.Index); err != nil {
		return fmt.Errorf("compaction: %w", err)
	}
	return nil
}
