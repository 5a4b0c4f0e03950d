package netio

import (
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// commitOffset answers COMMIT_OFFSET: an item of the request is a part.
func (s *Session) commitOffset(id uint64, p []byte) {
	parts := &commitParts{reactor: s.reactor}
	if err := parts.request.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	if !s.cursorsAllowed(id, parts.request.Group, len(parts.request.Items)) {
		return
	}
	if sc := s.gather(id, len(parts.request.Items), parts); sc != nil {
		parts.response.Items = make([]proto.CommitOffsetResult, len(parts.request.Items))
		sc.pump()
	}
}

// cursorsAllowed checks what both commands about offsets have.
func (s *Session) cursorsAllowed(id uint64, group string, items int) bool {
	if problem := core.GroupNameProblem(group); problem != "" {
		s.refuse(id, proto.CodeInvalidName.Errorf("%s", problem))
		return false
	}
	if items > scatterPartsMax {
		s.refuse(id, proto.CodeInvalidRequest.Errorf("%d items: one request may have %d; ask in several", items, scatterPartsMax))
		return false
	}
	return true
}

type commitParts struct {
	reactor  *Reactor
	request  proto.CommitOffsetRequest
	response proto.CommitOffsetResponse
}

func (c *commitParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	item := &c.request.Items[i]
	switch {
	case item.OwnerEpoch < 0:
		return 0, proto.CodeInvalidRequest.Errorf("owner_epoch %d: an epoch of an assignment, or of FENCE_GROUP", item.OwnerEpoch)
	case item.Offset < 0:
		return 0, proto.CodeInvalidRequest.Errorf("offset %d: an offset is not negative", item.Offset)
	case len(item.Metadata) > core.CursorMetadataBytesMax:
		return 0, proto.CodeInvalidRequest.Errorf("metadata of %d bytes; allowed are %d", len(item.Metadata), core.CursorMetadataBytesMax)
	}
	deed := mail.CursorCommit
	if c.request.Seek {
		deed = mail.CursorSeek
	}
	return c.reactor.cursorRequest(q, item.TopicID, item.Partition, &mail.Cursor{
		Deed: deed, Group: c.request.Group, Owner: item.OwnerEpoch, Offset: item.Offset, LastEpoch: item.LastEpoch, Metadata: item.Metadata,
	})
}

// cursorRequest fills the request for one partition.
func (r *Reactor) cursorRequest(q *mail.Request, topic [16]byte, number uint32, body *mail.Cursor) (core.ShardID, *proto.Error) {
	_, partition, e := r.partition(topic, number)
	if e != nil {
		return 0, e
	}
	q.Kind, q.Version, q.Partition, q.LeaderEpoch, q.Wait, q.Body = mail.RequestCursor, 1, partition.ID, -1, r.settings.RequestTimeout, body
	return r.shard(partition.ID), nil
}

func (c *commitParts) sent(int, *mail.Request, core.ShardID) {}

func (c *commitParts) fail(i int, e *proto.Error) {
	c.reactor.stats.fail(e.Code)
	c.response.Items[i] = proto.CommitOffsetResult{Error: *e, Committed: -1}
}

func (c *commitParts) take(i int, a *mail.Answer) {
	c.response.Items[i] = proto.CommitOffsetResult{Committed: a.Body.(*mail.CursorState).Offset}
}

func (c *commitParts) finish() proto.Message { return &c.response }

// fetchOffsets answers FETCH_OFFSETS: an item is a part, or a shard when all are asked for.
func (s *Session) fetchOffsets(id uint64, p []byte) {
	var m proto.FetchOffsetsRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	if !s.cursorsAllowed(id, m.Group, len(m.Items)) {
		return
	}
	if m.All {
		if len(m.Items) > 0 {
			s.refuse(id, proto.CodeInvalidRequest.Errorf("all is set and %d items are given: items must be empty then", len(m.Items)))
			return
		}
		parts := &allOffsetParts{reactor: s.reactor, group: m.Group}
		if sc := s.gather(id, len(s.reactor.links), parts); sc != nil {
			sc.pump()
		}
		return
	}
	parts := &fetchOffsetParts{reactor: s.reactor, request: m}
	if sc := s.gather(id, len(m.Items), parts); sc != nil {
		parts.response.Items = make([]proto.FetchOffsetsResult, len(m.Items))
		sc.pump()
	}
}

type fetchOffsetParts struct {
	reactor  *Reactor
	request  proto.FetchOffsetsRequest
	response proto.FetchOffsetsResponse
}

func (f *fetchOffsetParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	item := &f.request.Items[i]
	if item.OwnerEpoch < -1 {
		return 0, proto.CodeInvalidRequest.Errorf("owner_epoch %d: an epoch of an assignment, or -1 to ask only", item.OwnerEpoch)
	}
	deed := mail.CursorOwn
	if item.OwnerEpoch < 0 {
		deed = mail.CursorAsk
	}
	return f.reactor.cursorRequest(q, item.TopicID, item.Partition, &mail.Cursor{Deed: deed, Group: f.request.Group, Owner: item.OwnerEpoch})
}

func (f *fetchOffsetParts) sent(int, *mail.Request, core.ShardID) {}

func (f *fetchOffsetParts) fail(i int, e *proto.Error) {
	f.reactor.stats.fail(e.Code)
	item := &f.request.Items[i]
	f.response.Items[i] = proto.FetchOffsetsResult{
		TopicID: item.TopicID, Partition: item.Partition, Error: *e, Committed: -1, LastEpoch: -1, CommittedMs: -1, OwnerEpoch: -1, LogStartOffset: -1, HighWatermark: -1,
	}
}

func (f *fetchOffsetParts) take(i int, a *mail.Answer) {
	f.response.Items[i] = offsetsOf(a.Body.(*mail.CursorState))
	if e := f.response.Items[i].Error.Code; e != proto.CodeNone {
		f.reactor.stats.fail(e)
	}
}

func (f *fetchOffsetParts) finish() proto.Message { return &f.response }

func offsetsOf(c *mail.CursorState) proto.FetchOffsetsResult {
	r := proto.FetchOffsetsResult{
		TopicID: c.Topic, Partition: uint32(c.Number), Committed: c.Offset, LastEpoch: c.LastEpoch, Metadata: c.Metadata, CommittedMs: c.Time,
		OwnerEpoch: c.Owner, LogStartOffset: int64(c.LogStartOffset), HighWatermark: int64(c.HighWatermark),
	}
	if c.Err != nil {
		r.Error = *c.Err
	}
	return r
}

// allOffsetParts asks every shard for what a group has committed.
type allOffsetParts struct {
	reactor *Reactor
	group   string
	failed  *proto.Error
	found   []mail.CursorState
}

func (o *allOffsetParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	q.Kind, q.Version, q.LeaderEpoch, q.Wait, q.Body = mail.RequestCursors, 1, -1, o.reactor.settings.RequestTimeout, o.group
	return core.ShardID(i), nil
}

func (o *allOffsetParts) sent(int, *mail.Request, core.ShardID) {}

func (o *allOffsetParts) fail(_ int, e *proto.Error) {
	o.reactor.stats.fail(e.Code)
	o.failed = e
}

func (o *allOffsetParts) take(_ int, a *mail.Answer) {
	o.found = append(o.found, a.Body.([]mail.CursorState)...)
}

func (o *allOffsetParts) finish() proto.Message {
	if o.failed != nil {
		return o.failed
	}
	slices.SortFunc(o.found, func(a, b mail.CursorState) int {
		if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
			return c
		}
		return int(a.Number) - int(b.Number)
	})
	response := &proto.FetchOffsetsResponse{Items: make([]proto.FetchOffsetsResult, len(o.found))}
	for i := range o.found {
		response.Items[i] = offsetsOf(&o.found[i])
	}
	return response
}
