package abuse

import (
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// openedBytesMax is up to where a broker opens a batch.
const openedBytesMax = 64 << 20

// bombs are batches of every codec whose records are a few KiB and become far more: on a topic whose batches are opened
// when they come, and on one where they are opened for a look-up by time.
func (b *broker) bombs(t *testing.T) {
	checked := b.create(t, "bombs-checked", map[string]string{"compression.validate": "true"})
	stored := b.create(t, "bombs-stored", nil)
	value := make([]byte, pick(128, 1024)<<20)
	for _, codec := range []proto.Codec{proto.CodecGzip, proto.CodecSnappy, proto.CodecLZ4, proto.CodecZstd} {
		// A batch may not be larger than a frame: the codec that packs least makes the smallest bomb.
		size := len(value)
		var bomb proto.Batch
		for bomb = batch(t, codec, value[:size]); len(bomb) > 900_000; bomb = batch(t, codec, value[:size]) {
			size /= 2
		}
		t.Logf("%v: %d bytes become %d MiB", codec, len(bomb), size>>20)
		c := b.dial(t)
		for i := range uint64(3) { // several at a time
			write(t, c, produce(checked, 10+i, bomb))
		}
		for _, a := range answers(t, c, 10, 13) {
			h, p := a.header, a.payload
			if e := refusal(p); h.Command != proto.CommandError || e.Code != proto.CodeBatchTooLarge && e.Code != proto.CodeCorruptBatch && e.Code != proto.CodeOverloaded {
				if size <= openedBytesMax && h.Command == proto.CommandProduce {
					continue // small enough to be opened
				}
				t.Errorf("%v: a bomb is answered with %v, %v", codec, h.Command, e)
			}
		}
		write(t, c, produce(stored, 30, bomb))
		if h, p := answerTo(t, c, 30); h.Command != proto.CommandProduce {
			t.Errorf("%v: a topic that does not open batches refuses one: %v", codec, refusal(p))
		}
		for id, item := range map[uint64]proto.ListOffsetsItem{
			40: {TopicID: stored, LeaderEpoch: -1, Kind: proto.OffsetKindMaxTimestamp},
			41: {TopicID: stored, LeaderEpoch: -1, Kind: proto.OffsetKindTimestamp, TimestampMs: 1},
		} {
			write(t, c, proto.AppendFrame(nil, id, &proto.ListOffsetsRequest{Items: []proto.ListOffsetsItem{item}}))
			if h, p := answerTo(t, c, id); h.Command != proto.CommandListOffsets {
				t.Errorf("%v: a look-up by time inside a bomb: %v", codec, refusal(p))
			}
		}
		c.Close()
	}
}
