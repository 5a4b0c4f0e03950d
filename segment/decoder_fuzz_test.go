package segment

import (
	"bytes"
	"encoding/binary"
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Decoders of one structure each. What decodes encodes to the same bytes: a field that
// is not understood whole would be lost when recovery copies or rewrites it.

// FuzzFileHeader gives any 4 KiB a good checksum.
func FuzzFileHeader(f *testing.F) {
	h := testHeader(3, 7, 2)
	h.Clean[0] = CleanPoint{Next: 5, Time: 6}
	b := make([]byte, FileHeaderBytes)
	h.Put(b)
	f.Add(b[:fileUsed])
	j := testJournalHeader(4)
	j.Put(b)
	f.Add(b[:fileUsed])
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = ParseFileHeader(body)
		b := make([]byte, FileHeaderBytes)
		copy(b, body)
		binary.BigEndian.PutUint32(b[FileHeaderBytes-4:], crcOf(b[:FileHeaderBytes-4]))
		h, err := ParseFileHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, FileHeaderBytes)
		if h.Put(again); !bytes.Equal(again, b) {
			t.Fatal("decodes to something else")
		}
	})
}

// FuzzFrame gives any header and payload good checksums, and reads every kind of payload.
func FuzzFrame(f *testing.F) {
	w := smallSegment(f)
	for _, p := range w.places {
		f.Add(w.bytes[p.position : p.position+FrameHeaderBytes+int64(p.header.Bytes)])
	}
	for _, payload := range [][]byte{AppendLogStart(nil, 77), AppendCheckpoint(AppendCheckpoint(nil, &Checkpoint{Partition: 16}), &Checkpoint{Partition: 17, Durable: 4})} {
		b := make([]byte, FrameHeaderBytes)
		h := FrameHeader{Kind: FrameControl, Partition: 16, Index: 3, Bytes: uint32(len(payload)), PayloadCRC: crcOf(payload)}
		h.Put(b)
		f.Add(append(b, payload...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = ParseFrame(b)
		if len(b) < FrameHeaderBytes {
			return
		}
		b = bytes.Clone(b)
		payload := b[FrameHeaderBytes:]
		binary.BigEndian.PutUint32(b, frameMagic)
		binary.BigEndian.PutUint32(b[52:], uint32(len(payload)))
		binary.BigEndian.PutUint32(b[12:], crcOf(payload))
		binary.BigEndian.PutUint32(b[8:], frameHeaderCRC(b))
		h, got, err := ParseFrame(b)
		if err == nil && (!bytes.Equal(got, payload) || h.Next() != h.BaseOffset+core.Offset(h.Span)) {
			t.Fatal("decodes to something else")
		}
		if err == nil {
			again := make([]byte, FrameHeaderBytes)
			if h.Put(again); !bytes.Equal(again, b[:FrameHeaderBytes]) {
				t.Fatal("decodes to something else")
			}
		}
		_ = checkMark(&h, 1, FileHeaderBytes)
		if start, err := ParseLogStart(payload); err == nil && !bytes.Equal(AppendLogStart(nil, start), payload) {
			t.Fatal("a log start decodes to something else")
		}
		var entries []byte
		if ParseCheckpoints(payload, func(c *Checkpoint) { entries = AppendCheckpoint(entries, c) }) == nil && !bytes.Equal(entries, payload) {
			t.Fatal("checkpoints decode to something else")
		}
		_ = PayloadMaxTimestamp(payload)
		count := 0
		_ = eachBatch(payload, func(_ int, b proto.Batch) error { count += len(b); return nil })
		if count > len(payload) {
			t.Fatal("the batches are longer than the payload")
		}
	})
}

// FuzzGroup gives any journal group good checksums.
func FuzzGroup(f *testing.F) {
	w := newJournalWriter(testJournalHeader(2), 5)
	w.group(4, 1)
	w.group(5, 2)
	for _, p := range w.places {
		at := int(p.position)
		f.Add(w.bytes[at : at+GroupHeaderBytes+len(p.body)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = ParseGroup(b)
		if len(b) < GroupHeaderBytes {
			return
		}
		b = bytes.Clone(b)
		body := b[GroupHeaderBytes:]
		binary.BigEndian.PutUint32(b, groupMagic)
		binary.BigEndian.PutUint32(b[32:], uint32(len(body)))
		binary.BigEndian.PutUint32(b[36:], crcOf(body))
		binary.BigEndian.PutUint32(b[60:], crcOf(b[:60]))
		if h, got, err := ParseGroup(b); err == nil {
			again := make([]byte, GroupHeaderBytes)
			if h.Put(again); !bytes.Equal(again, b[:GroupHeaderBytes]) || !bytes.Equal(got, body) {
				t.Fatal("decodes to something else")
			}
		}
		at := 0
		_ = EachFrame(body, func(position int, h *FrameHeader, payload []byte, err error) error {
			if position < at || position+FrameHeaderBytes+len(payload) > len(body) {
				t.Fatalf("a frame at %d of %d bytes behind %d", position, len(body), at)
			}
			at = position + FrameHeaderBytes
			return nil
		})
	})
}

// FuzzEpochTable reads any bytes, as a state file holds them.
func FuzzEpochTable(f *testing.F) {
	f.Add(AppendEpochTable(nil, testEpochs()))
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := ParseEpochTable(b)
		if err != nil {
			return
		}
		if !bytes.Equal(append(AppendEpochTable(nil, &table), rest...), b) {
			t.Fatal("decodes to something else")
		}
		for _, s := range table.Starts {
			table.Add(s.Term, s.Index, s.Offset)
		}
	})
}

// FuzzNames reads names of files and folders. What one says is what makes it.
func FuzzNames(f *testing.F) {
	for _, name := range []string{SegmentName(12, 3) + LogExtension, SegmentName(0, 1) + ".log.new", LayoutDir(7), "layout--1", "00000000000000000012-+000000003.log", "", "../x", "a\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if base, number, extension, ok := ParseSegmentName(name); ok && SegmentName(base, number)+extension != name {
			t.Fatalf("%q is taken for %q", name, SegmentName(base, number)+extension)
		}
		if n, ok := parseLayoutDir(name); ok && LayoutDir(n) != name {
			t.Fatalf("%q is taken for %q", name, LayoutDir(n))
		}
		_ = IsUnfinished(name)
		if id, err := core.ParseTopicID(name); err == nil && !strings.EqualFold(id.String(), name) {
			t.Fatalf("%q is taken for topic %s", name, id)
		}
	})
}

// FuzzMetaFile puts any body with a good checksum in the place of the identity, or of
// the layout, and opens the folder.
func FuzzMetaFile(f *testing.F) {
	made := func(t rigT) *Folder {
		d, err := OpenFolder(mem.New(), smallFolder(1))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := made(f)
	f.Add(false, uint32(1), d.layoutBody())
	f.Add(false, uint32(1<<32-1), d.layoutBody())
	f.Add(false, uint32(1), append(binary.BigEndian.AppendUint32(nil, 1), 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)) // of a negative size
	f.Add(true, uint32(0), make([]byte, 16))
	f.Fuzz(func(t *testing.T, identity bool, layout uint32, body []byte) {
		d := made(t)
		files := d.fs.(*mem.FS)
		name := layoutPath
		if identity {
			name = identityPath
		}
		if err := d.saveMeta(name, layout, body); err != nil {
			t.Fatal(err)
		}
		for _, shards := range []int{1, 2} {
			folder, err := OpenFolder(files, smallFolder(shards))
			if err != nil {
				continue
			}
			if folder.Shards() != shards {
				t.Fatalf("%d shards were asked for, there are %d", shards, folder.Shards())
			}
			o := rigOptions{slabs: core.HeapSlabs{}}
			for shard := range shards {
				if s, err := OpenStore(folder, core.ShardID(shard), Ports{Disk: files.Driver(mem.DriverOptions{}), FS: files, Clock: &rigClock{wall: 1, mono: 1}, Workers: &rigWorkers{}, Slabs: o.slabs}, Options{}); err == nil {
					s.Start()
				}
			}
		}
		var out bytes.Buffer
		_, _ = Verify(files, NewReport(&out, false))
	})
}

// FuzzCompaction compacts segments in which any bytes stand: what comes out is whole
// frames, and no record that was not there.
func FuzzCompaction(f *testing.F) {
	f.Add(uint32(FileHeaderBytes+100), []byte{1}, uint8(0))
	f.Add(uint32(FileHeaderBytes), make([]byte, 300), uint8(1))
	f.Add(uint32(0), []byte("x"), uint8(0))
	f.Fuzz(func(t *testing.T, at uint32, b []byte, which uint8) {
		l := newKeyedLog(t)
		for n := range 3 {
			l.segment(func(w *logWriter) {
				for k := range 4 {
					w.write(w.index, func() {
						l.frame(w, proto.CodecNone, -1, []proto.Record{record(int64(n), string(rune('a'+k)), "v"), record(int64(n), "z", "w")})
					})
				}
			})
		}
		known := map[string]bool{}
		for _, r := range l.records {
			known[string(r.Key)+"="+string(r.Value)] = true
		}
		g := &l.segments[int(which)%len(l.segments)]
		name := path.Join(testDir, SegmentName(g.Header.BaseOffset, g.Header.Segment)+LogExtension)
		bad := bytes.Clone(l.files.get(t, name))
		copy(bad[int(at)%len(bad):], b)
		l.files.put(name, bad)
		c := l.pass(1<<20, 1<<20, 0)
		for _, o := range c.Outputs {
			if err := o.Swap(l.files); err != nil {
				t.Fatal(err)
			}
			var s Scanner
			out := l.files.get(t, o.Path())
			if err := s.Open(bytes.NewReader(out), int64(len(out)), nil); err != nil {
				t.Fatal(err)
			}
			for s.Next() {
				if s.Frame.Kind != FrameData {
					continue
				}
				if err := eachBatch(s.Payload, func(_ int, batch proto.Batch) error {
					var it proto.RecordIterator
					for _ = it.Reset(batch, 1<<20); it.Next(); {
						if r := it.Record(); !known[string(r.Key)+"="+string(r.Value)] {
							t.Fatalf("a record %q=%q that nobody wrote", r.Key, r.Value)
						}
					}
					return it.Err()
				}); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.Holes) > 0 || s.Torn {
				t.Fatalf("an output has holes %v, torn %v", s.Holes, s.Torn)
			}
		}
	})
}
