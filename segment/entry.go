package segment

import (
	"encoding/binary"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Entry is one record batch on its way into a log. The batch is
// Slab.Bytes[Start : Start+Bytes]; its base offset and leader epoch are already
// set, to the log's EndOffset and Term.
type Entry struct {
	Slab  *core.Slab
	Start uint32 // core.BatchRoomBytes of one of at least core.DirectWriteBytesMin, which is written from where it lies
	Bytes uint32

	BaseOffset   core.Offset
	Span         uint32 // offsets taken: last offset delta + 1
	MaxTimestamp int64  // of its records, milliseconds
	RecordsCRC   uint32 // Castagnoli over the record area, bytes [61, end) of the batch; not looked at below core.CombineBytesMin
	Level        core.Durability
	AppendTime   int64 // wall clock, nanoseconds since the Unix epoch

	// Reserve says that the entry is taken while the disk is full: it makes room.
	Reserve bool
}

func (e *Entry) batch() []byte { return e.Slab.Bytes[e.Start : e.Start+e.Bytes] }

// crc is the checksum of the whole batch: of the 61 header bytes, which were
// patched, combined with the record area's own.
func (e *Entry) crc(batch []byte) uint32 {
	if len(batch) < core.CombineBytesMin {
		return proto.CRC(batch)
	}
	return proto.CRCCombine(proto.CRC(batch[:proto.BatchHeaderBytes]), e.RecordsCRC, len(batch)-proto.BatchHeaderBytes)
}

// batchSpan reads how many offsets a stored batch spans.
func batchSpan(b []byte) int64 { return int64(int32(binary.BigEndian.Uint32(b[23:]))) + 1 }

// batchCount reads how many records a stored batch holds.
func batchCount(b []byte) int64 { return int64(int32(binary.BigEndian.Uint32(b[57:]))) }

// batchLength reads the whole length of a stored batch.
func batchLength(b []byte) int64 { return int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12 }

// batchBase reads a stored batch's base offset.
func batchBase(b []byte) core.Offset { return core.Offset(binary.BigEndian.Uint64(b)) }
