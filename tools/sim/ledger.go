package main

import (
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// ledger is what the outside knows of every partition: what was acknowledged and what was shown, and what of it may
// never be lost. It knows nothing of the broker's inside.
type ledger struct {
	world *world
	logs  []*plog
	// incident counts the ends and faults after which a topic of a weaker durability may have lost something.
	incident int
}

// plog is one partition's log as the outside knows it.
type plog struct {
	world  *world
	topic  *topic
	number uint32
	sent   map[uint32][]*attempt // by the checksum of their records

	// entries are known contents in the order of their offsets. They do not overlap.
	entries []*entry
	// firmEnd: everything below it is durable and may not be lost whatever happens. writtenEnd: everything below it
	// survives the end of the process, not that of the power.
	firmEnd, writtenEnd int64
	// trimmedTo is the highest offset that a trim asked for; trimSafe that of one that was acknowledged.
	trimmedTo, trimSafe int64
	logStart            int64 // the highest shown since the last incident
	highWatermark       int64 // the highest shown in this life
	epoch               int32 // the highest shown
	crossings           []crossing

	reading *reading // the final one
}

// entry is a known content.
type entry struct {
	base, next int64
	attempt    *attempt
	epoch      int32 // -1: not known yet
	incident   int   // when it was learned
	again      bool  // acknowledged once more since it may have been lost: perhaps in a later epoch
	firm       bool  // was durable before the last incident
}

// crossing is a consumer that read on from one epoch into a later one.
type crossing struct {
	at       int64
	from, to int32
}

// find is the index of the first entry that ends behind an offset.
func (p *plog) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.entries, offset, func(e *entry, at int64) int {
		if e.next <= at {
			return -1
		}
		return 1
	})
	return i
}

func (p *plog) fail(format string, args ...any) {
	p.world.fail("topic %s partition %d: "+format, append([]any{p.topic.name, p.number}, args...)...)
}

// acked takes an acknowledgement.
func (p *plog) acked(a *attempt, m *proto.ProduceResponse) {
	w := p.world
	w.note("acked", p.key(), m.BaseOffset, a.number, int64(m.Durability))
	if a.refused {
		p.fail("%v was refused as not stored, and then acknowledged at %d", a, m.BaseOffset)
	}
	if a.acked && a.ackOffset != m.BaseOffset {
		p.fail("%v was acknowledged at %d and then at %d", a, a.ackOffset, m.BaseOffset)
	}
	if m.Duplicate && a.sends < 2 {
		p.fail("%v was sent once and acknowledged as a duplicate at %d", a, m.BaseOffset)
	}
	a.acked, a.ackOffset, a.durability = true, m.BaseOffset, m.Durability
	w.counts.acks++
	p.learn(m.BaseOffset, a, -1)
	next := m.BaseOffset + a.span
	p.written(m.Durability, next)
}

func (p *plog) written(level proto.Durability, next int64) {
	if level >= proto.DurabilityBatch {
		p.writtenEnd = max(p.writtenEnd, next)
	}
	if level >= proto.DurabilitySync {
		p.firmEnd = max(p.firmEnd, next)
	}
}

// learn puts a content at its place, or finds that another is there.
func (p *plog) learn(base int64, a *attempt, epoch int32) {
	next := base + a.span
	l := p.world.ledger
	// An earlier epoch may not reappear where a later one has begun.
	i := p.find(base)
	if i < len(p.entries) {
		if e := p.entries[i]; e.base == base && e.attempt == a {
			switch {
			case e.epoch == -1:
				e.epoch = epoch
			case epoch == -1:
				e.again = e.again || e.incident != l.incident && !p.isFirm(e)
			case epoch == e.epoch:
			case p.isFirm(e) && !e.again || epoch < e.epoch || e.incident == l.incident && !e.again && !p.topic.shaky():
				p.fail("%v at %d has epoch %d and had %d", a, base, epoch, e.epoch)
			default: // lost, sent again, and stored at the same place
				e.epoch, e.again = epoch, false
			}
			e.incident = l.incident
			return
		}
		if e := p.entries[i]; e.base < next {
			// Another content. That is right only where what was there has been lost.
			// What a weaker topic lost may have been stored anew by batches of which only later ones are known to be durable.
			weak := p.topic.wasWeak && p.topic.shaky() && (!e.attempt.acked || e.attempt.durability < proto.DurabilitySync)
			if p.isFirm(e) && !weak {
				p.fail("offset %d holds %v and held %v, below %d which is durable", base, a, e.attempt, p.firmEnd)
				return
			}
			if e.incident == l.incident && !p.topic.shaky() {
				p.fail("offset %d holds %v and held %v, and nothing has happened since that could have lost it", base, a, e.attempt)
				return
			}
			if e.epoch != -1 && epoch != -1 && epoch < e.epoch && p.topic.shaky() {
				return // a log that was rolled back ends no connection, so what was sent before may come late
			}
			if e.epoch != -1 && epoch != -1 && epoch <= e.epoch {
				p.fail("offset %d is used again for %v in epoch %d; %v had it in epoch %d", base, a, epoch, e.attempt, e.epoch)
				return
			}
		}
		// What is lost is a suffix: everything from here on that is older.
		kept := p.entries[:i]
		for _, e := range p.entries[i:] {
			if e.base >= next && (e.incident == l.incident || e.epoch != -1 && epoch != -1 && e.epoch >= epoch) {
				kept = append(kept, e) // learned since, or of the same time
			}
		}
		clear(p.entries[len(kept):])
		p.entries = kept
		i = p.find(base)
	}
	p.entries = slices.Insert(p.entries, i, &entry{base: base, next: next, attempt: a, epoch: epoch, incident: l.incident})
}

// isFirm says whether a known content may never be lost. On a weaker topic it may have been lost before what made the
// offsets below firmEnd durable: then another content is durable at its place, which nobody outside has heard of yet.
func (p *plog) isFirm(e *entry) bool {
	return e.base < p.firmEnd && (e.firm || !p.topic.wasWeak || e.incident == p.world.ledger.incident)
}

// begin begins the time after an end or a fault: what is durable by then stays.
func (l *ledger) begin() {
	for _, p := range l.logs {
		for _, e := range p.entries {
			e.firm = p.isFirm(e)
		}
	}
	l.incident++
}

// shown takes batches that a consumer was given, who asked from an offset and has read lastEpoch. It returns where the
// next read goes on, and the epoch of the last batch.
func (p *plog) shown(b []byte, from int64, lastEpoch int32, highWatermark int64, r *reading) (int64, int32) {
	w := p.world
	at := from
	firm := p.topic.firm()
	for first := true; len(b) > 0; first = false {
		batch, rest, err := proto.NextBatch(b)
		if err != nil {
			p.fail("fetched bytes are no batches: %v", err)
			return at, lastEpoch
		}
		b = rest
		a := p.recognise(batch)
		if a == nil {
			p.fail("a batch at %d with %d bytes was never sent to this partition", batch.BaseOffset(), len(batch))
			return at, lastEpoch
		}
		base, next := batch.BaseOffset(), batch.NextOffset()
		if base > at || next <= at || !first && base != at {
			p.fail("asked for %d and was given [%d, %d)", at, base, next)
			return at, lastEpoch
		}
		if highWatermark >= 0 && next > highWatermark {
			p.fail("was shown [%d, %d) above the high watermark %d", base, next, highWatermark)
		}
		epoch := batch.LeaderEpoch()
		if epoch < lastEpoch {
			p.fail("the batch at %d has epoch %d behind one of epoch %d", base, epoch, lastEpoch)
		}
		if lastEpoch >= 0 && epoch > lastEpoch {
			p.crossings = append(p.crossings, crossing{at, lastEpoch, epoch})
		}
		if lastEpoch != epoch {
			w.note("epoch", p.key(), base, int64(epoch), int64(lastEpoch))
		}
		lastEpoch = epoch
		p.epoch = max(p.epoch, epoch)
		p.learn(base, a, epoch)
		w.counts.shown++
		if r != nil {
			r.saw(base, a)
		}
		at = next
		if w.failed != nil {
			return at, lastEpoch
		}
	}
	if firm {
		p.written(proto.DurabilitySync, at)
	}
	return at, lastEpoch
}

func (p *plog) recognise(b proto.Batch) *attempt {
	if len(b) < proto.BatchHeaderBytes {
		return nil
	}
	for _, a := range p.sent[proto.CRC(b.Records())] {
		if a.same(b) {
			return a
		}
	}
	return nil
}

// promises is what was promised of a log when a question was asked: what the answer must be up to.
type promises struct{ firmEnd, trimSafe int64 }

func (p *plog) promised() promises { return promises{p.firmEnd, p.trimSafe} }

// keptOf is up to where everything below an offset is known to be durable as a reader of an epoch has read it. What a
// weaker topic lost has been written anew, in a later epoch, and that may be durable while nobody outside knows more
// of its place than what was lost.
func (p *plog) keptOf(epoch int32, firm int64) int64 {
	if !p.topic.wasWeak {
		return firm
	}
	for _, e := range p.entries {
		if e.epoch == -1 || e.epoch > epoch || e.again || !p.isFirm(e) {
			return min(firm, e.base)
		}
	}
	return firm
}

// bounds takes the offsets that an answer named; -1 is none.
func (p *plog) bounds(logStart, highWatermark int64, then promises) {
	if logStart > p.trimmedTo && !p.topic.forgets {
		p.fail("the log starts at %d; trims asked for %d at most and nothing else may remove records", logStart, p.trimmedTo)
	}
	if logStart >= 0 && logStart < then.trimSafe {
		p.fail("the log starts at %d, and a trim to %d was acknowledged", logStart, then.trimSafe)
	}
	if highWatermark >= 0 && highWatermark < then.firmEnd {
		p.fail("the high watermark is %d, and everything up to %d is durable", highWatermark, then.firmEnd)
	}
	p.logStart = max(p.logStart, logStart)
	p.highWatermark = max(p.highWatermark, highWatermark)
}

// processEnded, powerCut, diskFailed and stoppedClean are what may have lost something, or kept all.
func (l *ledger) processEnded() {
	l.begin()
	l.world.groups.ended(1)
	for _, p := range l.logs {
		p.highWatermark = max(p.firmEnd, p.writtenEnd)
	}
}

func (l *ledger) powerCut() {
	l.begin()
	l.world.groups.ended(2)
	for _, p := range l.logs {
		p.writtenEnd, p.highWatermark = p.firmEnd, p.firmEnd
	}
}

func (l *ledger) diskFailed() { l.powerCut() }

func (l *ledger) stoppedClean() {
	for _, p := range l.logs {
		if p.topic.shaky() {
			continue // what is known may have been lost before
		}
		for _, e := range slices.Backward(p.entries) {
			if e.incident == l.incident {
				p.firmEnd = max(p.firmEnd, e.next)
				p.writtenEnd = max(p.writtenEnd, p.firmEnd)
				break
			}
		}
	}
}

func (l *ledger) started(*node) {}

// key names a log in a trace.
func (p *plog) key() int64 { return int64(p.topic.number)<<16 | int64(p.number) }
