package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// delivery is one push: a read and then a parcel.
type delivery struct {
	read     segment.Read
	share    *share
	reserved int64 // credit and memory taken for the read
}

// ReadDone pushes what the store found.
func (d *delivery) ReadDone(r *segment.Read) {
	h := d.share
	s, p := h.subscription, h.partition
	m := s.machine
	if h.ended || r.Err != nil || p.gone || r.Bytes == 0 {
		var err *proto.Error
		if r.Err != nil || p.gone {
			err = p.readError(r)
		}
		next := r.Next
		r.Release()
		s.credit += d.reserved
		d.finish(d.reserved)
		switch {
		case h.ended:
		case err != nil:
			h.fail(err)
		default: // nothing but frames without records
			// What the client read last says nothing of what is skipped here, which may be of later epochs.
			h.offset, h.lastEpoch, h.state = max(h.offset, next), -1, shareIdle
			h.wake()
		}
		return
	}
	if r.Next > p.highWatermark() { // the durability was raised meanwhile: what has not reached it waits
		r.Release()
		s.credit += d.reserved
		d.finish(d.reserved)
		h.state = shareIdle
		h.wake()
		return
	}
	bytes := int64(r.Bytes)
	p.spent(r.Bytes)
	p.read(r)
	s.credit += d.reserved - bytes // the last push may overdraw by a batch
	m.settleHold(s.peer, bytes, d.reserved)
	h.offset, h.lastEpoch, h.state = r.Next, core.LeaderEpoch(r.Term), shareIdle
	parcel := m.pack(r)
	parcel.Owner = d
	m.answer = mail.Answer{
		Kind: mail.AnswerDeliver, Conn: s.conn, ID: s.id, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: h.offset, Timestamp: -1,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(),
		Parcel: parcel,
	}
	m.send(s.reactor)
	h.wake()
	s.enqueue()
}

// returned goes on when a push has left for its socket.
func (d *delivery) returned(bytes int64) { d.finish(bytes) }

// finish gives back what the push held.
func (d *delivery) finish(held int64) {
	s := d.share.subscription
	s.inFlight--
	s.machine.pools.putDelivery(d)
	s.enqueue()
	s.machine.unhold(s.peer, held)
}
