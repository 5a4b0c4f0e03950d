package netio

import (
	"errors"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// ingestChunkBytes is how much is copied before it is checksummed, so that the
	// checksum finds the bytes in the nearest cache.
	ingestChunkBytes = 32 << 10

	// produceHeadBytesMax bounds the fields before the batch with their tags.
	produceHeadBytesMax = 1 << 10

	// recheckBytesMax is up to where reading a batch again is cheaper than combining
	// the checksums of its two parts.
	recheckBytesMax = 1 << 10

	// directBytesMin is how much of a batch must be missing so that reading the
	// socket straight into the slab is worth a system call of its own.
	directBytesMin = 16 << 10
)

// produceHeadBytesMin is the size of those fields without any tag.
var produceHeadBytesMin = (&proto.ProduceRequest{}).HeadSize()

// batchInput is a batch on its way from the socket into a slab.
//
//	slab: [ room for mark and frame header: BatchRoomBytes | batch ... | padding ]
type batchInput struct {
	slab       *core.Slab // nil when no batch is under way
	shard      core.ShardID
	size       int
	got        int
	recordsCRC uint32
	request    mail.Request
}

// parseProduce reads the fields before the batch, which are in b nearly always,
// and decides where the batch goes before it has arrived.
func (s *Session) parseProduce(b []byte) []byte {
	in := &s.in
	head := &s.reactor.encode.produceRequest
	if len(in.body) == 0 && (len(b) >= produceHeadBytesMin || len(b) >= in.left) {
		n, err := head.DecodeHead(b[:min(len(b), in.left)])
		switch {
		case err == nil:
			in.left -= n
			if b = b[n:]; len(b) >= in.left && packable(b[:in.left]) {
				batch, rest := b[:in.left], b[in.left:]
				s.takeBatch(head, batch, len(b))
				return rest
			}
			s.beginBatch(head)
			return b
		case !headShort(err) || len(b) >= min(in.left, produceHeadBytesMax):
			s.refuse(in.header.RequestID, proto.AsError(err))
			s.skip()
			return b
		}
	}
	// The fields come in pieces.
	if in.body == nil {
		in.body = s.reactor.buffer()
	}
	n := min(len(b), in.left, produceHeadBytesMax-len(in.body))
	in.body = append(in.body, b[:n]...)
	in.left -= n
	b = b[n:]
	if len(in.body) < produceHeadBytesMin && in.left > 0 {
		return b
	}
	used, err := head.DecodeHead(in.body)
	if err != nil && headShort(err) && in.left > 0 && len(in.body) < produceHeadBytesMax {
		return b
	}
	body := in.body
	in.body = nil
	if err != nil {
		s.refuse(in.header.RequestID, proto.AsError(err))
		s.skip()
	} else {
		// What was gathered beyond the fields belongs to the batch.
		in.left += len(body) - used
		s.beginBatch(head)
		if rest := body[used:]; len(rest) > 0 {
			s.parse(rest)
		}
	}
	s.reactor.recycle(body)
	return b
}

func headShort(err error) bool {
	var e *proto.DecodeError
	return errors.As(err, &e) && e.Short
}

// beginBatch finds the partition and a slab, or refuses the batch and skips it.
func (s *Session) beginBatch(head *proto.ProduceRequest) {
	in, r := &s.in, s.reactor
	id, size := in.header.RequestID, in.left
	partition, e := r.destination(head, size)
	if e != nil {
		s.refuse(id, e)
		s.skip()
		return
	}
	shard := r.shard(partition.ID)
	slab := r.links[shard].Arena.Get(core.BatchRoomBytes + size)
	if slab == nil {
		s.refuseSlab(shard)
		s.skip()
		return
	}
	in.batch = batchInput{
		slab:  slab,
		shard: shard,
		size:  size,
		request: mail.Request{
			Kind:        mail.RequestProduce,
			Acks:        uint8(head.Acks),
			Version:     in.header.Version,
			ID:          id,
			Partition:   partition.ID,
			LeaderEpoch: core.LeaderEpoch(head.LeaderEpoch),
			Slab:        slab,
			Start:       core.BatchRoomBytes,
			Bytes:       uint32(size),
			Wait:        s.wait(head.TimeoutMs),
		},
	}
	in.phase = phaseBatch
}

// destination is the partition that a batch of some bytes goes to, if it may go there.
func (r *Reactor) destination(head *proto.ProduceRequest, size int) (*core.TopicPartition, *proto.Error) {
	topic, partition, e := r.partition(head.TopicID, head.Partition)
	switch {
	case !head.Acks.Valid():
		e = proto.CodeInvalidRequest.Errorf("acks %d: 0 (none) and 1 (durable) are allowed", uint8(head.Acks))
	case e != nil:
	case size < proto.BatchHeaderBytes:
		e = proto.CodeCorruptBatch.Errorf("%d bytes are no record batch: its header alone has %d", size, proto.BatchHeaderBytes)
	case size > min(int(topic.Config.MessageBytesMax), core.BatchBytesMax):
		e = batchTooLarge(size, min(int(topic.Config.MessageBytesMax), core.BatchBytesMax))
	}
	return partition, e
}

// refuseSlab refuses a batch for which there is no memory, and has the shard give some up.
func (s *Session) refuseSlab(shard core.ShardID) {
	r := s.reactor
	r.stats.SlabsRefused++
	if link := r.links[shard]; !link.Starved.Swap(true) {
		link.Shard.Kick()
	}
	s.refuse(s.in.header.RequestID, errOverloaded)
}

// wait is how long a request may take, in nanoseconds.
func (s *Session) wait(timeoutMs uint32) int64 {
	if timeoutMs == 0 {
		return s.reactor.settings.RequestTimeout
	}
	return int64(timeoutMs) * 1e6
}

// ingest copies a piece of the batch into its slab, checksumming on the way.
func (s *Session) ingest(b []byte) {
	batch := &s.in.batch
	room := batch.slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+batch.size]
	for len(b) > 0 {
		chunk := b[:min(len(b), ingestChunkBytes)]
		b = b[len(chunk):]
		copy(room[batch.got:], chunk)
		if !s.ingested(len(chunk)) {
			// Refused: the rest of the frame is skipped, also what is left of b.
			s.in.left -= len(b)
			s.skip()
			return
		}
	}
}

// ingested takes note of n more bytes in the slab. It returns false when the
// batch was refused.
func (s *Session) ingested(n int) bool {
	in, batch := &s.in, &s.in.batch
	whole := batch.slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+batch.size]
	before := batch.got
	batch.got += n
	in.left -= n
	if before < proto.BatchHeaderBytes && batch.got >= proto.BatchHeaderBytes {
		if err := proto.ValidateHeader(whole[:proto.BatchHeaderBytes], batch.size); err != nil {
			s.refuseBatch(proto.AsError(err))
			return false
		}
		if count, limit := int(proto.Batch(whole).Count()), s.reactor.settings.BatchRecordsMax; count > limit {
			s.refuseBatch(tooManyRecords(count, limit))
			return false
		}
	}
	if from := max(before, proto.BatchHeaderBytes); batch.got > from {
		batch.recordsCRC = proto.CRCUpdate(batch.recordsCRC, whole[from:batch.got])
	}
	if batch.got == batch.size {
		s.endBatch(proto.Batch(whole))
	}
	return true
}

// refuseBatch answers a batch that is under way and gives its slab back.
func (s *Session) refuseBatch(e *proto.Error) {
	s.dropBatch()
	s.refuse(s.in.header.RequestID, e)
}

// dropBatch gives the slab of an unfinished batch back.
func (s *Session) dropBatch() {
	batch := &s.in.batch
	if batch.slab != nil {
		s.reactor.links[batch.shard].Arena.Discard(batch.slab)
		s.in.batch = batchInput{}
	}
}

// endBatch verifies a whole batch and hands it to its shard.
func (s *Session) endBatch(b proto.Batch) {
	in, batch, r := &s.in, &s.in.batch, s.reactor
	in.phase = phaseHeader
	var err error
	if len(b) <= recheckBytesMax {
		err = b.ValidateCRC()
	} else {
		err = b.ValidateCRCParts(batch.recordsCRC)
	}
	if err == nil {
		err = b.ValidateRecords() // compressed records are the shard's business
	}
	if err != nil {
		s.refuseBatch(proto.AsError(err))
		return
	}
	batch.request.RecordsCRC = batch.recordsCRC
	if !r.admits(batch.shard) {
		s.refuseBatch(errOverloaded)
		return
	}
	s.sendBatch(batch.shard, &batch.request, b)
	// The slab is the shard's now.
	batch.slab = nil
	batch.request = mail.Request{}
}

// sendBatch passes a verified batch to its shard, which admits it.
func (s *Session) sendBatch(shard core.ShardID, q *mail.Request, b proto.Batch) {
	q.Received = s.reactor.now
	core.Assert(s.send(shard, q), "a request that was admitted has room")
	s.sentBatch(b, proto.Acks(q.Acks), q.ID)
}

// sentBatch keeps the books for a batch that its shard has got.
func (s *Session) sentBatch(b proto.Batch, acks proto.Acks, id uint64) {
	st := &s.reactor.stats
	st.RecordsReceived += uint64(b.Count())
	st.BatchesReceived++
	st.BatchBytesReceived += uint64(len(b))
	if acks == proto.AcksNone {
		// Nobody waits for it any more; a refusal by the shard still finds the connection.
		s.settle(id)
	}
}

// Room is where the caller may read the socket to directly: the missing part of
// a large batch. It is nil when there is no such batch. Filled follows it.
func (s *Session) Room() []byte {
	batch := &s.in.batch
	if s.state != stateOpen || s.in.phase != phaseBatch || s.in.left < directBytesMin {
		return nil
	}
	end := core.BatchRoomBytes + batch.size
	start := core.BatchRoomBytes + batch.got
	return batch.slab.Bytes[start:min(end, start+ingestChunkBytes)]
}

// Filled says that n bytes were read into Room.
func (s *Session) Filled(n int) {
	s.reactor.begin()
	s.heard = s.reactor.now
	s.pinged = false
	s.reactor.stats.BytesReceived += uint64(n)
	if !s.ingested(n) {
		s.skip()
	}
}
