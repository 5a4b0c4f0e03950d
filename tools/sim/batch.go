package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pulsemq/pulsemq/proto"
)

// attempt is one batch that a client sends, once or again and again, and what became of it.
type attempt struct {
	number   int64
	log      *plog
	batch    proto.Batch // as it was sent
	span     int64
	producer int64 // id, -1 without
	epoch    int16
	sequence int32
	client   int64 // order is kept per client
	sends    int
	wire     *wire // of the last send; without a producer id the broker keeps order per connection only

	acked      bool
	ackOffset  int64
	durability proto.Durability
	refused    bool // the broker said that it is not stored
}

func (a *attempt) String() string {
	return fmt.Sprintf("batch %d (%d records, %d bytes, producer %d sequence %d)", a.number, a.span, len(a.batch), a.producer, a.sequence)
}

// forge makes a batch that no other equals.
func (w *world) forge(l *plog, client int64) *attempt {
	w.attempts++
	a := &attempt{number: w.attempts, log: l, producer: -1, client: client}
	records, size := 1+w.random.IntN(4), 8+w.random.IntN(200)
	switch w.random.IntN(30) {
	case 0, 1:
		records, size = 1+w.random.IntN(60), 50+w.random.IntN(400)
	case 2:
		size = 4<<10 + w.random.IntN(20<<10)
	case 3:
		records, size = 1, 66<<10+w.random.IntN(100<<10) // goes straight to its segment
	}
	codec := proto.CodecNone
	if w.random.IntN(5) == 0 {
		codec = proto.Codec(1 + w.random.IntN(4))
	}
	w.builder.Reset(codec)
	value := make([]byte, size)
	now := w.clock.Now() / 1e6
	for i := range records {
		binary.BigEndian.PutUint64(value, uint64(a.number))
		fill := w.random.Uint64()
		for j := 8; j+8 <= len(value); j += 8 {
			binary.LittleEndian.PutUint64(value[j:], fill)
			if codec == proto.CodecNone {
				fill = fill*6364136223846793005 + 1442695040888963407
			}
		}
		key := []byte(fmt.Sprintf("k%d", w.random.IntN(8)))
		if err := w.builder.Append(&proto.Record{Timestamp: now - int64(records-i), Key: key, Value: value}); err != nil {
			w.fail("build a batch: %v", err)
		}
	}
	b, err := w.builder.Build()
	if err != nil {
		w.fail("build a batch: %v", err)
	}
	a.batch, a.span = bytes.Clone(b), int64(records)
	return a
}

// same compares a stored batch with what was sent. The broker sets the base offset and the leader epoch, and the times
// of a topic that wants its own.
func (a *attempt) same(b proto.Batch) bool {
	if b.TimestampType() == a.batch.TimestampType() {
		return len(b) == len(a.batch) && bytes.Equal(b[8:12], a.batch[8:12]) && bytes.Equal(b[16:], a.batch[16:])
	}
	return len(b) == len(a.batch) && b.ValidateCRC() == nil && bytes.Equal(b.Records(), a.batch.Records()) &&
		b.ProducerID() == a.batch.ProducerID() && b.BaseSequence() == a.batch.BaseSequence() && b.Codec() == a.batch.Codec()
}
