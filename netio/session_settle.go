package netio

import (
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// settleLeases passes SETTLE to the owner of the partition.
func (s *Session) settleLeases(id uint64, p []byte) {
	var m proto.SettleRequest
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	if e := settleAllowed(&m); e != nil {
		s.refuse(id, e)
		return
	}
	r := s.reactor
	_, partition, e := r.partition(m.TopicID, m.Partition)
	if e != nil {
		s.refuse(id, e)
		return
	}
	request := mail.Request{
		Kind: mail.RequestSettle, Version: 1, ID: id, Partition: partition.ID, LeaderEpoch: -1,
		Wait: r.settings.RequestTimeout, Received: r.now, Body: &mail.Settle{Group: m.Group, Member: m.MemberID, Ranges: m.Ranges},
	}
	if !s.send(r.shard(partition.ID), &request) {
		s.refuse(id, errOverloaded)
	}
}

// settleAllowed checks what a member says of leases.
func settleAllowed(m *proto.SettleRequest) *proto.Error {
	invalid := proto.CodeInvalidRequest.Errorf
	if problem := core.GroupNameProblem(m.Group); problem != "" {
		return proto.CodeInvalidName.Errorf("%s", problem)
	}
	if len(m.MemberID) > core.MemberIDBytesMax {
		return invalid("member_id has %d bytes; 1 to %d are allowed", len(m.MemberID), core.MemberIDBytesMax)
	}
	if n := len(m.Ranges); n == 0 || n > core.SettleRangesMax {
		return invalid("%d ranges; 1 to %d are allowed: settle more in several requests", n, core.SettleRangesMax)
	}
	next := int64(0)
	for i := range m.Ranges {
		r := &m.Ranges[i]
		switch {
		case r.BaseOffset < next || r.NextOffset <= r.BaseOffset:
			return invalid("range %d is from %d to before %d: it has to be behind the one before, at %d or later, and hold a record", i, r.BaseOffset, r.NextOffset, next)
		case !r.Outcome.Valid():
			return invalid("range %d: outcome %d; 0 (ack), 1 (nack), 2 (reject), 3 (extend), 4 (release) and 5 (discard) are allowed", i, uint8(r.Outcome))
		case m.MemberID == "" && r.Outcome != proto.SettlementDiscard:
			return invalid("member_id is empty: range %d is %s, and only discard does without", i, r.Outcome)
		case r.DelayMs != 0 && r.Outcome != proto.SettlementNack && r.Outcome != proto.SettlementExtend:
			return invalid("range %d: %s with a delay of %d ms; nack and extend have one", i, r.Outcome, r.DelayMs)
		case r.Outcome == proto.SettlementNack && r.DelayMs > nackMillisMax:
			e := proto.CodeInvalidTimeout.Errorf("range %d: delay_ms is %d ms; allowed are 0 to %d ms", i, r.DelayMs, nackMillisMax)
			e.Limit = uint64(nackMillisMax)
			return e
		case r.Outcome == proto.SettlementExtend && r.DelayMs != 0 && !leaseTimeoutAllowed(r.DelayMs):
			return leaseTimeout("delay_ms of an extend", r.DelayMs)
		case r.Reason != "" && r.Outcome != proto.SettlementNack && r.Outcome != proto.SettlementReject:
			return invalid("range %d: %s with a reason; nack and reject have one", i, r.Outcome)
		case len(r.Reason) > core.SettleReasonBytesMax:
			return invalid("range %d: a reason of %d bytes; allowed are %d", i, len(r.Reason), core.SettleReasonBytesMax)
		}
		next = r.NextOffset
	}
	return nil
}

// describeQueue answers DESCRIBE_QUEUE: an item is a part, or a shard when all are asked for.
func (s *Session) describeQueue(id uint64, p []byte) {
	var m proto.DescribeQueueRequest
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
		parts := &allQueueParts{reactor: s.reactor, group: m.Group}
		if sc := s.gather(id, len(s.reactor.links), parts); sc != nil {
			sc.pump()
		}
		return
	}
	parts := &queueParts{reactor: s.reactor, request: m}
	if sc := s.gather(id, len(m.Items), parts); sc != nil {
		parts.response.Items = make([]proto.QueuePartition, len(m.Items))
		sc.pump()
	}
}

type queueParts struct {
	reactor  *Reactor
	request  proto.DescribeQueueRequest
	response proto.DescribeQueueResponse
}

func (d *queueParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	item := &d.request.Items[i]
	_, partition, e := d.reactor.partition(item.TopicID, item.Partition)
	if e != nil {
		return 0, e
	}
	q.Kind, q.Version, q.Partition, q.LeaderEpoch, q.Wait, q.Body = mail.RequestQueue, 1, partition.ID, -1, d.reactor.settings.RequestTimeout, d.request.Group
	return d.reactor.shard(partition.ID), nil
}

func (d *queueParts) sent(int, *mail.Request, core.ShardID) {}

func (d *queueParts) fail(i int, e *proto.Error) {
	d.reactor.stats.fail(e.Code)
	item := &d.request.Items[i]
	d.response.Items[i] = proto.QueuePartition{TopicID: item.TopicID, Partition: item.Partition, Error: *e, LowOffset: -1, HighOffset: -1, HighWatermark: -1}
}

func (d *queueParts) take(i int, a *mail.Answer) {
	d.response.Items[i] = *a.Body.(*proto.QueuePartition)
}

func (d *queueParts) finish() proto.Message {
	boundBlockers(d.response.Items)
	return &d.response
}

// blockersBytesMax bounds what an answer tells of the oldest records of all partitions together, so that one about as many
// as a topic may have is still a frame.
const blockersBytesMax = 512 << 10

// boundBlockers leaves out the later ones of each partition that has more than its part.
func boundBlockers(items []proto.QueuePartition) {
	for i := range items {
		room := blockersBytesMax / len(items)
		for k := range items[i].Blockers {
			b := &items[i].Blockers[k]
			if room -= blockerBytes + len(b.MemberID) + len(b.Reason); room < 0 {
				items[i].Blockers = items[i].Blockers[:k]
				break
			}
		}
	}
}

// blockerBytes is what a blocker takes in a frame beside its texts, and a little more.
const blockerBytes = 64

// allQueueParts asks every shard how a group stands.
type allQueueParts struct {
	reactor *Reactor
	group   string
	failed  *proto.Error
	found   []proto.QueuePartition
}

func (o *allQueueParts) build(i int, q *mail.Request) (core.ShardID, *proto.Error) {
	q.Kind, q.Version, q.LeaderEpoch, q.Wait, q.Body = mail.RequestQueues, 1, -1, o.reactor.settings.RequestTimeout, o.group
	return core.ShardID(i), nil
}

func (o *allQueueParts) sent(int, *mail.Request, core.ShardID) {}

func (o *allQueueParts) fail(_ int, e *proto.Error) {
	o.reactor.stats.fail(e.Code)
	o.failed = e
}

func (o *allQueueParts) take(_ int, a *mail.Answer) {
	o.found = append(o.found, a.Body.([]proto.QueuePartition)...)
}

func (o *allQueueParts) finish() proto.Message {
	if o.failed != nil {
		return o.failed
	}
	slices.SortFunc(o.found, func(a, b proto.QueuePartition) int {
		if c := slices.Compare(a.TopicID[:], b.TopicID[:]); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	boundBlockers(o.found)
	return &proto.DescribeQueueResponse{Items: o.found}
}
