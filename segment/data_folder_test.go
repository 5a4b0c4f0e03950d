package segment

import (
	"bytes"
	"encoding/binary"
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// dataFolder is a sound data folder: meta/, one shard whose journal fills two
// files, and one partition with two segments, a tail that only the journal holds,
// indexes and states.
type dataFolder struct {
	files    *folder
	dir      string // the partition's
	logs     []*logWriter
	journals []*journalWriter
}

func (d *dataFolder) stem(i int) string {
	h := &d.logs[i].header
	return path.Join(d.dir, SegmentName(h.BaseOffset, h.Segment))
}

func newDataFolder(t testing.TB) *dataFolder {
	d := &dataFolder{files: newFolder()}
	h := testHeader(4, 0, 1)
	d.dir = PartitionDir(h.Topic, h.Number)
	first := newLogWriter(t, h)
	first.write(0, func() {
		first.records(record(10, "a", "one"), record(12, "b", "two"))
		first.frame(FrameNoop, 0, nil)
	})
	first.write(2, func() {
		b := first.batch(first.next, proto.CodecLZ4, record(30, "c", strings.Repeat("three ", 60)), record(20, "d", strings.Repeat("four ", 60)))
		b.SetProducer(900, 2, 40)
		first.frame(FrameData, 2, b)
	})
	second := newLogWriter(t, testHeader(5, first.next, first.index+1))
	second.term, second.gen = 2, 2
	second.write(3, func() { second.records(record(40, "e", "five")) })
	second.write(4, func() { second.records(record(41, "f", "six")) })
	second.bytes = append(second.bytes, make([]byte, 2*core.DiskAlignment)...)
	d.logs = []*logWriter{first, second}

	// The journal: the second segment's frames again, one more, and a checkpoint.
	one := newJournalWriter(testJournalHeader(1), 8)
	one.header.Layout, one.header.Shard, one.header.FileNumber = 1, 0, 1
	one.header.Put(one.bytes)
	tail := newLogWriter(t, testHeader(5, second.next, second.index+1))
	tail.term, tail.gen = 2, 2
	tail.records(record(42, "g", "seven"))
	one.frames(7, frameBytes(&FrameHeader{Kind: FrameGeneration, Partition: 17, Index: 4, Term: 2, Generation: 2}, nil))
	one.frames(8, second.bytes[second.places[1].position:second.places[1].position+FrameHeaderBytes+int64(second.places[1].header.Bytes)])
	two := newJournalWriter(testJournalHeader(1), one.sequence)
	two.header.Layout, two.header.Shard, two.header.FileNumber, two.header.Salt = 1, 0, 2, 777
	two.header.Put(two.bytes)
	checkpoint := AppendCheckpoint(nil, &Checkpoint{Partition: 17, Term: 2, Generation: 2, GenerationStart: 4, Durable: 4,
		Sealed: SealedPoint{Segment: 4, Position: int64(len(first.bytes)), Index: 3, NextOffset: first.next}})
	two.frames(9, frameBytes(&FrameHeader{Kind: FrameCheckpoint, Bytes: uint32(len(checkpoint)), PayloadCRC: proto.CRC(checkpoint)}, checkpoint))
	two.frames(10, tail.bytes[FileHeaderBytes:])
	two.bytes = append(two.bytes, make([]byte, 2*core.DiskAlignment)...)
	d.journals = []*journalWriter{one, two}

	folder := &Folder{Incarnation: h.Incarnation, layout: 1, shards: 1, journals: [][]journalListed{{{1, int64(len(one.bytes))}, {2, int64(len(two.bytes))}}}}
	d.files.put(layoutPath, folder.metaFile(1, folder.layoutBody()))
	meta := make([]byte, FileHeaderBytes)
	(&FileHeader{Kind: FileMeta, Incarnation: h.Incarnation}).Put(meta)
	meta = append(meta, "a cluster id 016"...)
	d.files.put("meta/identity", binary.BigEndian.AppendUint32(meta, proto.CRC(meta[FileHeaderBytes:])))
	for i, j := range d.journals {
		d.files.put(JournalPath(1, 0, uint32(i+1)), j.bytes)
	}
	for i, w := range d.logs {
		d.files.put(d.stem(i)+LogExtension, w.bytes)
		var s Scanner
		got := scanAll(t, &s, bytes.NewReader(w.bytes), int64(len(w.bytes)), &w.header, nil)
		x := NewIndex(0, 1)
		if err := s.Open(bytes.NewReader(w.bytes), int64(len(w.bytes)), &w.header); err != nil {
			t.Fatal(err)
		}
		if err := RebuildIndex(&s, x); err != nil {
			t.Fatal(err)
		}
		d.files.put(d.stem(i)+IndexExtension, AppendIndexFile(nil, &w.header, x))
		state := &State{Index: w.header.BaseIndex - 1, Term: 1, Generation: 1, Segment: w.header.Segment, Position: FileHeaderBytes, NextOffset: w.header.BaseOffset}
		if i == 1 {
			state = &State{Index: w.index, Term: 2, Generation: 2, Segment: 5, Position: got.end, NextOffset: w.next,
				Epochs: EpochTable{Starts: []EpochStart{{1, 1, 0}, {2, 4, first.next}}}, Owner: []byte("owner")}
		}
		d.files.put(d.stem(i)+StateExtension, AppendStateFile(nil, &w.header, state))
	}
	return d
}

// frameBytes encodes a frame whose payload's checksum is to be worked out.
func frameBytes(h *FrameHeader, payload []byte) []byte {
	h.Bytes, h.PayloadCRC = uint32(len(payload)), proto.CRC(payload)
	b := make([]byte, FrameHeaderBytes)
	h.Put(b)
	return append(b, payload...)
}
