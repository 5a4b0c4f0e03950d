package main

import (
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// queueMember is a member of a queue group: it joins, leases from what it is given, and settles record by record, or
// does not. It may sleep for longer than its leases last, and go on as if nothing had happened.
type queueMember struct {
	world   *world
	group   *queueGroup
	peer    *peer
	id      string
	session int64
	pace    int64
	timeout int64 // of leases; 0 the topic's
	sleeps  int64 // until

	epoch    int64 // of the membership; 0 none
	joining  bool
	beating  bool
	nextBeat int64
	applied  int64
	given    []queueShareOf // as assigned

	name      uint64          // of the subscription; 0 none
	as        string          // the member\'s id when it was made
	changing  bool            // a LEASE is under way
	has       map[*plog]int64 // the owner epoch under which it leases
	lengths   map[*plog]int64 // how long its leases last; asked for with the partition
	creditMax int64
	granted   []grant
	credit    int64 // granted together
	got       int64 // records leased together

	work     []*delivery
	settling int
	leaving  bool
	gone     bool
	ticking  bool
}

// queueShareOf is a partition that the member may lease from.
type queueShareOf struct {
	topic  [16]byte
	number uint32
	epoch  int64
}

// grant is credit: the records up to a number may be leased since a time.
type grant struct {
	upTo, at int64
}

// length is how long leases last that the member asks for now.
func (m *queueMember) length(l *plog) int64 {
	if m.timeout > 0 {
		return m.timeout
	}
	return l.topic.queue.timeout
}

func (m *queueMember) tick() {
	if m.ticking || m.gone {
		return
	}
	m.ticking = true
	m.world.after(m.world.queues.between(m.pace/2, m.pace), func() {
		m.ticking = false
		m.run()
	})
}

// run does what is due.
func (m *queueMember) run() {
	defer m.tick()
	w := m.world
	if m.gone || !m.peer.open || w.clock.monotonic < m.sleeps {
		return
	}
	if m.epoch == 0 {
		switch {
		case m.joining:
		case m.leaving:
			m.vanish()
		case m.peer.room(512):
			m.join()
		}
		return
	}
	if m.leaving {
		m.sayGoodbye()
		return
	}
	if !m.beating && w.clock.monotonic >= m.nextBeat && m.peer.room(256) {
		m.beat()
	}
	m.subscribe()
	m.settle()
}

// cut is the loss of the connection: leases go back, and what is under way gets no answer.
func (m *queueMember) cut() {
	m.joining, m.beating, m.changing = false, false, false
	m.settling = 0
	m.forgetSubscription()
	r := m.world.queues.random
	late := slices.DeleteFunc(m.work, func(d *delivery) bool { return d.stand.log.topic.queue.relaxed }) // else it would mean a later delivery of the same number
	m.work = nil
	if len(late) > 0 && r.IntN(3) == 0 { // it does not know, and settles over the next connection
		m.work = late[:min(len(late), 5)]
	}
}

func (m *queueMember) forgetSubscription() {
	m.name, m.granted, m.credit, m.got = 0, nil, 0, 0
	clear(m.has)
	clear(m.lengths)
}

func (m *queueMember) join() {
	c := m.group
	m.joining = true
	request := &proto.JoinGroupRequest{
		Group: c.name, Kind: proto.GroupKindQueue, MemberID: m.id, ClientName: "sim",
		SessionTimeoutMs: uint32(m.session / 1e6), RebalanceTimeoutMs: uint32(m.session / 1e6), Topics: c.names,
	}
	m.peer.ask(request, func(answer proto.Message, e *proto.Error) {
		m.joining = false
		if m.gone {
			return
		}
		if answer == nil {
			if e != nil && !passing(e) {
				c.fail("%s may not join: %v", m.id, e)
			}
			return
		}
		r := answer.(*proto.JoinGroupResponse)
		m.world.counts.joins++
		c.made = true
		m.epoch, m.applied = r.MemberEpoch, -1
		m.told(&r.Assignment)
	})
}

func (m *queueMember) beat() {
	w, c := m.world, m.group
	m.beating = true
	epoch := m.epoch
	wait := w.queues.random.Int64N(m.session/3/1e6 + 1)
	m.peer.ask(&proto.HeartbeatRequest{Group: c.name, MemberID: m.id, MemberEpoch: epoch, Applied: m.applied, WaitMs: uint32(wait)}, func(answer proto.Message, e *proto.Error) {
		m.beating = false
		if m.gone || m.epoch != epoch {
			return
		}
		m.nextBeat = w.clock.monotonic + w.queues.between(0, min(m.session/5, 300e6))
		switch {
		case answer != nil:
			w.counts.beats++
			if a := answer.(*proto.HeartbeatResponse).Assignment; a != nil {
				m.told(a)
			}
		case e == nil:
		case e.Code == proto.CodeUnknownMember || e.Code == proto.CodeStaleEpoch || e.Code == proto.CodeUnknownGroup:
			m.epoch, m.applied = 0, -1
			m.id += "'"
			m.resubscribe()
			if len(m.id) > 50 {
				m.vanish()
			}
		case !passing(e):
			c.fail("%s is told %v", m.id, e)
		}
	})
}

// told takes an assignment.
func (m *queueMember) told(a *proto.GroupAssignment) {
	if a.Version < m.applied {
		return
	}
	m.applied, m.given = a.Version, nil
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			m.given = append(m.given, queueShareOf{t.TopicID, p.Partition, p.OwnerEpoch})
		}
	}
}

// resubscribe ends the subscription: its leases go back.
func (m *queueMember) resubscribe() {
	if m.name == 0 || m.changing || m.peer.wire == nil {
		return
	}
	for _, d := range m.work {
		d.void = true
	}
	m.changing = true
	m.peer.ask(&proto.LeaseRequest{Subscription: m.name, Close: true}, func(proto.Message, *proto.Error) { m.changing = false })
	m.forgetSubscription()
	m.work = m.work[:min(len(m.work), m.world.queues.random.IntN(3))] // it settles some all the same
}

// subscribe leases from what the member has been given, and gives credit.
func (m *queueMember) subscribe() {
	w := m.world
	if m.name != 0 && m.as != m.id {
		m.resubscribe()
	}
	if m.changing || m.name != 0 && !m.peer.room(1024) {
		return
	}
	request := &proto.LeaseRequest{Subscription: m.name, AckTimeoutMs: uint32(m.timeout / 1e6)}
	var adding []*plog
	wanted := map[*plog]bool{}
	for _, g := range m.given {
		l := w.logOf(g.topic, g.number)
		if l == nil || l.topic.deleting || l.topic.queue == nil || !l.topic.queue.ready {
			continue
		}
		wanted[l] = true
		if epoch, ok := m.has[l]; ok && epoch == g.epoch {
			continue
		} else if ok {
			request.Remove = append(request.Remove, proto.TopicPartition{TopicID: g.topic, Partition: g.number})
			delete(m.has, l)
			continue // it is added with the next one
		}
		start := max(0, l.logStart)
		request.Add = append(request.Add, proto.LeasePartition{TopicID: g.topic, Partition: g.number, LeaderEpoch: -1, OwnerEpoch: g.epoch, StartOffset: start})
		adding = append(adding, l)
		m.has[l], m.lengths[l] = g.epoch, m.length(l)
	}
	for _, t := range w.topics { // in an order that is the same each time
		for _, l := range t.logs {
			if _, ok := m.has[l]; ok && !wanted[l] {
				request.Remove = append(request.Remove, proto.TopicPartition{TopicID: l.topic.id, Partition: l.number})
				delete(m.has, l)
			}
		}
	}
	if left := m.credit - m.got; left <= m.creditMax/2 && m.creditMax > 0 && len(m.work) < 3*int(m.creditMax) {
		request.CreditRecords = uint32(m.creditMax - max(0, left))
	}
	if m.name == 0 && len(adding) == 0 || m.name != 0 && len(request.Add) == 0 && len(request.Remove) == 0 && request.CreditRecords == 0 || !m.peer.room(1024) {
		for _, l := range adding {
			delete(m.has, l)
		}
		return
	}
	if m.name == 0 {
		request.Group, request.MemberID, request.Remove = m.group.name, m.id, nil
	}
	for _, l := range adding {
		m.group.asked[l] = true
	}
	m.credit += int64(request.CreditRecords)
	m.granted = append(m.granted, grant{m.credit, w.clock.monotonic})
	m.changing = true
	first := m.name == 0
	name := m.peer.ask(request, func(answer proto.Message, e *proto.Error) {
		if answer == nil && e == nil {
			return
		}
		m.changing = false
		if e != nil {
			if !passing(e) && e.Code != proto.CodeUnknownSubscription {
				m.group.fail("%s is told %v of a LEASE", m.id, e)
			}
			m.resubscribe()
			m.forgetSubscription()
			return
		}
		for i := range answer.(*proto.LeaseResponse).Errors {
			m.notLeased(&answer.(*proto.LeaseResponse).Errors[i])
		}
	})
	if first {
		m.name, m.as = name, m.id
	}
}

// notLeased takes that a partition gives nothing, or no more.
func (m *queueMember) notLeased(r *proto.PartitionError) {
	m.lostPartition(r.TopicID, r.Partition, &r.Error)
}

func (m *queueMember) lostPartition(topic [16]byte, number uint32, e *proto.Error) {
	w := m.world
	l := w.logOf(topic, number)
	if l == nil {
		return
	}
	delete(m.has, l)
	w.note("queue partition lost", l.key(), int64(e.Code))
	switch e.Code {
	case proto.CodeOffsetOutOfRange:
		if e.Offsets == nil {
			l.fail("OFFSET_OUT_OF_RANGE of a LEASE does not say which there are: %v", e)
			return
		}
		l.bounds(e.Offsets.Earliest, -1, promises{})
		m.group.of(l).passed = max(m.group.of(l).passed, e.Offsets.Earliest)
	case proto.CodeUnknownTopic:
		if !l.topic.deleting {
			l.fail("the topic is not known any more: %v", e)
		}
	case proto.CodeStaleEpoch, proto.CodeUnknownGroup: // it was sought, or the group has gone; a heartbeat tells what to do
		m.nextBeat = 0
	case proto.CodeCorruptRecord:
		w.corrupt(l, e)
	case proto.CodeInvalidRequest, proto.CodeGroupKindMismatch:
		l.fail("%s is told %v of a LEASE", m.id, e)
	}
}

// leased takes a push.
func (m *queueMember) leased(id uint64, p *proto.LeasedPush) {
	w := m.world
	if id != m.name {
		return // of one that was left
	}
	l := w.logOf(p.TopicID, p.Partition)
	if p.Error != nil {
		w.sawError(m.peer, p.Error)
		m.lostPartition(p.TopicID, p.Partition, p.Error)
		return
	}
	if l == nil {
		m.group.fail("%s is pushed something of topic %x partition %d", m.id, p.TopicID, p.Partition)
		return
	}
	if len(p.Leases) == 0 {
		m.group.fail("%s is pushed no leases", m.id)
		return
	}
	w.note("leased", l.key(), int64(len(p.Leases)), p.Leases[0].BaseOffset, int64(p.Leases[0].Attempt))
	s := m.group.of(l)
	contents := l.contents(p.Batches)
	length := m.lengths[l]
	if int64(p.TimeoutMs)*1e6 > length {
		s.fail("%s has leases of %d ms, and asked for %d", m.id, p.TimeoutMs, length/1e6)
	}
	last := int64(-1)
	for _, r := range p.Leases {
		if r.BaseOffset < last || r.NextOffset <= r.BaseOffset {
			s.fail("%s is pushed ranges out of order: %v", m.id, p.Leases)
		}
		last = r.NextOffset
		for o := r.BaseOffset; o < r.NextOffset && w.failed == nil; o++ {
			if m.got++; m.got > m.credit {
				s.fail("%s is leased %d records with credit for %d", m.id, m.got, m.credit)
				return
			}
			content := contents.at(o)
			if content == nil {
				s.fail("%s is leased record %d without its batch", m.id, o)
				return
			}
			if d := s.delivered(m, o, content, r.Attempt, m.since(m.got), length); d != nil {
				w.counts.leased++
				m.work = append(m.work, d)
			}
		}
	}
	if l.topic.queue != nil && !l.topic.queue.relaxed && !l.topic.shaky() { // its delivery was counted behind it
		l.written(proto.DurabilitySync, last)
	}
}

// since is no later than when the n-th record was leased.
func (m *queueMember) since(n int64) int64 {
	for len(m.granted) > 1 && m.granted[0].upTo < n {
		m.granted = m.granted[1:]
	}
	return m.granted[0].at
}

// contents are batches that came with leases.
type contents []entry

// contents takes batches, which may have gaps between them.
func (p *plog) contents(b []byte) (list contents) {
	for last := int64(-1); len(b) > 0; {
		batch, rest, err := proto.NextBatch(b)
		if err != nil {
			p.fail("leased bytes are no batches: %v", err)
			return nil
		}
		b = rest
		a := p.recognise(batch)
		if a == nil || batch.BaseOffset() < last {
			p.fail("a leased batch at %d with %d bytes was never sent to this partition, or stands behind one at %d", batch.BaseOffset(), len(batch), last)
			return nil
		}
		last = batch.NextOffset()
		p.learn(batch.BaseOffset(), a, batch.LeaderEpoch())
		list = append(list, entry{base: batch.BaseOffset(), next: last, attempt: a})
	}
	return list
}

func (c contents) at(offset int64) *attempt {
	for i := range c {
		if c[i].base <= offset && offset < c[i].next {
			return c[i].attempt
		}
	}
	return nil
}

// poisoned says whether the group never acks a record.
func (c *queueGroup) poisoned(d *delivery) bool {
	rules := d.stand.log.topic.queue
	return (d.passage.offset+int64(d.stand.log.number))%c.poison == 0 && (rules.limit > 0 || !c.world.healed)
}

// decide chooses what becomes of a record; false: it is at work.
func (m *queueMember) decide(d *delivery) (proto.Settlement, int64, bool) {
	r := m.world.queues.random
	if m.group.poisoned(d) {
		if m.world.healed { // a full window would wait for all its deliveries
			return proto.SettlementReject, 0, true
		}
		if r.IntN(4) == 0 {
			return proto.SettlementNack, []int64{0, 0, 50e6, 300e6}[r.IntN(4)], true
		}
		return proto.SettlementNack, 0, r.IntN(3) == 0
	}
	if m.world.healed {
		return proto.SettlementAck, 0, true
	}
	switch roll := r.IntN(40); {
	case roll < 24:
		return proto.SettlementAck, 0, true
	case roll < 27:
		return proto.SettlementNack, []int64{0, 0, 50e6, 300e6}[r.IntN(4)], true
	case roll == 27:
		return proto.SettlementReject, 0, true
	case roll < 30:
		return proto.SettlementExtend, []int64{0, 100e6, 1e9}[r.IntN(3)], true
	case roll < 32:
		return proto.SettlementRelease, 0, true
	}
	return 0, 0, false
}

// settle tells what became of some records of one partition.
func (m *queueMember) settle() {
	if len(m.work) == 0 || m.settling > 2 || !m.peer.room(4096) {
		return
	}
	w := m.world
	s := m.work[w.queues.random.IntN(len(m.work))].stand
	if s.log.topic.deleting {
		m.work = slices.DeleteFunc(m.work, func(d *delivery) bool { return d.stand == s })
		return
	}
	var mine []*delivery
	for _, d := range m.work {
		if d.stand == s && len(mine) < 60 {
			mine = append(mine, d)
		}
	}
	slices.SortStableFunc(mine, func(a, b *delivery) int { return int(a.passage.offset - b.passage.offset) })
	request := &proto.SettleRequest{Group: m.group.name, MemberID: m.id, TopicID: s.log.topic.id, Partition: s.log.number}
	var outcomes []*settling
	done := map[*delivery]bool{}
	last := int64(-1)
	for _, d := range mine {
		settled, delay, decided := m.decide(d)
		if !decided || d.passage.offset < last {
			continue
		}
		last = d.passage.offset + 1
		n := len(outcomes)
		if n > 0 {
			o, r := outcomes[n-1], &request.Ranges[n-1]
			if r.NextOffset == d.passage.offset && r.Attempt == d.attempt && o.settled == settled && o.delay == delay {
				r.NextOffset++
				o.deliveries = append(o.deliveries, d)
				done[d] = settled != proto.SettlementExtend
				continue
			}
		}
		outcomes = append(outcomes, &settling{deliveries: []*delivery{d}, settled: settled, delay: delay, life: m.peer.node.life})
		request.Ranges = append(request.Ranges, proto.SettledRange{
			BaseOffset: d.passage.offset, NextOffset: d.passage.offset + 1, Attempt: d.attempt, Outcome: settled, DelayMs: uint32(delay / 1e6),
		})
		done[d] = settled != proto.SettlementExtend
	}
	if len(outcomes) == 0 {
		return
	}
	m.work = slices.DeleteFunc(m.work, func(d *delivery) bool { return done[d] })
	for _, o := range outcomes {
		o.sends(w.clock.monotonic)
	}
	m.settling++
	m.peer.ask(request, func(answer proto.Message, e *proto.Error) {
		if answer == nil {
			if e != nil {
				m.settling = max(0, m.settling-1)
				m.unsettled(s, e)
			}
			return
		}
		m.settling = max(0, m.settling-1)
		r := answer.(*proto.SettleResponse)
		if len(r.Ranges) != len(outcomes) {
			s.fail("%d ranges are answered with %d", len(outcomes), len(r.Ranges))
			return
		}
		for i := range r.Ranges {
			switch code := r.Ranges[i].Error.Code; code {
			case proto.CodeNone, proto.CodeLeaseLost:
				w.note("settled", s.log.key(), request.Ranges[i].BaseOffset, int64(outcomes[i].settled), int64(r.Ranges[i].Settled))
				w.counts.settled += int(r.Ranges[i].Settled)
				outcomes[i].answered(r.Ranges[i].Settled, code == proto.CodeLeaseLost)
			default:
				s.fail("a range of an outcome is told %v", &r.Ranges[i].Error)
			}
		}
	})
}

// unsettled takes that outcomes were refused as a whole.
func (m *queueMember) unsettled(s *stand, e *proto.Error) {
	switch {
	case passing(e) || e.Code == proto.CodeUnknownGroup || e.Code == proto.CodeStaleEpoch:
	case e.Code == proto.CodeUnknownTopic && s.log.topic.deleting:
	default:
		s.fail("an outcome is told %v", e)
	}
}

// calm ends what is not in order.
func (m *queueMember) calm() {
	m.session, m.pace, m.sleeps, m.timeout = 20e9, 10e6, 0, 2e9 // what it gets it settles in time
	m.creditMax = 40
	if m.peer.wire != nil {
		m.peer.wire.resume()
	}
}

// leave ends the membership in peace.
func (m *queueMember) leave() {
	m.leaving = true
	if m.epoch == 0 && !m.joining {
		m.vanish()
	}
}

func (m *queueMember) sayGoodbye() {
	if m.beating || !m.peer.room(256) {
		return
	}
	m.beating = true
	m.peer.ask(&proto.LeaveGroupRequest{Group: m.group.name, MemberID: m.id, MemberEpoch: m.epoch}, func(answer proto.Message, e *proto.Error) {
		m.beating = false
		if answer != nil || e != nil && !passing(e) {
			m.vanish()
		}
	})
}

// vanish is a process that ends without a word.
func (m *queueMember) vanish() {
	if m.gone {
		return
	}
	m.gone = true
	if i := slices.Index(m.group.members, m); i >= 0 {
		m.group.members = slices.Delete(m.group.members, i, i+1)
	}
	m.peer.close()
}
