package main

import (
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// progress is what the outside knows of how far a group has come in a partition: what was tried, what was promised, and
// who was told to own it. Epochs order it: who owned under a lower epoch may change nothing once a higher one was answered.
type progress struct {
	group *consumerGroup
	log   *plog

	attempts map[try]int // how often each may have taken effect
	highest  int64       // epoch that was ever tried
	seeks    []try
	facts    []fact
	owner    int64 // the highest epoch that was durably told to own the partition

	owners map[int64]*member // by the epoch under which they were told that it is theirs
	told   int64             // the highest such epoch
	toldTo *member
	toldAt int64
	read   []span // by the group, or excused
}

// try is a commit or seek that was sent.
type try struct{ epoch, offset int64 }

// fact is something that has to hold: the owner epoch is not lower, and the committed offset neither, but for a seek
// under a higher epoch.
type fact struct {
	try
	survives int // 0 nothing, 1 the end of the process, 2 that of the power
}

// span is a range of offsets.
type span struct{ base, next int64 }

// promise is what was known when a question was asked.
type promise struct {
	owner     int64
	facts     []fact
	forgotten int
	logs      promises
}

func (p *progress) promised() promise {
	return promise{p.owner, slices.Clone(p.facts), p.group.forgotten, p.log.promised()}
}

func (p *progress) fail(format string, args ...any) {
	p.log.fail("group %s: "+format, append([]any{p.group.name}, args...)...)
}

// tries notes a commit that is sent.
func (p *progress) tries(t try) {
	p.attempts[t]++
	p.highest = max(p.highest, t.epoch)
}

// refused takes back one that the broker says did nothing.
func (p *progress) refused(t try) { p.attempts[t]-- }

// owned takes that an epoch owns the partition, durably.
func (p *progress) owned(epoch int64) {
	p.highest = max(p.highest, epoch)
	if !p.group.loose {
		p.owner = max(p.owner, epoch)
	}
}

// learn takes that an offset is committed.
func (p *progress) learn(epoch, offset int64, synced bool) {
	t := p.log.topic
	if p.group.loose || offset < 0 || !synced && t.shaky() {
		return
	}
	f := fact{try{epoch, offset}, 0}
	switch {
	case synced || t.certain && t.level == proto.DurabilitySync:
		f.survives = 2
	case t.certain && t.level == proto.DurabilityBatch:
		f.survives = 1
	}
	for _, old := range p.facts {
		if old.survives >= f.survives && old.epoch >= f.epoch && old.offset >= f.offset {
			return
		}
	}
	p.facts = slices.DeleteFunc(p.facts, func(old fact) bool {
		return old.survives <= f.survives && old.epoch <= f.epoch && old.offset <= f.offset
	})
	p.facts = append(p.facts, f)
}

// holds says whether an offset that is committed under an owner agrees with another one.
func (p *progress) holds(f try, owner, offset int64) bool {
	if offset >= f.offset {
		return true
	}
	return slices.ContainsFunc(p.seeks, func(s try) bool { return s.epoch > f.epoch && s.epoch <= owner && s.offset <= offset })
}

// observe holds an answer about the group's progress to what was known when it was asked for.
func (p *progress) observe(r *proto.FetchOffsetsResult, then promise, took bool) {
	w := p.group.world
	w.note("committed", int64(p.group.number), p.log.key(), r.Committed, r.OwnerEpoch)
	p.log.bounds(r.LogStartOffset, r.HighWatermark, then.logs)
	if !p.group.loose && p.group.forgotten == then.forgotten {
		if r.OwnerEpoch < then.owner {
			p.fail("epoch %d is said to own it, and %d has taken over durably", r.OwnerEpoch, then.owner)
		}
		for _, f := range then.facts {
			if r.OwnerEpoch < f.epoch || !p.holds(f.try, r.OwnerEpoch, r.Committed) {
				p.fail("%d is committed, of owner %d, and %d was acknowledged to epoch %d", r.Committed, r.OwnerEpoch, f.offset, f.epoch)
			}
		}
	}
	if r.Committed > r.HighWatermark && !p.log.topic.raised {
		p.fail("%d is committed, above the high watermark %d", r.Committed, r.HighWatermark)
	}
	if r.Committed >= 0 && !p.tried(r.OwnerEpoch, r.Committed) {
		p.fail("%d is committed, of owner %d, and no member has tried that with success", r.Committed, r.OwnerEpoch)
	}
	if took {
		p.owned(r.OwnerEpoch)
	}
	p.learn(r.OwnerEpoch, r.Committed, false)
}

// tried says whether an offset may have been committed under an owner epoch or an earlier one.
func (p *progress) tried(owner, offset int64) bool {
	for t, n := range p.attempts {
		if n > 0 && t.offset == offset && t.epoch <= owner {
			return true
		}
	}
	return false
}

// give takes that a member was told, in an answer to something that it sent at a time, that the partition is its own.
func (p *progress) give(m *member, epoch, sent int64) {
	if other := p.owners[epoch]; other != nil && other != m {
		p.fail("%s and %s are told to own it under epoch %d", other.id, m.id, epoch)
	}
	p.owners[epoch] = m
	if p.toldTo != nil && p.toldTo != m && epoch < p.told && p.toldAt <= sent {
		p.fail("%s is given it under epoch %d after %s had it under %d", m.id, epoch, p.toldTo.id, p.told)
	}
	for _, other := range p.group.members {
		if held, ok := other.held[p]; ok && other != m && held < epoch && other.sure() {
			p.fail("%s is given it under epoch %d, and %s, which has it under %d, has not given it up", m.id, epoch, other.id, held)
		}
	}
	if epoch > p.told {
		p.told, p.toldTo, p.toldAt = epoch, m, p.group.world.clock.monotonic
	}
}

// excuse counts offsets as read that the group does not have to read.
func (p *progress) excuse(base, next int64) { p.cover(base, next) }

// cover counts offsets as read.
func (p *progress) cover(base, next int64) {
	if next <= base {
		return
	}
	i, _ := slices.BinarySearchFunc(p.read, base, func(s span, at int64) int {
		if s.next < at {
			return -1
		}
		return 1
	})
	k := i
	for k < len(p.read) && p.read[k].base <= next {
		base, next = min(base, p.read[k].base), max(next, p.read[k].next)
		k++
	}
	p.read = slices.Replace(p.read, i, k, span{base, next})
}

func (p *progress) covers(offset int64) bool {
	return slices.ContainsFunc(p.read, func(s span) bool { return s.base <= offset && offset < s.next })
}

// ended drops what an end of the process, or of the power, takes along.
func (g *groups) ended(survives int) {
	if g == nil {
		return
	}
	for _, c := range g.all {
		for _, p := range c.progress {
			p.facts = slices.DeleteFunc(p.facts, func(f fact) bool { return f.survives < survives })
		}
	}
}
