package abuse

import (
	"net"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// filler makes sure that there is something to read for those who ask for everything.
func (b *broker) filler(t *testing.T, topic [16]byte, n int) {
	t.Helper()
	c := b.dial(t)
	large := batch(t, proto.CodecNone, make([]byte, 200_000))
	for i := range n {
		write(t, c, produce(topic, uint64(10+i), large))
		if h, p := answerTo(t, c, uint64(10+i)); h.Command != proto.CommandProduce {
			t.Fatalf("produce: %v", refusal(p))
		}
	}
}

// gorge asks for everything, many times over, in small requests, and reads nothing. Each such client is closed, and told
// why once it reads.
func (b *broker) gorge(t *testing.T) {
	b.filler(t, b.topic, 100)
	var all []net.Conn
	for range pick(20, 200) {
		c := b.dial(t)
		var frames []byte
		for id := range uint64(200) {
			frames = proto.AppendFrame(frames, id+10, &proto.FetchRequest{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1<<31 - 1, MaxRecords: 1<<31 - 1})
		}
		frames = proto.AppendFrame(frames, 5, &proto.SubscribeRequest{CreditBytes: 1 << 60,
			Add: []proto.SubscribePartition{{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1}}})
		write(t, c, frames)
		all = append(all, c)
	}
	time.Sleep(2 * slowReaderTimeout) // nothing is read meanwhile; what is looked at is the memory
	slow := 0
	for i, c := range all {
		last, err := closed(c, slowReaderTimeout+slack)
		if err != nil {
			t.Fatalf("slow reader %d is still served: %v", i, err)
		}
		if last != nil && last.Code == proto.CodeSlowConsumer {
			slow++
		}
		c.Close()
	}
	if slow == 0 {
		t.Error("no slow reader was told why it was closed")
	}
}

// small sends tiny requests with the largest answers there are.
func (b *broker) small(t *testing.T) {
	id := b.create(t, "much", nil)
	b.filler(t, id, 100)
	c := b.dial(t)
	write(t, c, proto.AppendFrame(nil, 10, &proto.FetchRequest{TopicID: id, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1<<32 - 1, MaxRecords: 1<<32 - 1, MinBytes: 1<<32 - 1, MaxWaitMs: 100}))
	total := 0
	for more := true; more; {
		h, p := answerTo(t, c, 10)
		var m proto.FetchResponse
		if h.Command != proto.CommandFetch || m.Decode(p) != nil {
			t.Fatalf("FETCH of everything: %v", refusal(p))
		}
		if len(p) > 2<<20 {
			t.Errorf("one frame of the answer has %d bytes", len(p))
		}
		total += len(m.Batches)
		more = m.More
	}
	if total > 18<<20 {
		t.Errorf("FETCH of everything was answered with %d bytes", total)
	}
	if total == 0 {
		t.Error("FETCH of everything was answered with nothing")
	}
}

// tooLarge reads messages that are larger than the limit of the fetch: each comes alone, the next one is reachable.
func (b *broker) tooLarge(t *testing.T) {
	id := b.create(t, "too-large", nil)
	b.filler(t, id, 3)
	c := b.dial(t)
	for offset := range int64(3) {
		write(t, c, proto.AppendFrame(nil, 100+uint64(offset), &proto.FetchRequest{TopicID: id, LeaderEpoch: -1, LastEpoch: -1, Offset: offset, MaxBytes: 1000}))
		h, p := answerTo(t, c, 100+uint64(offset))
		var m proto.FetchResponse
		if h.Command != proto.CommandFetch || m.Decode(p) != nil {
			t.Fatalf("a message above the limit: %v", refusal(p))
		}
		one, rest, err := proto.NextBatch(m.Batches)
		if err != nil || len(rest) > 0 || one.BaseOffset() != offset || len(one) < 200_000 {
			t.Fatalf("a fetch of 1000 bytes at %d: %d bytes, %v", offset, len(m.Batches), err)
		}
	}
}
