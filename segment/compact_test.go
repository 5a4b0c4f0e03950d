package segment

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"pgregory.net/rapid"
)

// testClock is a clock that a test moves.
type testClock struct{ now int64 }

func (c *testClock) Now() int64       { return c.now }
func (c *testClock) Monotonic() int64 { return c.now }

// keyedLog is a log of keyed records in sealed segments, and the truth about it.
type keyedLog struct {
	t        testing.TB
	files    *folder
	clock    *testClock
	segments []CompactSegment
	next     core.SegmentNumber
	offset   core.Offset
	index    core.Index
	term     core.Term

	records   []proto.Record // by offset
	sequences map[int64]int32
	producers map[int64]int32 // next sequence
	// cleaned is, for each offset, when a pass first made it clean; 0 never.
	cleaned []int64
}

func newKeyedLog(t testing.TB) *keyedLog {
	files := newFolder()
	files.dirs[testDir] = true
	return &keyedLog{t: t, files: files, clock: &testClock{now: 1e18}, next: 1, index: 1, term: 1,
		sequences: map[int64]int32{}, producers: map[int64]int32{}}
}

// segment seals one more segment made by run.
func (l *keyedLog) segment(run func(w *logWriter)) {
	h := testHeader(l.next, l.offset, l.index)
	l.next++
	w := newLogWriter(l.t, h)
	w.term = l.term
	run(w)
	l.offset, l.index, l.term = w.next, w.index+1, w.term
	l.files.put(path.Join(testDir, SegmentName(h.BaseOffset, h.Segment)+LogExtension), w.bytes)
	l.segments = append(l.segments, CompactSegment{h, SealedPoint{h.Segment, int64(len(w.bytes)), w.index, w.next}})
}

// batch appends a frame with one batch per list of records.
func (l *keyedLog) frame(w *logWriter, codec proto.Codec, producer int64, batches ...[]proto.Record) {
	var payload []byte
	base := w.next
	for _, records := range batches {
		b := w.batch(base, codec, records...)
		if producer >= 0 {
			b.SetProducer(producer, 0, l.producers[producer])
			l.sequences[producer] = b.LastSequence()
			l.producers[producer] = proto.SequenceAdd(b.LastSequence(), 1)
		}
		payload = append(payload, b...)
		for i := range records {
			r := records[i]
			r.Offset = int64(base) + int64(i)
			l.records = append(l.records, r)
			l.cleaned = append(l.cleaned, 0)
		}
		base += core.Offset(len(records))
	}
	w.frame(FrameData, uint32(base-w.next), payload)
}

func (l *keyedLog) pass(mapBytes, segmentBytes int64, retention int64) *Compaction {
	l.t.Helper()
	ended := 0
	c := &Compaction{Files: l.files, Clock: l.clock, Dir: testDir, Segments: slices.Clone(l.segments), NumberNext: l.next,
		Salt: 12345 + uint64(l.next), SegmentBytes: segmentBytes, MapBytes: mapBytes, TombstoneRetention: retention,
		Ended: func(*Compaction) { ended++ }}
	l.next += core.SegmentNumber(len(l.segments))
	c.Run()
	c.Done()
	if ended != 1 {
		l.t.Fatal("the owner was not told")
	}
	return c
}

// swap does what the engine does with a pass's outputs, and stops before the
// n-th operation that changes anything.
func (l *keyedLog) swap(c *Compaction, n int) {
	l.files.steps, l.files.failAt = 0, n+1
	defer func() { l.files.failAt = 0 }()
	for _, o := range c.Outputs {
		if err := o.Swap(l.files); err != nil {
			return
		}
		if l.files.durable[o.Path()] == nil {
			l.t.Fatal("a swap is not durable when it says so")
		}
		for i := range o.Replaces {
			stem := strings.TrimSuffix(o.Replaces[i].path(o.Dir), LogExtension)
			for _, extension := range []string{StateExtension, IndexExtension, LogExtension} {
				if errors.Is(l.files.Remove(stem+extension), errFolderCut) {
					return
				}
			}
		}
	}
}

// reopen applies the recovery rule to what is in the folder.
func (l *keyedLog) reopen() {
	l.t.Helper()
	entries, err := l.files.List(testDir)
	if err != nil {
		l.t.Fatal(err)
	}
	var headers []FileHeader
	var names []string
	for _, e := range entries {
		name := path.Join(testDir, e.Name)
		if IsUnfinished(e.Name) {
			_ = l.files.Remove(name)
			continue
		}
		if _, _, extension, ok := ParseSegmentName(e.Name); !ok || extension != LogExtension {
			continue
		}
		h, err := ParseFileHeader(l.files.get(l.t, name))
		if err != nil {
			l.t.Fatal(name, err)
		}
		headers, names = append(headers, h), append(names, name)
	}
	l.segments = nil
	for i, out := range SupersededSegments(headers) {
		if out {
			_ = l.files.Remove(names[i])
			continue
		}
		got := scanBytes(l.t, l.files.get(l.t, names[i]), &headers[i])
		if got.err != nil || len(got.holes) > 0 || got.torn {
			l.t.Fatalf("%s: %v %v %v", names[i], got.err, got.holes, got.tail)
		}
		end := SealedPoint{Segment: headers[i].Segment, Position: got.end, Index: headers[i].BaseIndex - 1, NextOffset: headers[i].BaseOffset}
		for _, f := range got.frames {
			if frameIndexed(f.header.Kind) {
				end.Index, end.NextOffset = f.header.Index, f.header.Next()
			}
		}
		l.segments = append(l.segments, CompactSegment{headers[i], end})
	}
	slices.SortFunc(l.segments, func(a, b CompactSegment) int { return int(a.Header.BaseIndex) - int(b.Header.BaseIndex) })
}

// read returns the records that the log holds now, and checks its frames.
func (l *keyedLog) read() (records []proto.Record, sequences map[int64]int32, err error) {
	sequences = map[int64]int32{}
	offset, index := core.Offset(0), core.Index(0)
	var it proto.RecordIterator
	for _, s := range l.segments {
		if s.Header.BaseOffset != offset || s.Header.BaseIndex != index+1 {
			return nil, nil, fmt.Errorf("segment %d begins at offset %d, index %d; expected %d, %d",
				s.Header.Segment, s.Header.BaseOffset, s.Header.BaseIndex, offset, index+1)
		}
		for _, f := range scanBytes(l.t, l.files.get(l.t, s.path(testDir)), &s.Header).frames {
			if !frameIndexed(f.header.Kind) {
				continue
			}
			if f.header.BaseOffset != offset || f.header.Index <= index {
				return nil, nil, fmt.Errorf("frame at offset %d, index %d follows %d, %d", f.header.BaseOffset, f.header.Index, offset, index)
			}
			offset, index = f.header.Next(), f.header.Index
			if f.header.Kind != FrameData {
				continue
			}
			if err := eachBatch(f.payload, func(_ int, b proto.Batch) error {
				if err := b.ValidateCRC(); err != nil {
					return err
				}
				if b.LeaderEpoch() != int32(f.header.Term) {
					return fmt.Errorf("epoch %d in a frame of term %d", b.LeaderEpoch(), f.header.Term)
				}
				if b.ProducerID() >= 0 {
					sequences[b.ProducerID()] = b.LastSequence()
				}
				if err := it.Reset(b, 1<<24); err != nil {
					return err
				}
				for it.Next() {
					r := *it.Record()
					r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
					records = append(records, r)
				}
				return it.Err()
			}); err != nil {
				return nil, nil, err
			}
		}
	}
	if offset != l.offset || index != l.index-1 {
		return nil, nil, fmt.Errorf("the log ends at %d, %d; expected %d, %d", offset, index, l.offset, l.index-1)
	}
	return records, sequences, nil
}

// check holds the log to the truth.
func (l *keyedLog) check(clean core.Offset, retention int64, completed bool) error {
	records, sequences, err := l.read()
	if err != nil {
		return err
	}
	present := map[int64]bool{}
	last := int64(-1)
	for _, r := range records {
		want := l.records[r.Offset]
		if r.Offset <= last || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) ||
			(r.Key == nil) != (want.Key == nil) || (r.Value == nil) != (want.Value == nil) || r.Timestamp != want.Timestamp {
			return fmt.Errorf("offset %d is %+v, was %+v", r.Offset, r, want)
		}
		present[r.Offset], last = true, r.Offset
	}
	for id, want := range l.sequences {
		if got, ok := sequences[id]; !ok || got != want {
			return fmt.Errorf("producer %d: last sequence %d, want %d", id, got, want)
		}
	}
	newest := map[string]int64{}      // of all
	newestClean := map[string]int64{} // below the clean point
	for _, r := range l.records {
		newest[string(r.Key)] = r.Offset
		if core.Offset(r.Offset) < clean {
			newestClean[string(r.Key)] = r.Offset
		}
	}
	replayed := map[string]int64{}
	for _, r := range records {
		replayed[string(r.Key)] = r.Offset
	}
	for _, r := range l.records {
		switch {
		case r.Key == nil:
			if !present[r.Offset] {
				return fmt.Errorf("offset %d without a key is gone", r.Offset)
			}
		case newest[string(r.Key)] == r.Offset:
			young := l.cleaned[r.Offset] == 0 || l.clock.now-l.cleaned[r.Offset] < retention
			if !present[r.Offset] && (r.Value != nil || young) {
				return fmt.Errorf("the newest record of %q at %d is gone", r.Key, r.Offset)
			}
			// Nobody may see an older value as the last one of the key.
			if at, ok := replayed[string(r.Key)]; ok && at != r.Offset {
				return fmt.Errorf("offset %d is now the newest of %q, it is %d", at, r.Key, r.Offset)
			}
		case completed && core.Offset(r.Offset) < clean && newestClean[string(r.Key)] != r.Offset && present[r.Offset]:
			return fmt.Errorf("offset %d of %q is below the clean point %d and not the newest", r.Offset, r.Key, clean)
		}
	}
	return nil
}

func (l *keyedLog) draw(t *rapid.T, segments int) {
	for range segments {
		l.segment(func(w *logWriter) {
			for range rapid.IntRange(1, 3).Draw(t, "writes") {
				w.write(w.index, func() {
					for range rapid.IntRange(1, 4).Draw(t, "frames") {
						if rapid.IntRange(0, 5).Draw(t, "control") == 0 {
							if rapid.Bool().Draw(t, "term") {
								w.term++
							}
							w.frame(FrameNoop, 0, nil)
							continue
						}
						var batches [][]proto.Record
						for range rapid.IntRange(1, 2).Draw(t, "batches") {
							var records []proto.Record
							for range rapid.IntRange(1, 3).Draw(t, "records") {
								r := proto.Record{Timestamp: int64(rapid.IntRange(0, 99).Draw(t, "timestamp")), Value: []byte(rapid.StringN(0, 9, -1).Draw(t, "value"))}
								if k := rapid.IntRange(-1, 6).Draw(t, "key"); k >= 0 {
									r.Key = fmt.Appendf(nil, "key-%d", k)
									if rapid.IntRange(0, 3).Draw(t, "tombstone") == 0 {
										r.Value = nil
									}
								}
								records = append(records, r)
							}
							batches = append(batches, records)
						}
						l.frame(w, rapid.SampledFrom(everyCodec).Draw(t, "codec"), int64(rapid.IntRange(-1, 3).Draw(t, "producer")), batches...)
					}
				})
			}
		})
	}
}

// TestCompactionAgainstModel appends, compacts, crashes between any two steps of
// a swap, and compares with the whole history.
func TestCompactionAgainstModel(t *testing.T) {
	const retention = 1000
	rapid.Check(t, func(rt *rapid.T) {
		l := newKeyedLog(t)
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			l.draw(rt, rapid.IntRange(0, 2).Draw(rt, "segments"))
			l.clock.now += int64(rapid.IntRange(1, 2000).Draw(rt, "later"))
			c := l.pass(1<<20, int64(rapid.SampledFrom([]int{1, 20_000, 1 << 30}).Draw(rt, "segment bytes")), retention)
			if c.Err != nil || len(c.Irregular) > 0 {
				rt.Fatal(c.Err, c.Irregular)
			}
			if c.CleanNext != l.offset {
				rt.Fatalf("clean up to %d of %d", c.CleanNext, l.offset)
			}
			steps := 0
			for _, o := range c.Outputs {
				steps += 2 + 3*len(o.Replaces)
			}
			n := steps
			if rapid.Bool().Draw(rt, "crash") {
				n = rapid.IntRange(0, steps).Draw(rt, "steps")
			}
			l.swap(c, n)
			if n < steps {
				l.files = l.files.cut()
			}
			l.reopen()
			for offset := range l.cleaned[:CleanNext(l.segments)] {
				if l.cleaned[offset] == 0 {
					l.cleaned[offset] = l.clock.now
				}
			}
			if err := l.check(c.CleanNext, retention, n == steps); err != nil {
				rt.Fatalf("after %d of %d steps: %v", n, steps, err)
			}
		}
	})
}

// TestCompactionSmallMap needs several passes, each of which gets on.
func TestCompactionSmallMap(t *testing.T) {
	l := newKeyedLog(t)
	for part := range 3 {
		l.segment(func(w *logWriter) {
			for i := range 40 {
				w.write(w.index, func() {
					var records []proto.Record
					for k := range 50 {
						records = append(records, record(1, fmt.Sprint("key-", i, "-", k), fmt.Sprint("value-", part)))
					}
					l.frame(w, proto.CodecZstd, -1, records)
				})
			}
		})
	}
	clean := core.Offset(0)
	for pass := 1; clean < l.offset; pass++ {
		c := l.pass(1, 1<<30, 1000) // the smallest table: 768 keys of 6000
		if c.Err != nil || c.CleanNext <= clean || c.Stats.Keys > keySlotsMin {
			t.Fatalf("pass %d: %v, clean %d, %d keys", pass, c.Err, c.CleanNext, c.Stats.Keys)
		}
		clean = c.CleanNext
		for _, o := range c.Outputs {
			for _, r := range o.Replaces {
				if r.Header.BaseOffset >= clean {
					t.Fatalf("pass %d: segment %d lies above the clean point", pass, r.Header.Segment)
				}
			}
		}
		l.swap(c, 1<<30)
		l.reopen()
		if err := l.check(clean, 1000, true); err != nil {
			t.Fatalf("pass %d: %v", pass, err)
		}
		if CleanNext(l.segments) != clean {
			t.Fatalf("the header says clean up to %d, want %d", CleanNext(l.segments), clean)
		}
		if pass > 20 {
			t.Fatal("no end")
		}
	}
	if dirty, all := DirtyBytes(l.segments); dirty != 0 || all > 1<<20 {
		t.Fatal(dirty, all)
	}
	// Nothing is left to do.
	if c := l.pass(1<<20, 1<<30, 1000); c.Err != nil || len(c.Outputs) != 0 {
		t.Fatal(c.Err, len(c.Outputs))
	}
}

func TestCompactionOneFrameLargerThanTheMap(t *testing.T) {
	l := newKeyedLog(t)
	l.segment(func(w *logWriter) {
		for range 2 {
			w.write(0, func() {
				var records []proto.Record
				for k := range 3000 {
					records = append(records, record(1, fmt.Sprint(k), "v"))
				}
				l.frame(w, proto.CodecNone, -1, records)
			})
		}
	})
	c := l.pass(1, 1<<30, 1000)
	if c.Err != nil || c.CleanNext < 3000 {
		t.Fatal(c.Err, c.CleanNext)
	}
}

// TestCompactionLeavesDamageAlone: a damaged segment is not rewritten, and as
// long as it is there no tombstone goes.
func TestCompactionLeavesDamageAlone(t *testing.T) {
	l := newKeyedLog(t)
	one := func(key, value string) {
		l.segment(func(w *logWriter) {
			w.write(0, func() {
				r := record(1, key, value)
				if value == "" {
					r.Value = nil
				}
				l.frame(w, proto.CodecNone, -1, []proto.Record{r}, []proto.Record{record(2, "other", "x")})
			})
			w.write(w.index, func() { l.frame(w, proto.CodecNone, -1, []proto.Record{record(3, "more", "y")}) })
		})
	}
	one("k", "old")
	one("k", "old too")
	one("k", "")
	damaged := l.segments[0].path(testDir)
	at := l.segments[0].End.Position - core.DiskAlignment + FrameHeaderBytes + 3
	l.files.get(t, damaged)[at] ^= 1
	before := bytes.Clone(l.files.get(t, damaged))
	for range 3 {
		l.clock.now += 1e6
		c := l.pass(1<<20, 1, 1000)
		if c.Err != nil || len(c.Irregular) != 1 || c.Irregular[0] != 1 {
			t.Fatal(c.Err, c.Irregular)
		}
		l.swap(c, 1<<30)
		for i := range l.segments {
			for _, o := range c.Outputs {
				if l.segments[i].Header.Segment == o.Replaces[0].Header.Segment {
					l.segments[i] = o.Segment()
				}
			}
		}
	}
	if !bytes.Equal(l.files.get(t, damaged), before) {
		t.Fatal("the damaged segment was touched")
	}
	tombstone := false
	for _, f := range scanBytes(t, l.files.get(t, l.segments[2].path(testDir)), nil).frames {
		_ = eachBatch(f.payload, func(_ int, b proto.Batch) error {
			var it proto.RecordIterator
			_ = it.Reset(b, 1<<20)
			for it.Next() {
				tombstone = tombstone || string(it.Record().Key) == "k" && it.Record().Value == nil
			}
			return nil
		})
	}
	if !tombstone {
		t.Fatal("the tombstone is gone and the damaged segment still shows an old value")
	}
}

// TestCompactionAtEveryFailure fails each operation of the job in turn: an
// error, nothing of the log touched, nothing left behind that recovery keeps.
func TestCompactionAtEveryFailure(t *testing.T) {
	for failAt := 1; ; failAt++ {
		l := newKeyedLog(t)
		for range 3 {
			l.segment(func(w *logWriter) {
				w.write(0, func() { l.frame(w, proto.CodecNone, 1, []proto.Record{record(1, "a", "b"), record(1, "c", "d")}) })
			})
		}
		l.files.failAt = failAt
		c := l.pass(1<<20, 1, 1000)
		l.files.failAt = 0
		if c.Err == nil {
			if failAt < 8 {
				t.Fatalf("only %d steps", failAt)
			}
			return
		}
		if !errors.Is(c.Err, errFolderCut) || len(c.Outputs) != 0 {
			t.Fatal(failAt, c.Err)
		}
		l.files = l.files.cut()
		l.reopen()
		if err := l.check(0, 1000, false); err != nil || len(l.segments) != 3 {
			t.Fatal(failAt, err)
		}
	}
}

func TestCompactionStops(t *testing.T) {
	l := newKeyedLog(t)
	l.segment(func(w *logWriter) { w.write(0, func() { l.frame(w, 0, -1, []proto.Record{record(1, "a", "b")}) }) })
	c := &Compaction{Files: l.files, Clock: l.clock, Dir: testDir, Segments: l.segments, NumberNext: 9, Stopped: func() bool { return true }}
	c.Run()
	if !errors.Is(c.Err, ErrCompactionStopped) {
		t.Fatal(c.Err)
	}
}

func TestKeyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newKeyTable(0)
		want := map[string]core.Offset{}
		for i := range rapid.IntRange(0, 3000).Draw(t, "n") {
			key := fmt.Sprint(i * i % 1000)
			_, known := want[key]
			if ok := table.add(hashKey([]byte(key)), core.Offset(i), false); ok != (known || len(want) < 3*keySlotsMin/4) {
				t.Fatalf("added %v with %d keys", ok, len(want))
			} else if ok {
				want[key] = core.Offset(i)
			}
		}
		for i := range 1000 {
			key := fmt.Sprint(i)
			got, ok := table.newest(hashKey([]byte(key)))
			if offset, known := want[key]; ok != known || got != offset && ok {
				t.Fatalf("%s: %d %v, want %d %v", key, got, ok, offset, known)
			}
		}
	})
}

func TestSupersededSegments(t *testing.T) {
	h := func(number core.SegmentNumber, base, replaces core.Index) FileHeader {
		return FileHeader{Segment: number, BaseIndex: base, ReplacesNext: replaces}
	}
	for name, c := range map[string]struct {
		headers []FileHeader
		out     []bool
	}{
		"nothing compacted":  {[]FileHeader{h(1, 1, 0), h(2, 10, 0)}, []bool{false, false}},
		"both there":         {[]FileHeader{h(1, 1, 0), h(2, 10, 0), h(9, 1, 20), h(3, 20, 0)}, []bool{true, true, false, false}},
		"one already gone":   {[]FileHeader{h(2, 10, 0), h(9, 1, 20)}, []bool{true, false}},
		"twice compacted":    {[]FileHeader{h(1, 1, 0), h(9, 1, 20), h(12, 1, 40), h(3, 20, 0)}, []bool{true, true, false, true}},
		"later begins there": {[]FileHeader{h(9, 1, 20), h(10, 20, 30), h(3, 30, 0)}, []bool{false, false, false}},
	} {
		if got := SupersededSegments(c.headers); !slices.Equal(got, c.out) {
			t.Errorf("%s: %v, want %v", name, got, c.out)
		}
	}
}
