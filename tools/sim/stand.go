package main

import (
	"math"

	"github.com/pulsemq/pulsemq/proto"
)

// stand is what the outside knows of how a queue group stands in a partition. Attempts order the deliveries of a record,
// and lives those that a crash of the node has parted; times are needed only where somebody certainly has a lease.
type stand struct {
	group   *queueGroup
	log     *plog
	records map[int64]*passage
	low     int64 // the highest that was told

	// since: what was granted or sent before does not count. A seek, or the end of the group, begins all anew, and
	// while one is in the air nothing counts.
	since  int64
	eras   int   // how often that happened
	passed int64 // everything below may have been passed over by a seek
}

// passage is what became of one record.
type passage struct {
	offset     int64
	content    *attempt // the batch that it came in
	deliveries []*delivery

	acks, rejects int // that were sent, and not refused
	ended         bool
	endAttempt    uint32 // in which it ended
	endLife       int
	ackedBy       *delivery
	nackAttempt   uint32 // of the last NACK that was answered
	notBefore     int64  // what comes after it, comes then
	letters       int    // dead letters of it that were found
}

// delivery is a record that a member was sent.
type delivery struct {
	member    *queueMember
	stand     *stand
	passage   *passage
	attempt   uint32
	from      int64 // it was leased no sooner
	arrived   int64
	length    int64 // of the lease
	until     int64 // it lasts at least so long, while the connection does
	wire      *wire
	id        string    // under which the member leased it
	life      int       // of the node that sent it
	told      bool      // an outcome was sent
	extension *settling // the last one that was sent
	release   bool      // and that was to take the delivery back
	void      bool      // a lease that this is not: it came late, or is over
}

func (s *stand) fail(format string, args ...any) {
	s.log.fail("queue group %s: "+format, append([]any{s.group.name}, args...)...)
}

// doubt begins a time in which nothing counts, until trust. What was known is forgotten.
func (s *stand) doubt() {
	s.eras++
	s.since = math.MaxInt64
	s.low = -1
	for _, p := range s.records { // that it was acked stays an answer to who asks what became of it
		p.ended, p.ackedBy, p.nackAttempt, p.notBefore = false, nil, 0, 0
		for _, d := range p.deliveries {
			d.void = true
		}
		p.deliveries = nil
	}
}

// trust ends it: what is granted or sent from now on counts.
func (s *stand) trust() { s.since = s.group.world.clock.monotonic }

// sure says whether the broker certainly knows of the lease at this moment, and of no outcome.
func (d *delivery) sure() bool { return !d.told && d.lasts() }

// lasts says whether the lease is certainly not over, but for an outcome that was sent.
func (d *delivery) lasts() bool {
	w, l, n := d.stand.group.world, d.stand.log, d.member.peer.node
	return !d.void && d.from > d.stand.since && w.clock.monotonic < d.until && d.id == d.member.id && d.wire != nil && d.wire == d.member.peer.wire && !d.wire.closed && !d.wire.upEnded &&
		d.life == n.life && n.state == nodeUp && (w.healed || !l.topic.shaky()) && !l.topic.deleting && d.passage.offset >= l.trimmedTo && !l.topic.forgets
}

// of is the passage of a record. What stands at its offset may have been lost, and be another record now.
func (s *stand) of(offset int64, content *attempt) *passage {
	p := s.records[offset]
	if p == nil || p.content != content && content != nil && p.content != nil {
		p = &passage{offset: offset}
		s.records[offset] = p
	}
	if content != nil {
		p.content = content
	}
	return p
}

// delivered takes a record that a member was sent. It is nil when nothing can be said of it.
func (s *stand) delivered(m *queueMember, offset int64, content *attempt, attempt uint32, from, length int64) *delivery {
	now := s.group.world.clock.monotonic
	rules := s.log.topic.queue
	if attempt < 1 || rules.limit > 0 && attempt > rules.limit {
		s.fail("record %d is delivered for the %d. time, and %d times are allowed", offset, attempt, rules.limit)
		return nil
	}
	p := s.of(offset, content)
	d := &delivery{member: m, stand: s, passage: p, attempt: attempt, from: from, arrived: now, length: length, until: from + length, wire: m.peer.wire, id: m.as}
	if d.wire != nil {
		d.life = d.wire.life
	}
	if from <= s.since { // it may be of the time before a seek
		return d
	}
	if p.ended && d.after(p.endAttempt, p.endLife) {
		what := "its end was acknowledged"
		if p.ackedBy != nil {
			what = p.ackedBy.member.id + " has acked it"
		}
		s.fail("record %d is delivered to %s in attempt %d, and %s in attempt %d", offset, m.id, attempt, what, p.endAttempt)
		return d
	}
	if attempt > p.nackAttempt && now < p.notBefore && !s.group.world.plan.clockJumps {
		s.fail("record %d is delivered to %s in attempt %d %d us before its delay is over", offset, m.id, attempt, (p.notBefore-now)/1000)
		return d
	}
	again, released := 0, 0
	for _, o := range p.deliveries {
		if o.attempt == attempt && (!rules.relaxed || o.life == d.life) {
			again++
			if o.release {
				released++
			}
		}
		switch {
		case !d.after(o.attempt, o.life): // this one comes late
			d.void = true
		case o.sure():
			s.fail("record %d is delivered to %s in attempt %d, and %s has had it in attempt %d since %d us and for %d more", offset, m.id, attempt, o.member.id, o.attempt, (now-o.arrived)/1000, (o.until-now)/1000)
			return d
		default:
			o.void = true
		}
	}
	if again > released {
		s.fail("record %d is delivered to %s in attempt %d, which it has had", offset, m.id, attempt)
	}
	p.deliveries = append(p.deliveries, d)
	return d
}

// after says whether a delivery was granted behind one of that attempt and life.
func (d *delivery) after(attempt uint32, life int) bool {
	return d.life > life || d.life == life && d.attempt >= attempt
}

// settling is one range of a SETTLE that was sent.
type settling struct {
	deliveries []*delivery // of the records of the range, in their order
	settled    proto.Settlement
	delay      int64 // nanoseconds
	sent       int64
	life       int    // of the node that it was sent to
	sure       []bool // when it was sent: whether the broker certainly knew of the lease
}

// sends notes an outcome on its way.
func (o *settling) sends(now int64) {
	o.sent = now
	for _, d := range o.deliveries {
		o.sure = append(o.sure, d.sure())
		switch o.settled {
		case proto.SettlementAck:
			d.passage.acks++
		case proto.SettlementReject:
			d.passage.rejects++
		case proto.SettlementRelease:
			d.release = true
		case proto.SettlementExtend:
			d.until, d.extension = min(d.until, now+o.length(d)), o // it may be a shorter one
			continue
		}
		d.told = true
	}
}

// length is what an EXTEND makes of a lease.
func (o *settling) length(d *delivery) int64 {
	if o.delay > 0 {
		return o.delay
	}
	return d.length
}

// answered takes what the broker says of it: all of it took effect, or none, or it cannot be told which.
func (o *settling) answered(records uint32, lost bool) {
	if int(records) > len(o.deliveries) || lost == (int(records) == len(o.deliveries)) {
		o.deliveries[0].stand.fail("an outcome for %d records is answered with %d that took effect, lost %v", len(o.deliveries), records, lost)
		return
	}
	for i, d := range o.deliveries {
		switch {
		case !lost:
			o.took(d)
		case records == 0:
			o.refused(d, o.sure[i])
		}
	}
}

// took takes that an outcome took effect for a record.
func (o *settling) took(d *delivery) {
	s, p := d.stand, d.passage
	if d.from <= s.since || o.sent <= s.since {
		return
	}
	rules := s.log.topic.queue
	if !rules.relaxed && d.life < o.life {
		s.fail("record %d is settled by %s although the process that leased it has ended", p.offset, d.member.id)
	}
	for _, other := range p.deliveries {
		if other.life == d.life && other.attempt > d.attempt && other.arrived < o.sent {
			s.fail("record %d is settled by %s in attempt %d, and %s had got it in attempt %d before", p.offset, d.member.id, d.attempt, other.member.id, other.attempt)
		}
	}
	ends := o.settled == proto.SettlementAck || o.settled == proto.SettlementReject || o.settled == proto.SettlementNack && rules.limit > 0 && d.attempt >= rules.limit
	if p.ended && (ends || d.life == p.endLife && d.attempt > p.endAttempt || d.life > p.endLife) {
		s.fail("%v by %s in attempt %d takes effect for record %d, which had ended in attempt %d", o.settled, d.member.id, d.attempt, p.offset, p.endAttempt)
	}
	switch o.settled {
	case proto.SettlementAck:
		p.ackedBy = d
	case proto.SettlementNack:
		p.nackAttempt = max(p.nackAttempt, d.attempt)
		p.notBefore = max(p.notBefore, o.sent+o.delay)
	case proto.SettlementExtend:
		if d.extension == o { // else a later one says how long it lasts
			d.until = max(d.until, o.sent+o.length(d))
		}
	}
	if ends {
		p.ended, p.endAttempt, p.endLife = true, d.attempt, d.life
	}
}

// refused takes that the lease was not the member's any more.
func (o *settling) refused(d *delivery, sure bool) {
	s, p := d.stand, d.passage
	switch o.settled {
	case proto.SettlementAck:
		p.acks--
	case proto.SettlementReject:
		p.rejects--
	}
	if sure && d.lasts() {
		s.fail("%s has lost its lease of record %d in attempt %d, which lasts for %d us more", d.member.id, p.offset, d.attempt, (d.until-s.group.world.clock.monotonic)/1000)
	}
	d.void = true
}

// standing is what was known when a question was asked.
type standing struct {
	low  int64
	eras int
	logs promises
}

func (s *stand) standing() standing { return standing{s.low, s.eras, s.log.promised()} }

// observeLow takes a low offset that an answer told.
func (s *stand) observeLow(low int64, then standing) {
	if s.eras != then.eras || s.since == math.MaxInt64 {
		return
	}
	if low < then.low {
		s.fail("the low offset is %d and was %d", low, then.low)
	}
	for o := max(then.low, s.log.logStart, 0); o < low; o++ {
		p := s.records[o]
		if p == nil {
			continue
		}
		for _, d := range p.deliveries {
			if d.sure() {
				s.fail("the low offset is %d, and %s has record %d", low, d.member.id, o)
			}
		}
	}
	s.low = max(s.low, low)
}

// described takes a description.
func (s *stand) described(r *proto.QueuePartition, then standing) {
	s.log.bounds(-1, r.HighWatermark, then.logs)
	if r.HighOffset < r.LowOffset || r.WindowRecords != uint64(r.HighOffset-r.LowOffset) || r.Leased+r.Delayed+r.Dying+r.Dead > r.WindowRecords {
		s.fail("it is described with a window from %d to %d of %d records: %d leased, %d delayed, %d dying, %d dead", r.LowOffset, r.HighOffset, r.WindowRecords, r.Leased, r.Delayed, r.Dying, r.Dead)
	}
	if r.WindowRecords > uint64(s.log.topic.queue.window) {
		s.fail("a window of %d records is open, and allowed are %d", r.WindowRecords, s.log.topic.queue.window)
	}
	for i := range r.Blockers {
		if b := &r.Blockers[i]; i == 0 && b.Offset != r.LowOffset || b.Offset < r.LowOffset || b.Offset >= r.HighOffset {
			s.fail("record %d is said to hold the low offset %d", b.Offset, r.LowOffset)
		}
	}
	s.observeLow(r.LowOffset, then)
}

// audit holds the group to what became of each record of a topic that never loses any: somebody acked it, or it is a
// dead letter, once, or was a dead record that was taken out.
func (s *stand) audit() {
	l := s.log
	if l.reading == nil {
		return
	}
	for i, base := range l.reading.bases {
		for o := base; o < base+l.reading.attempts[i].span; o++ {
			if o < s.passed || o < l.trimmedTo || o < l.reading.start {
				continue
			}
			p := s.records[o]
			switch {
			case l.topic.hasNamesake() && l.topic.queue.letters && (p == nil || p.acks == 0): // letters of the two are not told apart
			case p == nil:
				s.fail("record %d has never been delivered", o)
			case p.letters > 1 && s.eras == 0 && l.topic.queue.letters:
				s.fail("record %d is %d dead letters", o, p.letters)
			case p.letters > 0 && p.ackedBy != nil && s.eras == 0:
				s.fail("record %d is a dead letter, and %s has acked it", o, p.ackedBy.member.id)
			case p.letters == 0 && p.acks == 0:
				s.fail("record %d is settled, and nobody has acked it, and it is no dead letter", o)
			}
			if l.world.failed != nil {
				return
			}
		}
	}
}
