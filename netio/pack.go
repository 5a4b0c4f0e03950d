package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// packedBytesMax is the largest batch that shares its slab with others. Nobody asks
	// for the checksum of its records alone.
	packedBytesMax = core.CombineBytesMin - 1

	// packBytesMax is the largest slab that is taken for batches which share it.
	packBytesMax = 64 << 10
)

// pack is a slab for the small batches of one event that go to one shard. A slab of
// its own for each would begin at a page: batches of a few hundred bytes would all
// lie in the same sets of every cache, and reactor and shard would fetch each of
// them from far away.
//
// The slab has a reference for each batch in it. They are counted here, before the
// shard is shown any of them, and from then on by the shard alone: so a pack ends
// with the event that it was taken for.
//
// Only batches that have arrived as a whole come here, and no compressed ones: the
// shard copies the others and gives them back within the turn in which it receives
// them. A client that drips its batches, or keeps the workers busy, holds slabs of
// its own size.
type pack struct {
	slab *core.Slab
	used int
}

// packable says whether a batch that lies in b as a whole may share its slab.
func packable(b []byte) bool {
	return len(b) >= proto.BatchHeaderBytes && len(b) <= packedBytesMax && proto.Batch(b).Codec() == proto.CodecNone
}

// room finds room for a batch of some bytes on its way to a shard, in an event that
// has as many bytes left. It returns nil when there is no memory.
func (r *Reactor) room(shard core.ShardID, size, left int) (slab *core.Slab, start int) {
	p := &r.packs[shard]
	if p.slab != nil && p.used+size <= len(p.slab.Bytes) {
		p.slab.Retain()
	} else {
		// Where there are several shards each gets about its part.
		arena := r.links[shard].Arena
		slab := arena.Get(max(size, min(left/len(r.links), packBytesMax)))
		if slab == nil {
			if slab = arena.Get(size); slab == nil {
				return nil, 0
			}
		}
		*p = pack{slab: slab}
		r.packing = true
	}
	start = p.used
	p.used += size
	return p.slab, start
}

// endPacks ends the packs of an event.
func (r *Reactor) endPacks() {
	if r.packing {
		clear(r.packs)
		r.packing = false
	}
}

// takeBatch takes a batch that has arrived as a whole and may share its slab: it is
// verified where it lies, and copied once it is known to be good.
func (s *Session) takeBatch(head *proto.ProduceRequest, b proto.Batch, left int) {
	in, r := &s.in, s.reactor
	in.phase, in.left = phaseHeader, 0
	id := in.header.RequestID
	partition, e := r.destination(head, len(b))
	if e == nil {
		e = s.verify(b)
	}
	if e != nil {
		s.refuse(id, e)
		return
	}
	shard := r.shard(partition.ID)
	if !r.admits(shard) {
		s.refuse(id, errOverloaded)
		return
	}
	slab, start := r.room(shard, len(b), left)
	if slab == nil {
		s.refuseSlab(shard)
		return
	}
	copy(slab.Bytes[start:], b)
	q := r.place(shard)
	q.Kind = mail.RequestProduce
	q.Acks = uint8(head.Acks)
	q.Version = in.header.Version
	q.Conn = s.ref
	q.ID = id
	q.Partition = partition.ID
	q.LeaderEpoch = core.LeaderEpoch(head.LeaderEpoch)
	q.Slab = slab
	q.Start = uint32(start)
	q.Bytes = uint32(len(b))
	q.Wait = s.wait(head.TimeoutMs)
	q.Received = r.now
	r.placed(shard, q)
	s.touched |= 1 << shard
	s.sentBatch(b, head.Acks, id)
}

// verify checks a whole small batch: everything that beginBatch, ingested and endBatch
// check of a larger one piece by piece.
func (s *Session) verify(b proto.Batch) *proto.Error {
	if err := proto.ValidateHeader(b, len(b)); err != nil {
		return proto.AsError(err)
	}
	if count, limit := int(b.Count()), s.reactor.settings.BatchRecordsMax; count > limit {
		return tooManyRecords(count, limit)
	}
	if err := b.ValidateCRC(); err != nil {
		return proto.AsError(err)
	}
	if err := b.ValidateRecords(); err != nil {
		return proto.AsError(err)
	}
	return nil
}
