package segment

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// journalWriter makes the bytes of a journal file as the engine lays them out.
type journalWriter struct {
	header   FileHeader
	bytes    []byte
	sequence uint64 // of the next group
	flags    GroupFlags
	places   []groupPlace
}

type groupPlace struct {
	position int64
	header   GroupHeader
	body     []byte
}

func testJournalHeader(generation uint32) FileHeader {
	return FileHeader{Kind: FileJournal, Incarnation: [16]byte{1, 2, 3}, Layout: 2, Shard: 1, FileNumber: 7,
		FileGeneration: generation, Salt: 0xabcdef00 + uint64(generation)}
}

func newJournalWriter(h FileHeader, first uint64) *journalWriter {
	w := &journalWriter{header: h, sequence: first, bytes: make([]byte, FileHeaderBytes)}
	h.Put(w.bytes)
	return w
}

// group appends a group of n control frames.
func (w *journalWriter) group(synced uint64, n int) {
	var body []byte
	for i := range n {
		body = append(body, frameBytes(&FrameHeader{Kind: FrameControl, Partition: core.PartitionID(16 + i), Index: core.Index(w.sequence),
			Term: 1, Generation: 1, AppendTime: 1e18}, AppendLogStart(nil, core.Offset(i)))...)
	}
	w.frames(synced, body)
}

// frames appends a group with the given body.
func (w *journalWriter) frames(synced uint64, body []byte) {
	h := GroupHeader{Flags: w.flags, Shard: w.header.Shard, Layout: w.header.Layout, FileGeneration: w.header.FileGeneration,
		Sequence: w.sequence, Synced: synced, Bytes: uint32(len(body)), BodyCRC: proto.CRC(body), Salt: w.header.Salt}
	w.places = append(w.places, groupPlace{int64(len(w.bytes)), h, body})
	b := make([]byte, GroupHeaderBytes)
	h.Put(b)
	w.bytes = append(append(w.bytes, b...), body...)
	w.bytes = append(w.bytes, make([]byte, alignUp(int64(len(w.bytes)))-int64(len(w.bytes)))...)
	w.sequence++
}

// over lays this file over an older one, as recycling does.
func (w *journalWriter) over(old []byte) []byte {
	b := append([]byte(nil), w.bytes...)
	if len(old) > len(b) {
		b = append(b, old[len(b):]...)
	}
	return b
}
