package main

import (
	"math"
	"testing"

	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
)

// standRig is a queue group and its members, without a broker.
type standRig struct {
	world   *world
	stand   *stand
	members []*queueMember
	content *attempt
}

func newStandRig(rules queueRules) *standRig {
	w, l := ledgerOf(proto.DurabilitySync)
	l.topic.queue, l.topic.made = &rules, true
	w.nodes[0].state, w.nodes[0].life = nodeUp, 1
	c := &queueGroup{world: w, name: "q", byLog: map[*plog]*stand{}}
	w.groups = nil
	w.plan.clockJumps = false
	r := &standRig{world: w, stand: c.of(l), content: &attempt{log: l, number: 1, span: 10}}
	for _, id := range []string{"a", "b"} {
		m := &queueMember{world: w, group: c, id: id, as: id, peer: &peer{world: w, node: w.nodes[0]}}
		r.members = append(r.members, m)
		r.dial(m)
	}
	return r
}

func (r *standRig) dial(m *queueMember) {
	m.peer.wire = &wire{world: r.world, node: r.world.nodes[0], life: r.world.nodes[0].life}
}

func (r *standRig) wait(nanos int64) { r.world.clock.monotonic += nanos }

// restart ends the process and begins another.
func (r *standRig) restart() {
	r.wait(1e6)
	r.world.nodes[0].life++
	for _, m := range r.members {
		r.dial(m)
	}
}

// gets is a delivery of record 3 with a lease of a second, just granted.
func (r *standRig) gets(member int, attempt uint32) *delivery {
	r.wait(1e6)
	now := r.world.clock.monotonic
	return r.stand.delivered(r.members[member], 3, r.content, attempt, now, 1e9)
}

// sends is an outcome on its way.
func (r *standRig) sends(d *delivery, settled proto.Settlement, delay int64) *settling {
	r.wait(1e6)
	o := &settling{deliveries: []*delivery{d}, settled: settled, delay: delay, life: r.world.nodes[0].life}
	o.sends(r.world.clock.monotonic)
	r.wait(1e6)
	return o
}

// settles is an outcome that takes effect.
func (r *standRig) settles(d *delivery, settled proto.Settlement, delay int64) {
	r.sends(d, settled, delay).answered(1, false)
}

const (
	ack     = proto.SettlementAck
	nack    = proto.SettlementNack
	reject  = proto.SettlementReject
	extend  = proto.SettlementExtend
	release = proto.SettlementRelease
)

// Each rule of a stand bites, and lets what is right go by.
func TestStand(t *testing.T) {
	const second = int64(1e9)
	for name, c := range map[string]struct {
		right bool
		rules queueRules
		do    func(r *standRig)
	}{
		"delivered, acked":                  {true, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0) }},
		"delivered again after its ack":     {false, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0); r.gets(1, 2) }},
		"again after its ack and a restart": {false, queueRules{limit: 3, relaxed: true}, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0); r.restart(); r.gets(1, 1) }},
		"again after its rejection":         {false, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), reject, 0); r.gets(1, 2) }},
		"again after its last nack":         {false, queueRules{limit: 2}, func(r *standRig) { r.settles(r.gets(0, 1), nack, 0); r.settles(r.gets(1, 2), nack, 0); r.gets(0, 2) }},
		"an older delivery comes late":      {true, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(1, 2), ack, 0); r.gets(0, 1) }},
		"attempts run up to the limit":      {true, queueRules{limit: 2}, func(r *standRig) { r.gets(0, 1); r.wait(second); r.gets(0, 2) }},
		"and not above":                     {false, queueRules{limit: 2}, func(r *standRig) { r.gets(0, 3) }},
		"attempts without a limit":          {true, queueRules{}, func(r *standRig) { r.gets(0, 300) }},
		"attempts begin at 1":               {false, queueRules{}, func(r *standRig) { r.gets(0, 0) }},
		"one attempt twice":                 {false, queueRules{limit: 3}, func(r *standRig) { r.gets(0, 1); r.wait(second); r.gets(1, 1) }},
		"one attempt twice over a restart":  {false, queueRules{limit: 3}, func(r *standRig) { r.gets(0, 1); r.restart(); r.gets(1, 1) }},
		"which relaxed allows":              {true, queueRules{limit: 3, relaxed: true}, func(r *standRig) { r.gets(0, 1); r.restart(); r.gets(1, 1) }},
		"but not without a restart":         {false, queueRules{limit: 3, relaxed: true}, func(r *standRig) { r.gets(0, 1); r.wait(second); r.gets(1, 1) }},
		"a release takes the attempt back":  {true, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), release, 0); r.gets(1, 1) }},
		"once":                              {false, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), release, 0); r.gets(1, 1); r.wait(second); r.gets(0, 1) }},
		"two have it at once":               {false, queueRules{limit: 3}, func(r *standRig) { r.gets(0, 1); r.gets(1, 2) }},
		"one after the other":               {true, queueRules{limit: 3}, func(r *standRig) { r.gets(0, 1); r.wait(second); r.gets(1, 2) }},
		"the first has lost its connection": {true, queueRules{limit: 3}, func(r *standRig) { r.gets(0, 1); r.members[0].peer.wire.closed = true; r.gets(1, 2) }},
		"the first has nacked, unanswered":  {true, queueRules{limit: 3}, func(r *standRig) { r.sends(r.gets(0, 1), nack, 0); r.gets(1, 2) }},
		"the first has extended": {false, queueRules{limit: 3}, func(r *standRig) {
			d := r.gets(0, 1)
			r.wait(second / 2)
			r.settles(d, extend, 0)
			r.wait(second * 3 / 4)
			r.gets(1, 2)
		}},
		"shorter, and a longer one before it": {true, queueRules{limit: 3}, func(r *standRig) {
			d := r.gets(0, 1)
			long, short := r.sends(d, extend, 5*second), r.sends(d, extend, second/10)
			long.answered(1, false)
			short.answered(1, false)
			r.wait(second / 9)
			r.gets(1, 2)
		}},
		"it has made its lease shorter":   {true, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), extend, second/10); r.wait(second / 9); r.gets(1, 2) }},
		"an extension was never answered": {true, queueRules{limit: 3}, func(r *standRig) { r.sends(r.gets(0, 1), extend, 3*second); r.wait(second); r.gets(1, 2) }},
		"before its delay is over":        {false, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), nack, second); r.wait(second / 2); r.gets(1, 2) }},
		"after it":                        {true, queueRules{limit: 3}, func(r *standRig) { r.settles(r.gets(0, 1), nack, second); r.wait(second); r.gets(1, 2) }},
		"an ack of a lease that was over": {false, queueRules{limit: 3}, func(r *standRig) { d := r.gets(0, 1); r.wait(second); r.gets(1, 2); r.settles(d, ack, 0) }},
		"which is told": {true, queueRules{limit: 3}, func(r *standRig) {
			d := r.gets(0, 1)
			r.wait(second)
			r.gets(1, 2)
			r.sends(d, ack, 0).answered(0, true)
		}},
		"a lease is lost before its time": {false, queueRules{limit: 3}, func(r *standRig) { r.sends(r.gets(0, 1), ack, 0).answered(0, true) }},
		"after its time":                  {true, queueRules{limit: 3}, func(r *standRig) { d := r.gets(0, 1); r.wait(second); r.sends(d, ack, 0).answered(0, true) }},
		"two acks": {false, queueRules{limit: 3}, func(r *standRig) {
			d := r.gets(0, 1)
			one, two := r.sends(d, ack, 0), r.sends(d, ack, 0)
			one.answered(1, false)
			two.answered(1, false)
		}},
		"acks of two attempts, late answers": {false, queueRules{limit: 3}, func(r *standRig) {
			d := r.gets(0, 1)
			one := r.sends(d, ack, 0)
			r.wait(second)
			r.settles(r.gets(1, 2), ack, 0)
			one.answered(1, false)
		}},
		"a nack that is answered late": {true, queueRules{limit: 3}, func(r *standRig) {
			one := r.sends(r.gets(0, 1), nack, 0)
			r.settles(r.gets(1, 2), ack, 0)
			one.answered(1, false)
		}},
		"a lease that survives a restart": {false, queueRules{limit: 3}, func(r *standRig) { d := r.gets(0, 1); r.restart(); r.settles(d, ack, 0) }},
		"more took effect than were sent": {false, queueRules{limit: 3}, func(r *standRig) { r.sends(r.gets(0, 1), ack, 0).answered(2, false) }},
		"lost, and all took effect":       {false, queueRules{limit: 3}, func(r *standRig) { r.sends(r.gets(0, 1), ack, 0).answered(1, true) }},
		"a seek begins all anew": {true, queueRules{limit: 3}, func(r *standRig) {
			r.settles(r.gets(0, 3), ack, 0)
			r.stand.doubt()
			r.gets(0, 1)
			r.stand.trust()
			r.gets(1, 1)
		}},
		"and what is granted then counts": {false, queueRules{limit: 3}, func(r *standRig) { r.stand.doubt(); r.stand.trust(); r.settles(r.gets(0, 1), ack, 0); r.gets(1, 2) }},
		"the low offset rises": {true, queueRules{}, func(r *standRig) {
			r.stand.observeLow(2, r.stand.standing())
			r.stand.observeLow(3, r.stand.standing())
		}},
		"the low offset falls": {false, queueRules{}, func(r *standRig) {
			r.stand.observeLow(2, r.stand.standing())
			r.stand.observeLow(1, r.stand.standing())
		}},
		"it was asked for before": {true, queueRules{}, func(r *standRig) {
			then := r.stand.standing()
			r.stand.observeLow(2, then)
			r.stand.observeLow(1, then)
		}},
		"it falls by a seek": {true, queueRules{}, func(r *standRig) {
			then := r.stand.standing()
			r.stand.observeLow(2, then)
			r.stand.doubt()
			r.stand.observeLow(1, then)
		}},
		"it passes a record that somebody has": {false, queueRules{}, func(r *standRig) { r.gets(0, 1); r.stand.observeLow(4, r.stand.standing()) }},
		"or that is settled":                   {true, queueRules{}, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0); r.stand.observeLow(4, r.stand.standing()) }},
		"the record was lost":                  {true, queueRules{limit: 3, relaxed: true}, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0); r.content = &attempt{number: 2}; r.gets(1, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStandRig(c.rules)
			if c.do(r); (r.world.failed == nil) != c.right {
				t.Fatalf("it says: %v", r.world.failed)
			}
		})
	}
}

// A description agrees with itself and with the rules.
func TestStandDescribed(t *testing.T) {
	good := proto.QueuePartition{LowOffset: 2, HighOffset: 6, HighWatermark: 9, WindowRecords: 4, Leased: 1, Delayed: 1, Dying: 1, Dead: 1, Blockers: []proto.QueueBlocker{{Offset: 2}, {Offset: 4}}}
	for name, c := range map[string]struct {
		right  bool
		change func(*proto.QueuePartition)
	}{
		"good":                      {true, func(*proto.QueuePartition) {}},
		"a window backwards":        {false, func(r *proto.QueuePartition) { r.HighOffset = 1 }},
		"of another size":           {false, func(r *proto.QueuePartition) { r.WindowRecords = 3 }},
		"more records than it has":  {false, func(r *proto.QueuePartition) { r.Dead = 2 }},
		"above its bound":           {false, func(r *proto.QueuePartition) { r.HighOffset, r.WindowRecords = 13, 11 }},
		"held by a record before":   {false, func(r *proto.QueuePartition) { r.Blockers[0].Offset = 1 }},
		"held by none at its begin": {false, func(r *proto.QueuePartition) { r.Blockers = r.Blockers[1:] }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStandRig(queueRules{window: 10})
			d := good
			d.Blockers = append([]proto.QueueBlocker(nil), good.Blockers...)
			c.change(&d)
			if r.stand.described(&d, r.stand.standing()); (r.world.failed == nil) != c.right {
				t.Fatalf("it says: %v", r.world.failed)
			}
		})
	}
}

// In the end every record has been acked or is a dead letter, once.
func TestStandAudit(t *testing.T) {
	for name, c := range map[string]struct {
		right bool
		do    func(r *standRig)
	}{
		"acked":                         {true, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0) }},
		"acked, and nobody has heard":   {true, func(r *standRig) { r.sends(r.gets(0, 1), ack, 0) }},
		"acked, and refused":            {false, func(r *standRig) { d := r.gets(0, 1); r.wait(1e9); r.sends(d, ack, 0).answered(0, true) }},
		"never delivered":               {false, func(*standRig) {}},
		"delivered, and left":           {false, func(r *standRig) { r.gets(0, 1) }},
		"a dead letter":                 {true, func(r *standRig) { r.settles(r.gets(0, 1), reject, 0); r.stand.of(3, nil).letters++ }},
		"twice":                         {false, func(r *standRig) { r.settles(r.gets(0, 1), reject, 0); r.stand.of(3, nil).letters += 2 }},
		"acked and a dead letter":       {false, func(r *standRig) { r.settles(r.gets(0, 1), ack, 0); r.stand.of(3, nil).letters++ }},
		"passed over by a seek":         {true, func(r *standRig) { r.stand.passed = 4 }},
		"trimmed":                       {true, func(r *standRig) { r.stand.log.trimmedTo = 4 }},
		"twice, with a seek in between": {true, func(r *standRig) { r.stand.doubt(); r.stand.of(3, nil).letters = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStandRig(queueRules{limit: 3, letters: true})
			l := r.stand.log
			l.reading = &reading{log: l, start: 3, bases: []int64{3}, attempts: []*attempt{{log: l, span: 1}}}
			c.do(r)
			if r.stand.audit(); (r.world.failed == nil) != c.right {
				t.Fatalf("it says: %v", r.world.failed)
			}
		})
	}
}

// While a seek is in the air nothing counts.
func TestStandDoubt(t *testing.T) {
	r := newStandRig(queueRules{limit: 3})
	r.stand.doubt()
	if r.stand.since != math.MaxInt64 || r.gets(0, 1).sure() {
		t.Error("a lease counts while a seek is in the air")
	}
}

// A window of three records goes three at a time, so many records take their time; a group that may take them all at
// once has no more than the rest.
func TestPatience(t *testing.T) {
	for window, want := range map[int]int64{3: healTime + 1000/3*windowTime, 10_000: healTime} {
		r := newStandRig(queueRules{ready: true, window: window})
		l, c := r.stand.log, r.stand.group
		c.names = []string{l.topic.name}
		r.world.topics = []*topic{l.topic}
		l.topic.logs = []*plog{l}
		l.reading = &reading{log: l, end: 1020}
		r.stand.low = 20
		if got := c.patience(); got != want {
			t.Errorf("with a window of %d: %d s, want %d", window, got/1e9, want/1e9)
		}
	}
}

// A lease that a crash has taken before its member heard of it counts as a delivery, and the last one may make a dead
// letter of a record that nobody ever got. Nobody's dead letter is one of a partition that no member has asked for.
func TestLetterOfWhatNobodyGot(t *testing.T) {
	for _, asked := range []bool{true, false} {
		r := newStandRig(queueRules{ready: true, limit: 1, window: 10, letters: true})
		l, c := r.stand.log, r.stand.group
		r.world.topics, l.topic.logs = []*topic{l.topic}, []*plog{l}
		c.stands, c.byLog, c.asked = nil, map[*plog]*stand{}, map[*plog]bool{l: asked}
		q := &queues{world: r.world, all: []*queueGroup{c}, letters: &topic{world: r.world, name: "letters"}}
		to := &plog{world: r.world, topic: q.letters}
		q.letters.logs = []*plog{to}
		q.letter(to, &proto.Record{}, &deadletter.Provenance{Group: c.name, Topic: l.topic.name, Partition: l.number, Offset: 5, Attempts: 1, Reason: "abandoned"})
		if failed := r.world.failed != nil; failed == asked {
			t.Errorf("asked for %v: %v", asked, r.world.failed)
		}
	}
}
