package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// scatterInFlightMax bounds the parts of one request that are with shards at a time.
	scatterInFlightMax = 64

	// scatterPartsMax bounds the parts of one request: as many as a topic has partitions.
	scatterPartsMax = core.PartitionsPerTopicMax

	// scatterResultsMax bounds the results that one reactor gathers at a time: a few
	// bytes ask for the description of ten thousand partitions.
	scatterResultsMax = 16 * scatterPartsMax
)

// parts is a request that is answered partition by partition.
type parts interface {
	// build makes the request of a part, or says why there is none. It is called
	// again when the request found no room; sent follows when it did.
	build(i int, q *mail.Request) (core.ShardID, *proto.Error)
	sent(i int, q *mail.Request, shard core.ShardID)
	// fail and take store what became of a part.
	fail(i int, e *proto.Error)
	take(i int, a *mail.Answer)
	// finish is the answer when all parts are there.
	finish() proto.Message
}

// scatter spreads a request over the shards, a bounded number of parts at a
// time, and gathers what they answer.
//
// Invariant: answered parts + inFlight == next <= count.
type scatter struct {
	session  *Session
	id       uint64 // of the wire
	token    uint32
	parts    parts
	count    int
	next     int
	inFlight int
	results  int  // counted in reactor.scatterResults
	starved  bool // in reactor.starved
}

// scatter begins one.
func (s *Session) scatter(id uint64, count int, p parts) *scatter {
	s.scatterID = (s.scatterID + 1) & (1<<31 - 1)
	sc := &scatter{session: s, id: id, token: s.scatterID, parts: p, count: count}
	if s.scatters == nil {
		s.scatters = make(map[uint32]*scatter)
	}
	s.scatters[sc.token] = sc
	return sc
}

// gather is scatter for a request whose results are kept until all are there. It
// refuses the request and returns nil when the reactor gathers too many already.
func (s *Session) gather(id uint64, count int, p parts) *scatter {
	r := s.reactor
	if r.scatterResults > 0 && r.scatterResults+count > scatterResultsMax {
		s.refuse(id, errOverloaded)
		return nil
	}
	sc := s.scatter(id, count, p)
	sc.results = count
	r.scatterResults += count
	return sc
}

// dropScatters forgets the requests of a session that is gone.
func (s *Session) dropScatters() {
	for _, sc := range s.scatters {
		s.reactor.scatterResults -= sc.results
	}
	s.scatters = nil
}

// partID is what a part is called in rings: the bit, the token, the part.
func (sc *scatter) partID(i int) uint64 {
	return scatterIDBit | uint64(sc.token)<<32 | uint64(uint32(i))
}

// pump sends parts until enough are under way, and ends the request with the last.
func (sc *scatter) pump() {
	s := sc.session
	if s.state != stateOpen || s.scatters[sc.token] != sc {
		return
	}
	for sc.next < sc.count && sc.inFlight < scatterInFlightMax {
		q := mail.Request{ID: sc.partID(sc.next), Received: s.reactor.now}
		shard, e := sc.parts.build(sc.next, &q)
		if e != nil {
			sc.parts.fail(sc.next, e)
			sc.next++
			continue
		}
		if !s.send(shard, &q) {
			// With parts under way the next answer tries again, else the next turn does.
			if sc.inFlight == 0 && !sc.starved {
				sc.starved = true
				s.reactor.starved = append(s.reactor.starved, sc)
			}
			return
		}
		sc.parts.sent(sc.next, &q, shard)
		sc.next++
		sc.inFlight++
	}
	if sc.next == sc.count && sc.inFlight == 0 {
		delete(s.scatters, sc.token)
		s.reactor.scatterResults -= sc.results
		s.settle(sc.id)
		if m := sc.parts.finish(); m != nil {
			s.push(sc.id, m)
		}
	}
}

// answered takes the answer to a part.
func (sc *scatter) answered(i int, a *mail.Answer) {
	core.Assert(sc.inFlight > 0 && i < sc.next, "a part is answered once, after it was sent")
	sc.inFlight--
	if a.Err != nil {
		sc.parts.fail(i, a.Err)
	} else {
		sc.parts.take(i, a)
	}
	sc.pump()
}

// answerScatter finds the scattered request that an answer belongs to.
func (s *Session) answerScatter(a *mail.Answer) {
	if sc := s.scatters[uint32(a.ID>>32)&(1<<31-1)]; sc != nil {
		sc.answered(int(uint32(a.ID)), a)
	}
}

// listOffsets answers LIST_OFFSETS: an item of the request is a part.
func (s *Session) listOffsets(id uint64, p []byte) {
	parts := &offsetParts{reactor: s.reactor, version: s.in.header.Version}
	if err := parts.request.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	count := len(parts.request.Items)
	if count > scatterPartsMax {
		s.refuse(id, proto.CodeInvalidRequest.Errorf("%d items: one request may have %d; ask in several", count, scatterPartsMax))
		return
	}
	if sc := s.gather(id, count, parts); sc != nil {
		parts.response.Items = make([]proto.ListOffsetsResult, count)
		sc.pump()
	}
}

type offsetParts struct {
	reactor  *Reactor
	version  uint8
	request  proto.ListOffsetsRequest
	response proto.ListOffsetsResponse
}

func (o *offsetParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	item := &o.request.Items[i]
	if !item.Kind.Valid() {
		return 0, proto.CodeInvalidRequest.Errorf("kind %d: 0 (earliest), 1 (latest), 2 (timestamp) and 3 (max timestamp) are allowed", uint8(item.Kind))
	}
	_, partition, e := o.reactor.partition(item.TopicID, item.Partition)
	if e != nil {
		return 0, e
	}
	q.Kind = mail.RequestListOffset
	q.Version = o.version
	q.Partition = partition.ID
	q.LeaderEpoch = core.LeaderEpoch(item.LeaderEpoch)
	q.Wait = o.reactor.settings.RequestTimeout
	switch item.Kind {
	case proto.OffsetKindEarliest:
		q.Lookup = mail.LookupEarliest
	case proto.OffsetKindLatest:
		q.Lookup = mail.LookupLatest
	case proto.OffsetKindTimestamp:
		q.Lookup = mail.LookupTime
		q.Timestamp = item.TimestampMs
	case proto.OffsetKindMaxTimestamp:
		q.Lookup = mail.LookupMaxTimestamp
	}
	return o.reactor.shard(partition.ID), nil
}

func (o *offsetParts) sent(int, *mail.Request, core.ShardID) {}

func (o *offsetParts) fail(i int, e *proto.Error) {
	o.reactor.stats.fail(e.Code)
	o.response.Items[i] = proto.ListOffsetsResult{Error: *e, Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
}

func (o *offsetParts) take(i int, a *mail.Answer) {
	o.response.Items[i] = proto.ListOffsetsResult{
		Offset:      int64(a.Offset),
		TimestampMs: a.Timestamp,
		LeaderEpoch: int32(a.LeaderEpoch),
	}
}

func (o *offsetParts) finish() proto.Message { return &o.response }
