package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// parkedFetch is a FETCH that waits until its client has read what it asked for before.
type parkedFetch struct {
	shard   core.ShardID
	request mail.Request
}

// fetch passes a FETCH to the owner of its partition.
func (s *Session) fetch(id uint64, p []byte) {
	r := s.reactor
	m := &r.encode.fetchRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	_, partition, e := r.partition(m.TopicID, m.Partition)
	if e == nil && m.Offset < 0 {
		e = proto.CodeInvalidRequest.Errorf("offset %d: an offset is not negative; LIST_OFFSETS finds the earliest and latest", m.Offset)
	}
	if e != nil {
		s.refuse(id, e)
		return
	}
	settings := &r.settings
	bytesMax := bounded(m.MaxBytes, settings.FetchBytesMax)
	request := mail.Request{
		Kind:        mail.RequestFetch,
		Version:     s.in.header.Version,
		ID:          id,
		Partition:   partition.ID,
		LeaderEpoch: core.LeaderEpoch(m.LeaderEpoch),
		LastEpoch:   core.LeaderEpoch(m.LastEpoch),
		Offset:      core.Offset(m.Offset),
		BytesMin:    min(m.MinBytes, bytesMax), // what cannot be answered must not be waited for
		BytesMax:    bytesMax,
		RecordsMax:  bounded(m.MaxRecords, settings.FetchRecordsMax),
		Wait:        min(int64(m.MaxWaitMs)*1e6, settings.FetchWaitMax),
		Received:    r.now,
	}
	shard := r.shard(partition.ID)
	if s.parked.Len() > 0 || s.full() {
		s.parked.Push(parkedFetch{shard, request}) // bounded by the window's requests
		return
	}
	if !s.send(shard, &request) {
		s.refuse(id, errOverloaded)
	}
}

// bounded is a limit that the client may leave to the broker with 0.
func bounded(asked uint32, limit int) uint32 {
	if asked == 0 || int64(asked) > int64(limit) {
		return uint32(limit)
	}
	return asked
}

// unpark lets waiting fetches on when the client has read.
func (s *Session) unpark() {
	for s.parked.Len() > 0 && s.state == stateOpen && !s.full() {
		f := s.parked.Pop()
		if !s.send(f.shard, &f.request) {
			s.refuse(f.request.ID, errOverloaded)
		}
	}
}

// withdraw takes back what of a FETCH answer has not been written. An error ends
// the answer, and errors go before data: what was behind it would be an answer to
// a request that the client believes answered.
func (s *Session) withdraw(id uint64) {
	for range s.out.data.Len() {
		o := s.out.data.Pop()
		if o.answer.Kind != mail.AnswerFetch || o.answer.ID != id {
			s.out.data.Push(o)
			continue
		}
		s.out.dataBytes -= o.bytes()
		s.reactor.giveBack(o.shard, o.answer.Parcel)
	}
}
