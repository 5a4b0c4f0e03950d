package abuse

import (
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// fiveInFlight has the second of five batches fail: none behind it may overtake it, and when all are sent again each is
// stored once.
func (b *broker) fiveInFlight(t *testing.T) {
	id := b.create(t, "five", nil)
	c := b.dial(t)
	write(t, c, proto.AppendFrame(nil, 10, &proto.InitProducerRequest{}))
	var producer proto.InitProducerResponse
	if h, p := answerTo(t, c, 10); h.Command != proto.CommandInitProducer || producer.Decode(p) != nil {
		t.Fatalf("INIT_PRODUCER: %v", refusal(p))
	}
	frames := func(hurt int) (all []byte) {
		for i := range 5 {
			one := batch(t, proto.CodecNone, []byte{byte(i)})
			one.SetProducer(producer.ProducerID, producer.ProducerEpoch, int32(i))
			if i == hurt {
				one[len(one)-1] ^= 1
			}
			all = append(all, produce(id, uint64(20+i), one)...)
		}
		return all
	}
	write(t, c, frames(1))
	got := answers(t, c, 20, 25)
	for i := range uint64(5) {
		h, p := got[20+i].header, got[20+i].payload
		switch {
		case i == 0 && h.Command != proto.CommandProduce:
			t.Errorf("the first of five: %v", refusal(p))
		case i == 1 && (h.Command != proto.CommandError || refusal(p).Code != proto.CodeCorruptBatch):
			t.Errorf("the second of five, whose checksum is wrong: %v, %v", h.Command, refusal(p))
		case i > 1 && (h.Command != proto.CommandError || refusal(p).Code != proto.CodeOutOfOrderSequence):
			t.Errorf("number %d of five, behind one that failed: %v, %v", i+1, h.Command, refusal(p))
		}
	}
	for range 2 { // the retry, and a retry of the retry
		write(t, c, frames(-1))
		got := answers(t, c, 20, 25)
		for i := range uint64(5) {
			h, p := got[20+i].header, got[20+i].payload
			var m proto.ProduceResponse
			if h.Command != proto.CommandProduce || m.Decode(p) != nil || m.BaseOffset != int64(i) {
				t.Errorf("the retry of number %d: %v, offset %d, %v", i+1, h.Command, m.BaseOffset, refusal(p))
			}
		}
	}
	if end := b.end(t, "five"); end != 5 {
		t.Errorf("five messages made a log of %d", end)
	}
}
