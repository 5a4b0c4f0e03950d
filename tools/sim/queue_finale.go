package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
)

// calm ends what members do that is not in order.
func (q *queues) calm() {
	if q == nil {
		return
	}
	for _, c := range q.all {
		for _, m := range c.members {
			m.calm()
			m.resubscribe() // what it asks for from here on lasts
		}
	}
}

// finale holds queue groups to settling every record, once.
func (q *queues) finale() {
	if q == nil || q.world.failed != nil {
		return
	}
	w := q.world
	for _, c := range q.all {
		if len(c.members) == 0 && !c.rests {
			c.spawn()
		}
	}
	q.calm()
	if !q.drain() {
		return
	}
	// What is settled stays so.
	n := w.nodes[0]
	if q.random.IntN(2) == 0 {
		n.kill()
	} else {
		n.powerCut()
	}
	if !w.until(w.clock.monotonic+healTime, func() bool { return n.state == nodeUp }) {
		w.fail("the node does not serve %d seconds after it was killed", healTime/1e9)
		return
	}
	if !q.drain() || !q.readLetters() {
		return
	}
	for _, c := range q.all {
		for _, s := range c.stands {
			if t := s.log.topic; !t.wasWeak && !t.forgets && !t.deleting && slices.Contains(c.wanted(), s.log) {
				s.audit()
			}
		}
	}
}

// windowTime is how long the records of a full window may take, from their leases until the dead ones among them are
// taken out.
const windowTime = int64(500e6)

// patience is how long the group may take: through a window of a few records it goes a few at a time.
func (c *queueGroup) patience() int64 {
	wait := healTime
	for _, l := range c.wanted() {
		if l.reading != nil {
			wait += max(0, l.reading.end-max(0, c.of(l).low)) / int64(l.topic.queue.window) * windowTime
		}
	}
	return wait
}

// drain waits until there is nothing to say against any group.
func (q *queues) drain() bool {
	w := q.world
	patience := healTime
	for _, c := range q.all {
		c.problem = "not looked at yet"
		c.look()
		patience = max(patience, c.patience())
	}
	for by := w.clock.monotonic + patience; w.failed == nil; {
		w.until(w.clock.monotonic+50e6, nil)
		i := slices.IndexFunc(q.all, func(c *queueGroup) bool { return c.problem != "" })
		if i < 0 {
			return w.failed == nil
		}
		if w.clock.monotonic > by {
			q.all[i].fail("is not done %d seconds after the last fault: %s", patience/1e9, q.all[i].problem)
		}
	}
	return false
}

// look finds what is to be said against the group, until there is nothing.
func (c *queueGroup) look() {
	w := c.world
	again := func(problem string) {
		c.problem = problem
		w.after(30e6, c.look)
	}
	switch {
	case c.rests:
		again("it is being deleted")
		return
	case len(c.members) == 0:
		c.spawn()
		again("nobody has joined yet")
		return
	case len(c.wanted()) == 0:
		c.problem = ""
		return
	}
	c.describe(func(logs []*plog, items []proto.QueuePartition) {
		if items == nil {
			again("it cannot be described")
			return
		}
		for i := range items {
			if problem := c.undone(logs[i], &items[i]); problem != "" {
				again(problem)
				return
			}
		}
		c.problem = ""
	})
}

// undone says what is left to do in a partition, and has dead records taken out.
func (c *queueGroup) undone(l *plog, r *proto.QueuePartition) string {
	where := fmt.Sprintf("partition %d of %s", l.number, l.topic.name)
	switch {
	case r.Error.Failed():
		return where + ": " + r.Error.Error()
	case r.Dead > 0 && l.topic.queue.letters && !(l.world.plan.diskFaults && r.Blockers[0].Reason == "damaged"): // which a failed read was taken for
		return fmt.Sprintf("%s has %d dead records although there is a topic for them: %+v", where, r.Dead, r.Blockers)
	case r.Dead > 0:
		c.discard(l, r)
		return fmt.Sprintf("%s has %d dead records", where, r.Dead)
	case r.LowOffset != r.HighWatermark:
		return fmt.Sprintf("%s is settled up to %d of %d: %d available, %d leased, %d delayed, %d dying; %+v", where, r.LowOffset, r.HighWatermark, r.Available, r.Leased, r.Delayed, r.Dying, r.Blockers)
	}
	return ""
}

// discard takes dead records out.
func (c *queueGroup) discard(l *plog, r *proto.QueuePartition) {
	request := &proto.SettleRequest{Group: c.name, TopicID: l.topic.id, Partition: l.number}
	for i := range r.Blockers {
		if b := &r.Blockers[i]; b.State == proto.QueueRecordStateDead {
			request.Ranges = append(request.Ranges, proto.SettledRange{BaseOffset: b.Offset, NextOffset: b.Offset + 1, Outcome: proto.SettlementDiscard})
			c.of(l).of(b.Offset, nil).letters = 1
		}
	}
	if len(request.Ranges) == 0 {
		return
	}
	c.request(request, func(m proto.Message, e *proto.Error) {
		if e != nil && !passing(e) {
			c.of(l).fail("dead records are not taken out: %v", e)
		}
	})
}

// readLetters reads the topic of dead letters and holds each to where it comes from.
func (q *queues) readLetters() bool {
	w := q.world
	reader := w.peer("letters", w.nodes[0])
	left := len(q.letters.logs)
	for _, l := range q.letters.logs {
		q.readLetter(reader, l, 0, func() { left-- })
	}
	reader.connect(0)
	if !w.until(w.clock.monotonic+readTime, func() bool { return left == 0 }) && w.failed == nil {
		w.fail("the topic of dead letters cannot be read in %d seconds", readTime/1e9)
	}
	return w.failed == nil
}

// readLetter goes on at an offset.
func (q *queues) readLetter(p *peer, l *plog, at int64, done func()) {
	w := q.world
	again := func(at int64) { w.after(10e6, func() { q.readLetter(p, l, at, done) }) }
	if !p.room(64) {
		again(at)
		return
	}
	p.ask(&proto.FetchRequest{TopicID: l.topic.id, Partition: l.number, LeaderEpoch: -1, Offset: at, LastEpoch: -1, MaxBytes: 512 << 10}, func(m proto.Message, e *proto.Error) {
		r, ok := m.(*proto.FetchResponse)
		if !ok {
			again(at)
			return
		}
		for b := r.Batches; len(b) > 0 && w.failed == nil; {
			batch, rest, err := proto.NextBatch(b)
			if err != nil {
				w.fail("dead letters are no batches: %v", err)
				return
			}
			b = rest
			at = batch.NextOffset()
			q.letterBatch(l, batch)
		}
		switch {
		case r.More:
		case at >= r.LogEndOffset:
			done()
		default:
			again(at)
		}
	})
}

func (q *queues) letterBatch(l *plog, batch proto.Batch) {
	w := q.world
	var it proto.RecordIterator
	if err := it.Reset(batch, 64<<20); err != nil {
		w.fail("dead letters at %d cannot be opened: %v", batch.BaseOffset(), err)
		return
	}
	for it.Next() {
		r := it.Record()
		from, err := deadletter.ParseProvenance(r.Headers)
		if err != nil {
			w.fail("dead letter %d has no provenance: %v", r.Offset, err)
			return
		}
		w.counts.letters++
		q.letter(l, r, &from)
	}
	if err := it.Err(); err != nil {
		w.fail("dead letters at %d cannot be opened: %v", batch.BaseOffset(), err)
	}
}

// letter counts a dead letter of a record, and compares the two.
func (q *queues) letter(l *plog, r *proto.Record, from *deadletter.Provenance) {
	w := q.world
	g := slices.IndexFunc(q.all, func(c *queueGroup) bool { return c.name == from.Group })
	if g < 0 {
		w.fail("dead letter %d is of group %q, which there is not", r.Offset, from.Group)
		return
	}
	var s *stand
	topics := 0
	c := q.all[g]
	for _, t := range w.topics {
		if t.name == from.Topic && int(from.Partition) < len(t.logs) && c.asked[t.logs[from.Partition]] {
			s = c.of(t.logs[from.Partition])
			topics++
		}
	}
	if topics == 0 {
		w.fail("dead letter %d is of partition %d of %s, which group %s has not leased from", r.Offset, from.Partition, from.Topic, from.Group)
		return
	}
	if topics > 1 || s.log.topic.hasNamesake() || s.log.topic.deleting {
		return // of two topics that have had the name
	}
	if want := s.log.number % uint32(len(q.letters.logs)); l.number != want {
		s.fail("dead letter of record %d lies in partition %d, and belongs into %d", from.Offset, l.number, want)
	}
	p := s.of(from.Offset, nil)
	p.letters++
	rules := s.log.topic.queue
	switch {
	case s.eras > 0:
	case from.Reason == "rejected" && p.rejects == 0:
		s.fail("record %d is a dead letter because it was rejected, and nobody has rejected it", from.Offset)
	case from.Reason != "rejected" && from.Reason != "damaged" && (rules.limit == 0 || from.Attempts < rules.limit):
		s.fail("record %d is a dead letter (%s) after %d attempts, and %d are allowed", from.Offset, from.Reason, from.Attempts, rules.limit)
	}
	if p.content == nil || s.log.topic.wasWeak {
		return
	}
	var it proto.RecordIterator
	base := int64(-1)
	for _, e := range s.log.entries {
		if e.attempt == p.content {
			base = e.base
		}
	}
	if base < 0 || it.Reset(p.content.batch, 64<<20) != nil {
		return
	}
	for n := base; it.Next(); n++ {
		if o := it.Record(); n == from.Offset && (!bytes.Equal(o.Key, r.Key) || !bytes.Equal(o.Value, r.Value)) {
			s.fail("dead letter of record %d has another key or value", from.Offset)
		}
	}
}
