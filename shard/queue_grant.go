package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// grant is one delivery: records are claimed, read, their count is written, and they are pushed.
//
// Invariant: it is in exactly one of: the store (reading), queue.grants or a frame that waits, the reactor.
type grant struct {
	read     segment.Read
	share    *leaseShare
	span     queue.Span
	parcel   *mail.Parcel
	leased   mail.Leased
	slices   [][]byte // used again
	reserved int64    // memory
}

// begin claims are turned into a delivery to the share.
func (s *leaseShare) begin(span queue.Span) {
	l, p, m := s.leaser, s.queue.partition, s.queue.machine()
	g := m.pools.grant()
	g.share, g.span, g.reserved = s, span, queueGrantBytes
	l.credit -= int64(span.Records)
	l.inFlight++
	s.served = true
	m.hold(l.peer, g.reserved)
	g.read.Log, g.read.Offset, g.read.Limit = p.log, core.Offset(span.Base), p.highWatermark()
	g.read.BytesMax, g.read.RecordsMax, g.read.Owner = queueGrantBytes, int(span.Next-span.Base), g
	if m.store.Read(&g.read) {
		g.ReadDone(&g.read)
	}
}

// window is the one that the records were claimed from; nil when it was forgotten.
func (g *grant) window() *queue.Window { return g.share.queue.window }

// ReadDone takes what the store found.
func (g *grant) ReadDone(r *segment.Read) {
	s, q, p := g.share, g.share.queue, g.share.queue.partition
	switch {
	case p.gone || q.window == nil || s.ended:
		g.drop()
		q.enqueue() // others may wait for what this one had claimed
		return
	case r.Err != nil:
		g.failed(p.readError(r))
		return
	case r.Next > p.highWatermark(): // the durability was raised meanwhile: what has not reached it waits
		g.drop()
		q.enqueue()
		return
	}
	p.spent(r.Bytes)
	g.take(r)
	if back := g.span.Records - int(g.leased.Records); back > 0 {
		q.window.Unclaim(g.span.Tag, int64(r.Next), g.span.Next)
		s.leaser.credit += int64(back)
		s.leaser.offer()
		q.enqueue()
	}
	if g.leased.Records == 0 {
		if int64(r.Next) <= g.span.Base {
			q.pause() // nothing was found, and the next look would find the same
		}
		r.Release()
		g.finish(g.reserved)
		q.enqueue()
		return
	}
	m := q.machine()
	m.settleHold(s.leaser.peer, int64(r.Bytes), g.reserved)
	g.reserved = int64(r.Bytes)
	g.parcel = m.pack(r)
	g.parcel.Owner = g
	if q.config().Attempts == core.QueueAttemptsRelaxed {
		g.push()
		return
	}
	q.grants = append(q.grants, g)
	q.list()
}

// take goes through the batches: what is claimed is leased, what is in none of them is settled by the way, and batches
// without a leased record are left out.
func (g *grant) take(r *segment.Read) {
	out, bytes := g.slices[:0], 0
	at := g.span.Base
	for _, slice := range r.Slices {
		keep := -1
		for rest := slice; len(rest) > 0; {
			batch, after, err := proto.NextBatch(rest)
			core.Assert(err == nil, "the log reads whole batches")
			begin := len(slice) - len(rest)
			base, next := batch.BaseOffset(), batch.NextOffset()
			g.skip(at, base)
			if g.lease(max(at, base), next) {
				if keep < 0 {
					keep = begin
				}
			} else if keep >= 0 {
				out = append(out, slice[keep:begin])
				bytes += begin - keep
				keep = -1
			}
			at, rest = max(at, next), after
		}
		if keep >= 0 {
			out = append(out, slice[keep:])
			bytes += len(slice) - keep
		}
	}
	g.skip(at, int64(r.Next))
	if len(out) > core.AnswerSlicesMax { // more pieces than one write takes: what lies between goes along
		g.slices = out
		return
	}
	r.Slices, g.slices = out, r.Slices
	r.Bytes = bytes
}

// skip settles claimed records that are in no batch.
func (g *grant) skip(from, to int64) {
	q := g.share.queue
	for from < to {
		base, end, _ := q.window.Claimed(g.span.Tag, from, min(to, g.span.Next))
		if base >= end {
			return
		}
		q.window.Close(g.span.Tag, base, end)
		q.add(queue.Op{Kind: queue.Settle, Base: base, Next: end})
		from = end
	}
}

// lease notes the claimed records of a batch, and says whether there are any.
func (g *grant) lease(from, to int64) (any bool) {
	q, ranges := g.share.queue, g.leased.Ranges
	relaxed := q.config().Attempts == core.QueueAttemptsRelaxed
	for {
		base, end, attempts := q.window.Claimed(g.span.Tag, from, min(to, g.span.Next))
		if base >= end {
			g.leased.Ranges = ranges
			return any
		}
		any = true
		attempts = min(attempts, queue.AttemptsMax-1) + 1
		g.leased.Records += uint32(end - base)
		if n := len(ranges); n > 0 && ranges[n-1].NextOffset == base && ranges[n-1].Attempt == uint32(attempts) {
			ranges[n-1].NextOffset = end
		} else {
			ranges = append(ranges, proto.LeasedRange{BaseOffset: base, NextOffset: end, Attempt: uint32(attempts)})
		}
		op := queue.Op{Kind: queue.Lease, Base: base, Next: end, Attempts: attempts}
		if relaxed {
			q.window.Apply(&op, 0)
		} else {
			q.ops = queue.Add(q.ops, op)
		}
		from = end
	}
}

// push hands the records over: their count is stored.
func (g *grant) push() {
	s, q, l, p := g.share, g.share.queue, g.share.leaser, g.share.queue.partition
	m := q.machine()
	timeout := s.timeout
	if timeout == 0 {
		timeout = int64(q.config().AckTimeout)
	}
	deadline := m.now + timeout
	for _, r := range g.leased.Ranges {
		n := QueueCounts{Delivered: uint64(q.window.Grant(g.span.Tag, r.BaseOffset, r.NextOffset, s.holder, deadline))}
		if r.Attempt > 1 {
			n.Redelivered = n.Delivered
		}
		q.count(n)
	}
	s.until = max(s.until, deadline)
	q.arm()
	records := int64(g.leased.Records)
	p.stats.MessagesOut += records
	p.stats.BytesOut += int64(g.parcel.Bytes)
	m.stats.MessagesOut += records
	m.stats.BytesOut += int64(g.parcel.Bytes)
	g.leased.Topic, g.leased.Number, g.leased.TimeoutMillis = p.topic.ID, p.number, uint32(timeout/1e6)
	more := l.credit == 0 && !l.told && q.claimable()
	l.told = l.told || more
	m.answer = mail.Answer{
		Kind: mail.AnswerLeased, More: more, Conn: l.conn, ID: l.id, Partition: p.id, LeaderEpoch: p.leaderEpoch(),
		Offset: core.Offset(q.window.High()), Timestamp: -1,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(),
		Parcel: g.parcel, Body: &g.leased,
	}
	m.send(l.reactor)
}

// stored goes on when the count is stored. A member that has gone meanwhile has seen nothing, so it counts back.
func (g *grant) stored(stale bool) {
	q := g.share.queue
	if !stale && !g.share.ended {
		g.push()
		return
	}
	if !stale {
		for _, r := range g.leased.Ranges {
			for from := r.BaseOffset; ; {
				base, end, attempts := q.window.Claimed(g.span.Tag, from, r.NextOffset)
				if base >= end {
					break
				}
				q.window.Close(g.span.Tag, base, end)
				q.add(queue.Op{Kind: queue.Retry, Base: base, Next: end, Attempts: attempts - 1})
				from = end
			}
		}
	}
	g.lost()
}

// lost gives everything back: nothing was pushed.
func (g *grant) lost() {
	q, l := g.share.queue, g.share.leaser
	if q.window != nil {
		q.window.Unclaim(g.span.Tag, g.span.Base, g.span.Next)
	}
	l.credit += int64(g.leased.Records)
	parcel := g.parcel
	g.parcel = nil
	q.machine().unpack(parcel)
	g.finish(g.reserved)
	q.enqueue()
}

// drop gives everything back before anything was found.
func (g *grant) drop() {
	g.read.Release()
	if w := g.window(); w != nil {
		w.Unclaim(g.span.Tag, g.span.Base, g.span.Next)
	}
	g.share.leaser.credit += int64(g.span.Records)
	g.finish(g.reserved)
}

// failed ends the records that the log cannot give any more, or tells the member.
func (g *grant) failed(err *proto.Error) {
	s, q := g.share, g.share.queue
	if d := err.Damage; err.Code == proto.CodeCorruptRecord && d != nil {
		for from := max(g.span.Base, d.BaseOffset); ; {
			base, end, _ := q.window.Claimed(g.span.Tag, from, min(g.span.Next, d.NextOffset))
			if base >= end {
				break
			}
			q.window.Close(g.span.Tag, base, end)
			q.add(queue.Op{Kind: queue.Bury, Base: base, Next: end, Reason: queue.Damaged})
			from = end
		}
		g.drop()
		q.enqueue()
		return
	}
	g.drop()
	switch err.Code {
	case proto.CodeOverloaded, proto.CodeOffsetOutOfRange:
		q.pause() // the disk is busy, or the log was trimmed: what is gone is settled first
	default:
		s.fail(err)
	}
}

// returned goes on when a push has left for its socket.
func (g *grant) returned(bytes int64) { g.finish(bytes) }

// finish gives back what the delivery held.
func (g *grant) finish(held int64) {
	l := g.share.leaser
	m := l.machine
	l.inFlight--
	m.pools.putGrant(g)
	l.offer()
	m.unhold(l.peer, held)
}
