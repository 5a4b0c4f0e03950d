package main

import (
	"github.com/pulsemq/pulsemq/proto"
)

// producer sends batches to one partition. An idempotent one sends what was not answered again, in order, over new
// connections; another sends each once.
type producer struct {
	world      *world
	peer       *peer
	log        *plog
	number     int64
	idempotent bool
	silent     bool // acks none
	inFlight   int
	pace       int64

	id       int64 // -1: to be asked for
	epoch    int16
	sequence int32
	asking   bool

	waiting []*attempt // not answered, in order
	flying  int        // of waiting, from the front: sent on this connection
	resend  int64      // not before
	stopped bool
	ticking bool
}

func (w *world) newProducer(l *plog) *producer {
	p := &producer{
		world: w, log: l, number: int64(len(w.producers)), idempotent: w.random.IntN(3) > 0, inFlight: 1 + w.random.IntN(5), id: -1,
		pace: []int64{1e6, 10e6, 60e6}[w.random.IntN(3)],
		// One of a topic that was made after everything healed would never stop, and could keep the others from being answered.
		stopped: w.healed,
	}
	p.silent = !p.idempotent && w.random.IntN(4) == 0
	p.peer = w.peer("producer", w.nodes[0])
	p.peer.ready = p.run
	p.peer.gone = p.lost
	p.peer.connect(w.between(0, 20e6))
	w.producers = append(w.producers, p)
	return p
}

func (p *producer) tick() {
	if p.ticking || p.stopped && len(p.waiting) == 0 {
		return
	}
	p.ticking = true
	p.world.after(p.world.between(p.pace/2, p.pace), func() {
		p.ticking = false
		p.run()
	})
}

// run sends what may be sent.
func (p *producer) run() {
	defer p.tick()
	w := p.world
	if !p.peer.open || !p.log.topic.made {
		return
	}
	if p.idempotent && p.id < 0 {
		if !p.asking {
			p.asking = true
			p.peer.ask(&proto.InitProducerRequest{}, func(m proto.Message, e *proto.Error) {
				p.asking = false
				if m, ok := m.(*proto.InitProducerResponse); ok {
					w.tookProducerID(m.ProducerID)
					p.id, p.epoch, p.sequence = m.ProducerID, m.ProducerEpoch, 0
					p.run()
				}
			})
		}
		return
	}
	if p.log.topic.deleting {
		p.waiting, p.flying, p.stopped = nil, 0, true
		return
	}
	if w.clock.monotonic < p.resend {
		return
	}
	for sent := 0; sent < 4; sent++ {
		if p.flying == len(p.waiting) {
			if p.stopped || len(p.waiting) >= p.inFlight {
				return
			}
			p.waiting = append(p.waiting, p.next())
		}
		a := p.waiting[p.flying]
		if !p.peer.room(len(a.batch) + 64) {
			return
		}
		p.flying++
		a.sends++
		a.wire = p.peer.wire
		m := &proto.ProduceRequest{TopicID: p.log.topic.id, Partition: p.log.number, LeaderEpoch: -1, Acks: proto.AcksDurable, TimeoutMs: 0, Batch: a.batch}
		if p.silent {
			m.Acks = proto.AcksNone
			p.peer.tell(m)
			p.drop(a)
			continue
		}
		p.peer.ask(m, func(m proto.Message, e *proto.Error) { p.answered(a, m, e) })
		if w.random.IntN(3) > 0 {
			return
		}
	}
}

func (p *producer) next() *attempt {
	a := p.world.forge(p.log, p.number)
	if p.idempotent {
		a.producer, a.epoch, a.sequence = p.id, p.epoch, p.sequence
		a.batch.SetProducer(p.id, p.epoch, p.sequence)
		p.sequence = proto.SequenceAdd(p.sequence, int32(a.span))
	}
	crc := proto.CRC(a.batch.Records())
	p.log.sent[crc] = append(p.log.sent[crc], a)
	return a
}

// drop takes an attempt off the list.
func (p *producer) drop(a *attempt) {
	for i := range p.waiting {
		if p.waiting[i] == a {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			if i < p.flying {
				p.flying--
			}
			return
		}
	}
}

func (p *producer) answered(a *attempt, m proto.Message, e *proto.Error) {
	switch {
	case m != nil:
		p.log.acked(a, m.(*proto.ProduceResponse))
		p.drop(a)
	case e == nil: // lost with its connection
		if !p.idempotent {
			p.drop(a)
		}
	case !p.idempotent:
		p.refused(a, e)
		p.drop(a)
	case e.Code == proto.CodeOutOfOrderSequence && len(p.waiting) > 0 && p.waiting[0] == a:
		// Everything before it was acknowledged, so the broker has forgotten some of that.
		if !p.log.topic.wasWeak {
			p.log.fail("%v is refused although every batch before it was acknowledged: %v", a, e)
		}
		p.forsake()
	case e.Code == proto.CodeOutOfOrderSequence || e.Code == proto.CodeOverloaded || e.Code == proto.CodeTimedOut || e.Code.Retriable():
		// One that failed has the whole tail behind it refused; all go again, in order.
		p.again()
	default:
		// The id is of no use any more: what was under way is given up, stored or not.
		p.refused(a, e)
		p.forsake()
	}
}

// refused notes errors that promise that the batch is not stored.
func (p *producer) refused(a *attempt, e *proto.Error) {
	switch e.Code {
	case proto.CodeOverloaded, proto.CodeBatchTooLarge, proto.CodeCorruptBatch, proto.CodeInvalidTimestamp, proto.CodeStorageFull:
		if a.sends == 1 {
			a.refused = true
		}
	}
}

// again sends everything once more after a while, over a new connection, so that no answer to what is under way
// mixes with it.
func (p *producer) again() {
	p.resend = p.world.clock.monotonic + p.world.between(1e6, 50e6)
	if p.peer.wire != nil {
		p.peer.wire.reset()
	}
}

func (p *producer) lost() { p.flying = 0 }

func (p *producer) forsake() {
	p.waiting, p.flying = nil, 0
	p.id = -1
	if p.peer.wire != nil {
		p.peer.wire.reset()
	}
}
