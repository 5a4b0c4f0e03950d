package payload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/proto"
)

// Where the fields that a template patches lie in a batch; package proto draws the whole header.
const (
	batchLengthAt        = 8
	batchLeaderEpochAt   = 12
	batchMagicAt         = 16
	batchCRCAt           = 17
	batchAttributesAt    = 21
	batchBaseTimestampAt = 27
	batchMaxTimestampAt  = 35
)

// combineTailMin is the size from which on it is quicker to combine the checksum of the tail than to compute it anew:
// combining costs a few multiplications of polynomials whatever the size.
const combineTailMin = 4 << 10

// Spec says what the batches of a run look like.
type Spec struct {
	Run         Run
	Records     int // per batch
	RecordBytes int // of each record's value
	Codec       proto.Codec
}

// Template is a batch that is sent again and again with another mark. It is never written to after NewTemplate and may
// be used by many goroutines.
//
// Invariant: head + tail is a valid batch but for the fields that AppendHead patches, and
// BatchHeaderBytes <= plainAt <= markAt <= len(head) - MarkBytes.
type Template struct {
	spec    Spec
	codec   proto.Codec // what the batch has: none when compressing gains nothing
	head    []byte      // header of the batch, and the front of its records as appendStored has it
	plainAt int         // where the front's own bytes begin in head; they end with the mark
	markAt  int         // where the mark begins in head
	tail    []byte
	tailCRC uint32
}

// NewTemplate builds the batch.
func NewTemplate(spec Spec) (*Template, error) {
	if spec.RecordBytes < MarkBytes {
		return nil, fmt.Errorf("records of %d bytes: each carries a mark of %d bytes to be verified by, so that is the least", spec.RecordBytes, MarkBytes)
	}
	if spec.Records < 1 {
		return nil, fmt.Errorf("%d records in a batch: it has at least one", spec.Records)
	}
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecNone)
	for i := range spec.Records {
		value := NewValue(spec.RecordBytes, uint32(i))
		mark := Mark{Records: uint32(spec.Records), Run: spec.Run, Index: uint32(i)}
		mark.Put(value)
		if err := builder.Append(&proto.Record{Value: value}); err != nil {
			return nil, err
		}
	}
	whole, err := builder.Build()
	if err != nil {
		return nil, err
	}
	var magic [4]byte
	binary.BigEndian.PutUint32(magic[:], markMagic)
	end := bytes.Index(whole.Records(), magic[:]) + MarkBytes
	plain, tail := whole.Records()[:end], whole.Records()[end:]
	if len(plain) > storedBytesMax {
		return nil, fmt.Errorf("the first record's mark ends %d bytes into the batch: %d are allowed", len(plain), storedBytesMax)
	}
	t := &Template{spec: spec, tail: append([]byte(nil), tail...)}
	t.setFront(whole, proto.CodecNone, nil, plain)
	if spec.Codec != proto.CodecNone {
		if err := t.compress(whole, plain); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(t.head[batchLengthAt:], uint32(t.BatchBytes()-batchLengthAt-4))
	binary.BigEndian.PutUint16(t.head[batchAttributesAt:], uint16(t.codec))
	t.tailCRC = proto.CRC(t.tail)
	return t, nil
}

// setFront makes the head out of the header, what a codec's format begins with, and the front of the records.
func (t *Template) setFront(whole proto.Batch, codec proto.Codec, lead, plain []byte) {
	t.codec = codec
	t.head = append([]byte(nil), whole[:proto.BatchHeaderBytes]...)
	t.head = append(t.head, lead...)
	stored := appendStored(nil, codec, plain)
	t.plainAt = len(t.head) + len(stored) - storedTrailerBytes(codec) - len(plain)
	t.markAt = t.plainAt + len(plain) - MarkBytes
	t.head = append(t.head, stored...)
}

// compress packs the records; when that gains nothing the template stays uncompressed, as the protocol wants it.
func (t *Template) compress(whole proto.Batch, plain []byte) error {
	codec := t.spec.Codec
	packed, err := proto.Compress(nil, codec, t.tail)
	if err != nil {
		return err
	}
	var lead []byte
	if codec == proto.CodecSnappy {
		lead, packed = packed[:xerialHeaderBytes:xerialHeaderBytes], packed[xerialHeaderBytes:]
	}
	if len(lead)+len(appendStored(nil, codec, plain))+len(packed) < len(plain)+len(t.tail) {
		t.setFront(whole, codec, lead, plain)
		t.tail = packed
	}
	return nil
}

// Spec is what the template was made from.
func (t *Template) Spec() Spec { return t.spec }

// Codec is the compression that the batches have; none when compressing them gains nothing.
func (t *Template) Codec() proto.Codec { return t.codec }

// BatchBytes is the size of a batch, as it is sent and stored.
func (t *Template) BatchBytes() int { return len(t.head) + len(t.tail) }

// HeadBytes is the size of what AppendHead appends.
func (t *Template) HeadBytes() int { return len(t.head) }

// Tail is what follows the head in every batch. It must not be changed.
func (t *Template) Tail() []byte { return t.tail }

// AppendHead appends the front of a batch that carries the mark's producer, counter and time; the tail completes it.
// ms is the time of its records in Unix milliseconds.
func (t *Template) AppendHead(b []byte, mark Mark, ms int64) []byte {
	start := len(b)
	b = append(b, t.head...)
	head := b[start:]
	mark.Records, mark.Run, mark.Index = uint32(t.spec.Records), t.spec.Run, 0
	mark.Put(head[t.markAt:])
	if t.codec == proto.CodecGzip {
		binary.LittleEndian.PutUint32(head[t.markAt+MarkBytes:], t.gzipCRC(head))
	}
	binary.BigEndian.PutUint64(head[batchBaseTimestampAt:], uint64(ms))
	binary.BigEndian.PutUint64(head[batchMaxTimestampAt:], uint64(ms))
	binary.BigEndian.PutUint32(head[batchCRCAt:], t.crc(head))
	return b
}

// crc is the checksum of a batch with this head and the template's tail.
func (t *Template) crc(head []byte) uint32 {
	crc := proto.CRC(head[batchAttributesAt:])
	if len(t.tail) < combineTailMin {
		return proto.CRCUpdate(crc, t.tail)
	}
	return proto.CRCCombine(crc, t.tailCRC, len(t.tail))
}

// gzipCRC is the checksum that gzip's format wants behind the front.
func (t *Template) gzipCRC(batch []byte) uint32 {
	return crc32.ChecksumIEEE(batch[t.plainAt : t.markAt+MarkBytes])
}

// Match reads the mark of a batch that this template made. It is false when as much as one byte is not as it was sent,
// but for what a broker sets. The tail is compared, so its checksum is known.
func (t *Template) Match(batch proto.Batch) (Mark, bool) {
	front, markEnd := len(t.head), t.markAt+MarkBytes
	if len(batch) != t.BatchBytes() || batch.Codec() != t.codec || int(batch.Count()) != t.spec.Records ||
		!bytes.Equal(batch[batchLengthAt:batchLeaderEpochAt], t.head[batchLengthAt:batchLeaderEpochAt]) || batch[batchMagicAt] != t.head[batchMagicAt] ||
		!bytes.Equal(batch[proto.BatchHeaderBytes:t.markAt], t.head[proto.BatchHeaderBytes:t.markAt]) ||
		!bytes.Equal(batch[front:], t.tail) {
		return Mark{}, false
	}
	mark, ok := ReadMark(batch[t.markAt:])
	if !ok || mark.Run != t.spec.Run || mark.Index != 0 || int(mark.Records) != t.spec.Records {
		return Mark{}, false
	}
	if t.codec == proto.CodecGzip {
		if binary.LittleEndian.Uint32(batch[markEnd:]) != t.gzipCRC(batch) {
			return Mark{}, false
		}
		markEnd += 4 // the size follows, which is the same in every batch
	}
	return mark, bytes.Equal(batch[markEnd:front], t.head[markEnd:]) && batch.StoredCRC() == t.crc(batch[:front])
}
