package segment

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// foreignRig has two partitions with three segments each.
func foreignRig(t *testing.T) *rig {
	r := newRig(t, func(o *rigOptions) { o.log.SegmentBytes = SegmentBytesMin })
	for _, o := range r.serve(16, 17) {
		o.append(1, 10)
		r.settle()
		for range 2 {
			o.append(1, 66<<10)
			r.settle()
		}
		if len(o.log.segments) != 3 {
			t.Fatalf("%d segments", len(o.log.segments))
		}
	}
	return r
}

// addFile makes a durable file.
func (r *rig) addFile(name string, b []byte) {
	r.t.Helper()
	if err := writeFile(r.fs, name, b, true); err != nil {
		r.t.Fatal(err)
	}
	if err := r.fs.SyncDir(path.Dir(name)); err != nil {
		r.t.Fatal(err)
	}
}

// editHeader changes the header of a file and seals it anew.
func (r *rig) editHeader(name string, edit func(*FileHeader)) {
	r.t.Helper()
	h, err := ParseFileHeader(r.readAll(name))
	if err != nil {
		r.t.Fatal(err)
	}
	edit(&h)
	b := make([]byte, FileHeaderBytes)
	h.Put(b)
	r.patch(name, 0, b)
}

func segmentPath(id core.PartitionID, base core.Offset, number core.SegmentNumber) string {
	return path.Join(rigIdentity(id).dir(), SegmentName(base, number)+LogExtension)
}

// refusesByName requires partition 16 to be refused with a file's name and a reason,
// whatever else is read of the folder to be as it was, and partition 17 to go on.
func refusesByName(t *testing.T, r *rig, what, name, reason string) {
	t.Helper()
	before := r.readAll(name)
	_, err := r.tryOpen(16)
	if !errors.Is(err, ErrFileForeign) || !strings.Contains(err.Error(), path.Base(name)) || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: opened with %v; want the name %s and %q", what, err, path.Base(name), reason)
		return
	}
	if string(r.readAll(name)) != string(before) {
		t.Errorf("%s: the refused file was changed", what)
	}
	o := r.open(17)
	r.store.Start()
	o.append(1, 10)
	r.settle()
	if got, err := o.read(0, o.log.EndOffset(), 1<<20); err != nil || len(got) == 0 || o.log.DurableOffset() != o.log.EndOffset() {
		t.Errorf("%s: the other partition does not go on: %v", what, err)
	}
}

// A file that belongs elsewhere makes its partition refuse service and name it. It
// is never merged and never removed, and the other partitions go on.
func TestForeignFilesAreRefusedByName(t *testing.T) {
	r := foreignRig(t)
	second := segmentPath(16, 1, 2)
	if r.owners[16].log.segments[1].path != second {
		t.Fatalf("the second segment is %s", r.owners[16].log.segments[1].path)
	}
	for _, c := range []struct {
		what, name, reason string
		do                 func(*rig)
	}{
		{"of another data folder", second, "incarnation", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.Incarnation[3]++ }) }},
		{"of another topic", second, "topic", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.Topic[7]++ }) }},
		{"of another partition", second, "partition id 17", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.Partition++ }) }},
		{"of another place in the topic", second, "partition number", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.Number++ }) }},
		{"moved here from another partition", segmentPath(16, 9, 9), "topic", func(r *rig) { r.addFile(segmentPath(16, 9, 9), r.readAll(segmentPath(17, 1, 2))) }},
		{"a copy under another number", segmentPath(16, 1, 9), "segment number 2, expected 9", func(r *rig) { r.addFile(segmentPath(16, 1, 9), r.readAll(second)) }},
		{"a copy under another offset", segmentPath(16, 7, 2), "says base offset 1", func(r *rig) { r.addFile(segmentPath(16, 7, 2), r.readAll(second)) }},
		{"of another kind", second, "kind", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.Kind = FileState }) }},
		{"without a first index", second, "base index 0", func(r *rig) { r.editHeader(second, func(h *FileHeader) { h.BaseIndex = 0 }) }},
	} {
		refusesByName(t, r.branchAfter(c.do), c.what, c.name, c.reason)
	}
}

// branchAfter is the rig started on its disk after a change, killed before it.
func (r *rig) branchAfter(do func(*rig)) *rig {
	r.t.Helper()
	c := *r
	c.fs = r.fs.Kill(0)
	do(&c)
	return r.branch(c.fs)
}

// Two segments that claim the same frames are refused with both their names,
// whichever way they overlap.
func TestOverlappingSegmentsAreRefusedByName(t *testing.T) {
	r := foreignRig(t)
	third := r.owners[16].log.segments[2].path
	index := r.owners[16].log.segments[1].header.BaseIndex
	for _, c := range []struct {
		what, name string
		do         func(*rig)
	}{
		{"a later segment that begins at an earlier index", third, func(r *rig) {
			r.editHeader(third, func(h *FileHeader) { h.BaseIndex = index - 1 })
		}},
		{"a copy between two others", segmentPath(16, 0, 9), func(r *rig) {
			// An older copy of the second segment, under a name and a header of its own.
			r.addFile(segmentPath(16, 0, 9), r.readAll(segmentPath(16, 1, 2)))
			r.editHeader(segmentPath(16, 0, 9), func(h *FileHeader) { h.Segment, h.BaseOffset, h.BaseIndex = 9, 0, index-1 })
		}},
	} {
		refusesByName(t, r.branchAfter(c.do), c.what, c.name, "overlap")
	}
}

// A journal file that belongs elsewhere stops the start and is named: nobody knows
// whose votes and records it holds.
func TestForeignJournalIsRefusedByName(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(1, 10)
	r.settle()
	name := JournalPath(1, 0, 2)
	for _, c := range []struct {
		what string
		edit func(*FileHeader)
	}{
		{"of another data folder", func(h *FileHeader) { h.Incarnation[0]++ }},
		{"of another layout", func(h *FileHeader) { h.Layout++ }},
		{"of another shard", func(h *FileHeader) { h.Shard++ }},
		{"of another number", func(h *FileHeader) { h.FileNumber++ }},
		{"of another kind", func(h *FileHeader) { h.Kind = FileSegment }},
	} {
		f := *r
		f.ops, f.fs = nil, r.fs.Kill(0)
		f.editHeader(name, c.edit)
		if err := f.tryStart(); !errors.Is(err, ErrFileForeign) || !strings.Contains(err.Error(), path.Base(name)) {
			t.Errorf("%s: started with %v", c.what, err)
		}
	}
}

// A record may hold the bytes of a whole journal group, made to follow the last one
// of the journal. When the group that carries it is torn, recovery looks into it,
// block by block, for the next one: only the file's own salt tells the forged group
// from a real one, and clients never learn that.
func TestForgedGroupIsNotReplayed(t *testing.T) {
	marker := []byte(strings.Repeat("marker", 4))
	run := func(value []byte) (*rig, int64, int64) {
		batchSeed = 0
		r := newRig(t, nil)
		o := r.serve(16)[0]
		o.append(1, 10)
		r.settle()
		at := r.store.journal.position
		if err := o.tryAppendBatch(valueBatch(value), 1, core.DurabilitySync); err != nil {
			t.Fatal(err)
		}
		r.settle()
		raw := r.readAll(r.store.journal.current.path)
		return r, at, int64(strings.Index(string(raw), string(marker)))
	}
	value := make([]byte, 20<<10)
	copy(value, marker)
	r, group, in := run(value)
	if in < group {
		t.Fatalf("the record is at %d, its group at %d", in, group)
	}
	// What stands on the file's next boundary inside the record is the forged group.
	boundary := alignUp(in + int64(len(marker)))
	head, err := ParseGroupHeader(r.readAll(r.store.journal.current.path)[group:])
	if err != nil {
		t.Fatal(err)
	}
	evil := valueBatch([]byte("forged"))
	evil.SetBaseOffset(1)
	h := FrameHeader{Kind: FrameData, PayloadCRC: crcOf(evil), Partition: 16, Index: 3, Term: 1, Generation: 1, BaseOffset: 1, Span: 1, Bytes: uint32(len(evil))}
	frame := make([]byte, FrameHeaderBytes)
	h.Put(frame)
	body := append(frame, evil...)
	forged := head
	forged.Salt++
	forged.Bytes, forged.BodyCRC = uint32(len(body)), crcOf(body)
	forged.Put(value[boundary-in:])
	copy(value[boundary-in+GroupHeaderBytes:], body)
	r, group, again := run(value)
	if again != in {
		t.Fatalf("the record moved from %d to %d", in, again)
	}
	if _, _, err := ParseGroup(r.readAll(r.store.journal.current.path)[boundary:]); err != nil {
		t.Fatalf("the forged group is none: %v", err)
	}
	name := r.store.journal.current.path
	c := *r
	c.ops, c.fs = nil, r.fs.Kill(0)
	c.patch(name, group+GroupHeaderBytes+FrameHeaderBytes+70, []byte{0xaa}) // torn
	c.start()
	o := c.open(16)
	for _, b := range o.history {
		if strings.Contains(string(b.bytes), "forged") {
			t.Fatal("a client's bytes were replayed as a group of the journal")
		}
	}
	if o.log.EndOffset() != 1 {
		t.Fatalf("the log ends at %d", o.log.EndOffset())
	}
}

// A frame of a kind that this build does not know stops its own partition and names
// the place, in the journal and in a segment; the others go on.
func TestUnknownFrameStopsItsPartition(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 10)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
	}
	at := r.store.journal.position
	owners[0].append(1, 50)
	r.settle()
	journal, segment := r.store.journal.current.path, owners[0].log.active().path
	const unknown = FrameKind(16)
	for _, c := range []struct {
		name string
		do   func(*rig)
	}{
		{journal, func(r *rig) {
			raw := r.readAll(journal)
			head, body, err := ParseGroup(raw[at:])
			if err != nil {
				t.Fatal(err)
			}
			frame, err := ParseFrameHeader(body)
			if err != nil {
				t.Fatal(err)
			}
			frame.Kind = unknown
			frame.Put(body)
			head.BodyCRC = crcOf(body)
			head.Put(raw[at:])
			r.patch(journal, at, raw[at:at+GroupHeaderBytes+int64(len(body))])
		}},
		{segment, func(r *rig) {
			raw := r.readAll(segment)
			from := FileHeaderBytes + FrameHeaderBytes
			frame, err := ParseFrameHeader(raw[from:])
			if err != nil {
				t.Fatal(err)
			}
			frame.Kind = unknown
			frame.Put(raw[from:])
			r.patch(segment, int64(from), raw[from:from+FrameHeaderBytes])
		}},
	} {
		f := r.branchAfter(c.do)
		_, err := f.tryOpen(16)
		if !errors.Is(err, ErrFrameUnknown) || !strings.Contains(err.Error(), path.Base(c.name)) {
			t.Errorf("%s: opened with %v", c.name, err)
		}
		other := f.open(17)
		if other.log.EndOffset() != 2 {
			t.Errorf("%s: the other partition ends at %d", c.name, other.log.EndOffset())
		}
		// It is set aside for a build that knows it.
		if err := f.hold(); err != nil {
			t.Fatal(err)
		}
		f.store.Start()
		f.recycleAll(other)
		f.recycleAll(other)
		f.kill(2)
		if _, err := f.tryOpen(16); !errors.Is(err, ErrFrameUnknown) {
			t.Errorf("%s: once its journal file was recycled it opened with %v", c.name, err)
		}
	}
}
