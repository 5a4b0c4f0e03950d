package segment

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/proto"
)

// ErrBatch reports a data frame whose payload is not whole record batches.
var ErrBatch = errors.New("data frame: payload is not whole record batches")

// eachBatch calls each for every batch of a data frame's payload, as a view. An
// empty payload holds none: compaction left only the frame's place.
func eachBatch(payload []byte, each func(position int, batch proto.Batch) error) error {
	for rest := payload; len(rest) > 0; {
		batch, behind, err := proto.NextBatch(rest)
		if err != nil {
			return fmt.Errorf("%w: at byte %d: %w", ErrBatch, len(payload)-len(rest), err)
		}
		if err := each(len(payload)-len(rest), batch); err != nil {
			return err
		}
		rest = behind
	}
	return nil
}

// PayloadMaxTimestamp is the greatest timestamp of a data frame's records;
// TimestampNone when it holds none. A batch whose records compaction removed
// keeps its max timestamp, which makes it an upper bound.
func PayloadMaxTimestamp(payload []byte) int64 {
	most := TimestampNone
	for len(payload) > 0 {
		batch, rest, err := proto.NextBatch(payload)
		if err != nil {
			break
		}
		if batch.Count() > 0 {
			most = max(most, batch.MaxTimestamp())
		}
		payload = rest
	}
	return most
}
