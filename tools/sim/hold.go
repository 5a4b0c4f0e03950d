package main

import (
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// hold is a partition that a member was told to own, under an epoch. It is taken over first, then read from the
// committed offset on, and committed.
type hold struct {
	member   *member
	topic    [16]byte
	number   uint32
	epoch    int64
	sent     int64 // when the member asked for the assignment
	progress *progress
	reader   *consumer

	owning, owned bool
	fetching      bool
	committing    int
	committed     int64 // acknowledged
	sentUpTo      int64
	dropped       bool
	revoked       bool  // to be given up, once it is committed
	from          int64 // where it was taken over
	forgotten     int   // of the group, when it was taken over
}

// resolve finds the partition in the world; one that has just been made may not have been heard of.
func (h *hold) resolve() {
	if h.progress != nil {
		return
	}
	m := h.member
	l := m.world.logOf(h.topic, h.number)
	if l == nil {
		return
	}
	h.progress = m.group.of(l)
	h.reader = &consumer{world: m.world, log: l, peer: m.peer, lastEpoch: -1}
	h.progress.give(m, h.epoch, h.sent)
	if m.held == nil {
		m.held = map[*progress]int64{}
	}
	m.held[h.progress] = h.epoch
}

func (h *hold) run() {
	m := h.member
	if h.progress == nil {
		h.resolve()
	}
	if h.progress == nil || h.reader.log.topic.deleting || h.reader.stopped {
		if h.revoked {
			h.end()
		}
		return
	}
	switch {
	case h.revoked && (!h.owned || h.committing == 0 && h.reader.at <= h.committed):
		h.end()
	case !m.peer.room(512):
	case !h.owned && !h.owning:
		h.own()
	case h.owned:
		if !h.revoked && !h.fetching {
			h.fetch()
		}
		r := m.world.groups.random
		if h.reader.at > h.sentUpTo && (h.revoked || r.IntN(3) == 0) || h.reader.at > h.committed && h.committing == 0 && r.IntN(4) == 0 {
			h.commit(h.reader.at)
			if r.IntN(6) == 0 && m.peer.room(512) { // an older one behind it, as a repetition that comes late
				h.commit(h.base() + r.Int64N(h.reader.at-h.base()+1))
			}
		}
	}
}

// base is the least that a late repetition names.
func (h *hold) base() int64 { return min(h.reader.at, max(h.committed, h.from)) }

// own takes the partition over: from the answer on no earlier owner can commit.
func (h *hold) own() {
	m, p := h.member, h.progress
	h.owning = true
	then := p.promised()
	p.highest = max(p.highest, h.epoch) // it may take effect without an answer
	m.peer.ask(&proto.FetchOffsetsRequest{Group: m.group.name, Items: []proto.FetchOffsetsItem{{TopicID: h.topic, Partition: h.number, OwnerEpoch: h.epoch}}},
		func(answer proto.Message, e *proto.Error) {
			h.owning = false
			if answer == nil {
				return
			}
			r := &answer.(*proto.FetchOffsetsResponse).Items[0]
			l := p.log
			switch {
			case r.Error.Code == proto.CodeStaleEpoch:
				h.stale(&r.Error)
				return
			case r.Error.Code == proto.CodeUnknownTopic:
				if !l.topic.deleting {
					p.fail("a take-over is told %v", &r.Error)
				}
				return
			case r.Error.Code == proto.CodeOffsetOutOfRange: // taken over all the same
				if r.Error.Offsets == nil || r.Committed >= r.Error.Offsets.Earliest && r.Committed <= r.Error.Offsets.Latest {
					p.fail("a take-over at %d is told %v", r.Committed, &r.Error)
				}
			case r.Error.Failed():
				return
			case r.Committed >= 0 && r.Committed < r.LogStartOffset:
				p.fail("is taken over at %d without a word, and the log starts at %d", r.Committed, r.LogStartOffset)
			}
			if r.OwnerEpoch != h.epoch {
				if r.OwnerEpoch < h.epoch {
					p.fail("is taken over under epoch %d, and epoch %d is said to own it", h.epoch, r.OwnerEpoch)
				}
				return // somebody has taken it over since
			}
			p.observe(r, then, true)
			m.world.counts.takes++
			h.owned, h.forgotten = true, m.group.forgotten
			h.reader.at, h.reader.lastEpoch = r.Committed, r.LastEpoch
			if at := max(r.Committed, r.LogStartOffset); r.Committed < at {
				p.excuse(0, at)
				h.reader.at, h.reader.lastEpoch = at, -1
			}
			h.from = h.reader.at
			h.committed, h.sentUpTo = max(0, r.Committed), h.from
		})
}

// stale: another owner has been there, so there must be one, unless the group was forgotten and all owners with it.
func (h *hold) stale(e *proto.Error) {
	forgotten := h.owned && (h.member.group.loose || h.member.group.forgotten > h.forgotten)
	if p := h.progress; p.highest <= h.epoch && !forgotten {
		p.fail("epoch %d is said to be stale, and nobody had a later one: %v", h.epoch, e)
	}
	h.drop()
}

func (h *hold) drop() {
	h.dropped = true
	if i := slices.Index(h.member.holds, h); i >= 0 {
		h.member.holds = slices.Delete(h.member.holds, i, i+1)
	}
}

func (h *hold) fetch() {
	m, c := h.member, h.reader
	w := m.world
	h.fetching = true
	at, epoch := c.at, c.lastEpoch
	c.then = c.log.promised()
	m.peer.ask(&proto.FetchRequest{
		TopicID: h.topic, Partition: h.number, LeaderEpoch: -1, Offset: at, LastEpoch: epoch,
		MinBytes: 1, MaxWaitMs: uint32(w.groups.random.IntN(200)), MaxBytes: uint32([]int{0, 1, 1000, 100_000}[w.groups.random.IntN(4)]),
	}, func(answer proto.Message, e *proto.Error) {
		switch {
		case answer != nil:
			r := answer.(*proto.FetchResponse)
			h.fetching = r.More
			c.log.bounds(r.LogStartOffset, r.HighWatermark, c.then)
			before := at
			at, epoch = c.log.shown(r.Batches, at, epoch, r.HighWatermark, nil)
			w.note("member read", int64(m.group.number), c.log.key(), before, at)
			if h.revoked || h.dropped {
				return // it is being given up: what comes now is not processed
			}
			h.progress.cover(before, at)
			c.at, c.lastEpoch = at, epoch
		case e != nil:
			h.fetching = false
			before := c.at
			c.failed(e)
			if c.at > before {
				h.progress.excuse(before, c.at)
			} else if c.at < before { // what was read has been lost, and what was committed of it
				h.from = min(h.from, c.at)
				h.sentUpTo, h.committed = 0, 0
			}
		}
	})
}

// commit sends how far the member has come.
func (h *hold) commit(offset int64) {
	m, p := h.member, h.progress
	w := m.world
	t := try{h.epoch, offset}
	p.tries(t)
	fence := p.owner
	logs := p.log.promised()
	h.committing++
	h.sentUpTo = max(h.sentUpTo, offset)
	last := int32(-1)
	if offset == h.reader.at {
		last = h.reader.lastEpoch
	}
	wire := m.peer.wire
	m.peer.ask(&proto.CommitOffsetRequest{Group: m.group.name, Items: []proto.CommitOffsetItem{{
		TopicID: h.topic, Partition: h.number, OwnerEpoch: h.epoch, Offset: offset, LastEpoch: last, Metadata: fmt.Sprint(h.epoch),
	}}}, func(answer proto.Message, e *proto.Error) {
		if wire == m.peer.wire && h.committing > 0 {
			h.committing--
		}
		if answer == nil {
			if e != nil && !passing(e) {
				p.fail("a commit is told %v", e)
			}
			return
		}
		r := &answer.(*proto.CommitOffsetResponse).Items[0]
		switch r.Error.Code {
		case proto.CodeNone:
			w.counts.commits++
			w.note("commit", int64(m.group.number), p.log.key(), offset, h.epoch)
			if h.epoch < fence && !m.group.loose && fence <= p.owner {
				p.fail("epoch %d commits %d, and epoch %d had taken over before", h.epoch, offset, fence)
			}
			if r.Committed < offset {
				p.fail("a commit of %d is answered with %d", offset, r.Committed)
			}
			h.committed = max(h.committed, offset)
			p.learn(h.epoch, r.Committed, false)
		case proto.CodeStaleEpoch:
			w.counts.fenced++
			p.refused(t)
			h.stale(&r.Error)
		case proto.CodeOffsetOutOfRange:
			p.refused(t)
			if o := r.Error.Offsets; o == nil || offset >= o.Earliest && offset <= o.Latest {
				p.fail("a commit of %d is told %v", offset, &r.Error)
			} else {
				p.log.bounds(o.Earliest, o.Latest, logs)
			}
			h.committed = max(h.committed, offset) // there is nothing to commit any more
		case proto.CodeUnknownTopic:
			p.refused(t)
			if !p.log.topic.deleting {
				p.fail("a commit is told %v", &r.Error)
			}
		}
	})
}

// revoke begins to give the partition up.
func (h *hold) revoke() {
	h.revoked = true
	h.run()
}

// end is the hold's: it reads and commits nothing more, but for what comes late.
func (h *hold) end() {
	h.drop()
	h.haunt()
}

// haunt has commits come late, under the epoch of the hold. Each names a place that was read.
func (h *hold) haunt() {
	m := h.member
	w := m.world
	r := w.groups.random
	if h.progress == nil || !h.owned || r.IntN(2) == 0 {
		return
	}
	base, next := h.base(), h.reader.at
	w.after(w.groups.between(1e6, 1500e6), func() {
		if !m.gone && m.peer.room(512) && next >= base && !h.progress.log.topic.deleting {
			h.commit(base + w.groups.random.Int64N(next-base+1))
		}
	})
}
