package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What storage needs of a record batch's fixed header (Kafka's RecordBatch v2):
//
//	0 base offset i64 | 8 length i32 (of what follows) | 12 leader epoch i32 | 16 magic i8 | 17 crc u32 |
//	21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 |
//	43 producer id i64 | 51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records
const batchHeaderBytes = 61

// ErrBatch reports a data frame whose payload is not whole record batches.
var ErrBatch = errors.New("data frame: payload is not whole record batches")

// eachBatch calls each for every batch of a data frame's payload, as a view.
func eachBatch(payload []byte, each func(position int, batch []byte) error) error {
	for position := 0; position < len(payload); {
		b := payload[position:]
		if len(b) < batchHeaderBytes {
			return fmt.Errorf("%w: %d bytes left at %d", ErrBatch, len(b), position)
		}
		length := 12 + int64(int32(binary.BigEndian.Uint32(b[8:])))
		if length < batchHeaderBytes || length > int64(len(b)) {
			return fmt.Errorf("%w: a batch of %d bytes at %d, %d are left", ErrBatch, length, position, len(b))
		}
		if err := each(position, b[:length]); err != nil {
			return err
		}
		position += int(length)
	}
	return nil
}

func batchMaxTimestamp(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch[35:])) }

// PayloadMaxTimestamp is the greatest timestamp of a data frame's records; false
// when there is none.
func PayloadMaxTimestamp(payload []byte) (int64, bool) {
	most, any := int64(0), false
	for len(payload) >= batchHeaderBytes {
		length := 12 + int64(int32(binary.BigEndian.Uint32(payload[8:])))
		if length < batchHeaderBytes || length > int64(len(payload)) {
			break
		}
		if t := batchMaxTimestamp(payload); !any || t > most {
			most, any = t, true
		}
		payload = payload[length:]
	}
	return most, any
}
