package main

import (
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// healTime is how long everything may take to be well again, and readTime how long the last reading. A member that
// is gone keeps its partitions until its session has ended, which a start of the coordinator begins anew.
const (
	healTime = sessionMax + int64(30e9)
	readTime = int64(60e9)
)

// reading is the last look at a log, from its start to its end.
type reading struct {
	log      *plog
	start    int64
	at       int64
	end      int64
	epoch    int32
	bases    []int64
	attempts []*attempt
	done     bool
}

func (r *reading) saw(base int64, a *attempt) {
	r.bases = append(r.bases, base)
	r.attempts = append(r.attempts, a)
}

// finale heals the world and holds it to every promise.
func (w *world) finale() {
	w.note("heal")
	w.faults.heal()
	w.healed = true
	for _, n := range w.nodes {
		for _, c := range n.wires {
			c.habit = w.habit()
			c.resetUpAfter = -1
		}
	}
	for _, p := range w.producers {
		p.stopped = true
	}
	w.groups.calm()
	w.queues.calm()
	for _, c := range w.consumers {
		if c.peer.wire != nil {
			c.peer.wire.resume()
		}
	}
	w.plan.diskLatencyMax, w.plan.jobDelayMax = 200e3, 5e6
	n := w.nodes[0]
	switch ends := w.random.IntN(4); {
	case n.state != nodeUp:
	case ends == 0 || w.refused == n.life:
		n.stop()
	case ends == 1 && len(w.plan.ends) > 0:
		n.powerCut()
	}
	well := func() bool {
		for _, p := range w.producers {
			if len(p.waiting) > 0 && !p.log.topic.deleting {
				return false
			}
		}
		return w.nodes[0].state == nodeUp && len(w.admin.to) == 0
	}
	if !w.until(w.clock.monotonic+healTime, well) {
		if w.failed == nil {
			w.fail("%d seconds after the last fault, not everything was answered: %s", healTime/1e9, w.unanswered())
		}
		return
	}
	for _, c := range w.consumers {
		c.stopped = true
	}
	// What was sent without waiting for answers arrives before the last reading.
	for _, p := range w.producers {
		p.peer.close()
	}
	if !w.until(w.clock.monotonic+healTime, func() bool {
		return !slices.ContainsFunc(w.producers, func(p *producer) bool { return w.connected(p.peer) })
	}) {
		w.fail("connections of producers are still there %d seconds after they were closed", healTime/1e9)
		return
	}
	// Every partition takes a batch and gives it back.
	probe := w.peer("probe", w.nodes[0])
	var probes []*attempt
	probe.ready = func() {
		probe.ready = nil
		for _, l := range w.ledger.logs {
			if l.topic.deleting {
				continue
			}
			a := w.forge(l, -1)
			crc := proto.CRC(a.batch.Records())
			l.sent[crc] = append(l.sent[crc], a)
			probes = append(probes, a)
			w.send(probe, a)
		}
	}
	probe.connect(0)
	if !w.until(w.clock.monotonic+healTime, func() bool {
		return probe.open && !slices.ContainsFunc(probes, func(a *attempt) bool { return !a.acked })
	}) {
		for _, a := range probes {
			if !a.acked {
				a.log.fail("takes no batch %d seconds after the last fault", healTime/1e9)
			}
		}
		w.fail("no connection %d seconds after the last fault", healTime/1e9)
		return
	}
	for _, l := range w.ledger.logs {
		if !l.topic.deleting {
			l.reading = &reading{log: l, epoch: -1}
			w.read(probe, l.reading)
		}
	}
	if !w.until(w.clock.monotonic+readTime, func() bool {
		return !slices.ContainsFunc(w.ledger.logs, func(l *plog) bool { return l.reading != nil && !l.reading.done })
	}) {
		for _, l := range w.ledger.logs {
			if r := l.reading; r != nil && !r.done {
				l.fail("could be read up to %d in %d seconds", r.at, readTime/1e9)
			}
		}
		return
	}
	for _, l := range w.ledger.logs {
		if l.reading != nil {
			l.audit()
		}
	}
	w.groups.finale()
	w.queues.finale()
	w.farewell()
}

// send produces a batch until it is acknowledged.
func (w *world) send(p *peer, a *attempt) {
	again := func() { w.after(20e6, func() { w.send(p, a) }) }
	if !p.room(len(a.batch) + 64) {
		again()
		return
	}
	a.sends++
	p.ask(&proto.ProduceRequest{TopicID: a.log.topic.id, Partition: a.log.number, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: a.batch},
		func(m proto.Message, e *proto.Error) {
			switch {
			case m != nil:
				a.log.acked(a, m.(*proto.ProduceResponse))
			case e != nil && !e.Code.Retriable():
				a.log.fail("a batch was refused after the last fault: %v", e)
			default:
				again()
			}
		})
}

// read goes on with a reading.
func (w *world) read(p *peer, r *reading) {
	l := r.log
	if !p.room(64) {
		w.after(1e6, func() { w.read(p, r) })
		return
	}
	at, epoch, then := r.at, r.epoch, l.promised()
	p.ask(&proto.FetchRequest{TopicID: l.topic.id, Partition: l.number, LeaderEpoch: -1, Offset: at, LastEpoch: epoch, MaxBytes: 512 << 10},
		func(m proto.Message, e *proto.Error) {
			switch {
			case e != nil && e.Code == proto.CodeOffsetOutOfRange && e.Offsets != nil && at < e.Offsets.Earliest:
				l.bounds(e.Offsets.Earliest, -1, then)
				r.start, r.at, r.epoch = e.Offsets.Earliest, e.Offsets.Earliest, -1
				w.read(p, r)
			case e != nil && e.Code == proto.CodeCorruptRecord && e.Damage != nil:
				w.corrupt(l, e)
				r.at, r.epoch = max(r.at+1, e.Damage.NextOffset), -1
				w.read(p, r)
			case m == nil:
				if e != nil && !e.Code.Retriable() {
					l.fail("reading at %d: %v", at, e)
				}
				w.after(10e6, func() { w.read(p, r) })
			default:
				m := m.(*proto.FetchResponse)
				l.bounds(m.LogStartOffset, m.HighWatermark, then)
				before := at
				at, epoch = l.shown(m.Batches, at, epoch, m.HighWatermark, r)
				r.at, r.epoch, r.end = at, epoch, m.LogEndOffset
				w.note("read", l.key(), before, at, int64(m.LeaderEpoch))
				if m.More {
					return
				}
				if at >= m.LogEndOffset {
					r.done = true
					return
				}
				if at == before {
					w.after(5e6, func() { w.read(p, r) })
					return
				}
				w.read(p, r)
			}
		})
}

// audit compares the last reading with what was promised.
func (l *plog) audit() {
	r := l.reading
	if r.end < l.firmEnd {
		l.fail("ends at %d, and everything up to %d is durable", r.end, l.firmEnd)
	}
	places := map[int64]*attempt{}
	for i, base := range r.bases {
		places[base] = r.attempts[i]
	}
	for _, e := range l.entries {
		if e.base < r.start || e.next > l.firmEnd {
			continue
		}
		if places[e.base] != e.attempt {
			l.fail("offset %d held %v, which is durable, and holds %v", e.base, e.attempt, places[e.base])
		}
	}
	times := map[*attempt]int64{}
	type order struct {
		client   int64
		producer int64
		wire     *wire
	}
	latest := map[order]int64{}
	for i, a := range r.attempts {
		if at, twice := times[a]; twice && a.client >= 0 { // a probe is sent again and again
			l.fail("%v is stored at %d and at %d", a, at, r.bases[i])
		}
		times[a] = r.bases[i]
		if a.refused {
			l.fail("%v was refused as not stored and is stored at %d", a, r.bases[i])
		}
		of := order{client: a.client, producer: a.producer}
		if a.producer < 0 {
			of.wire = a.wire
		}
		if a.client >= 0 && a.number < latest[of] {
			l.fail("%v at %d comes behind batch %d of the same producer, which was sent later", a, r.bases[i], latest[of])
		}
		latest[of] = a.number
	}
	for _, c := range l.crossings {
		for _, e := range l.entries {
			if e.epoch > c.from && e.epoch <= c.to && e.base < c.at {
				l.fail("a consumer read on at %d from epoch %d to %d, and was not told that epoch %d begins at %d", c.at, c.from, c.to, e.epoch, e.base)
			}
		}
	}
}

// unanswered says what is still waited for.
func (w *world) unanswered() string {
	for _, p := range w.producers {
		if len(p.waiting) > 0 {
			return p.waiting[0].String() + " of topic " + p.log.topic.name
		}
	}
	if len(w.admin.to) > 0 {
		return "a change of a topic"
	}
	return "the node does not serve"
}

// connected says whether a peer that was closed still has a connection at its node.
func (w *world) connected(p *peer) bool {
	return slices.ContainsFunc(p.node.wires, func(c *wire) bool { return c.owner == p })
}

// farewell stops the node and looks whether everything came home.
func (w *world) farewell() {
	if w.failed != nil {
		return
	}
	for _, p := range w.peers {
		p.close()
	}
	n := w.nodes[0]
	if !w.until(w.clock.monotonic+healTime, func() bool { return len(n.wires) == 0 }) {
		w.fail("%d connections are still there %d seconds after their clients have closed them", len(n.wires), healTime/1e9)
		return
	}
	n.stop()
	if !w.until(w.clock.monotonic+healTime, func() bool { return n.state == nodeDown }) {
		w.fail("the node does not stop in %d seconds", healTime/1e9)
	}
}
