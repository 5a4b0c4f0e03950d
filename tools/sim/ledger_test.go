package main

import (
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// ledgerOf is the ledger of one partition, without a broker.
func ledgerOf(level proto.Durability) (*world, *plog) {
	w := newWorld(1, options{})
	w.plan.diskFaults, w.plan.fullDisk = false, false
	t := &topic{world: w, name: "t", level: level, certain: true, wasWeak: level < proto.DurabilitySync}
	return w, t.addLog()
}

func (p *plog) acks(number, base int64, level proto.Durability) {
	a := &attempt{number: number, log: p, span: 1, sends: 1, producer: -1}
	p.acked(a, &proto.ProduceResponse{BaseOffset: base, Durability: level})
}

// What is durable below an acknowledgement is what stood there in that life of the
// broker. What a weaker topic had there before, and may have lost by then, is not.
func TestLedgerOfWhatAnEndTook(t *testing.T) {
	for name, c := range map[string]struct {
		level proto.Durability
		do    func(w *world, p *plog)
		right bool
	}{
		"lost by a kill, and stored anew below a durable record": {proto.DurabilityNone, func(w *world, p *plog) {
			p.acks(1, 0, proto.DurabilityNone)
			w.ledger.processEnded()
			p.acks(3, 1, proto.DurabilitySync) // the answer to what is at 0 comes later
			p.acks(2, 0, proto.DurabilitySync)
		}, true},
		"durable before the kill": {proto.DurabilityNone, func(w *world, p *plog) {
			p.acks(1, 0, proto.DurabilityNone)
			p.acks(3, 1, proto.DurabilitySync)
			w.ledger.processEnded()
			p.acks(2, 0, proto.DurabilitySync)
		}, false},
		"durable before two kills": {proto.DurabilityNone, func(w *world, p *plog) {
			p.acks(1, 0, proto.DurabilityNone)
			p.acks(3, 1, proto.DurabilitySync)
			w.ledger.processEnded()
			w.ledger.powerCut()
			p.acks(4, 2, proto.DurabilitySync)
			p.acks(2, 0, proto.DurabilitySync)
		}, false},
		"in one life": {proto.DurabilityNone, func(w *world, p *plog) {
			p.acks(1, 0, proto.DurabilityNone)
			p.acks(2, 0, proto.DurabilityNone)
		}, false},
		"of a topic that was always durable": {proto.DurabilitySync, func(w *world, p *plog) {
			p.acks(1, 0, proto.DurabilitySync)
			w.ledger.powerCut()
			p.acks(2, 0, proto.DurabilitySync)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := ledgerOf(c.level)
			if c.do(w, p); (w.failed == nil) != c.right {
				t.Fatalf("the ledger says: %v", w.failed)
			}
		})
	}
}

// A reader of an epoch is told right that the log was cut where a weaker topic lost what it has read, also while nobody
// outside knows what is durable there now; what was durable before is never cut.
func TestLedgerOfWhatAReaderKeeps(t *testing.T) {
	w, p := ledgerOf(proto.DurabilityNone)
	p.acks(1, 0, proto.DurabilitySync)
	p.acks(2, 1, proto.DurabilityNone)
	for _, e := range p.entries {
		e.epoch = 2
	}
	w.ledger.powerCut()
	p.acks(4, 2, proto.DurabilitySync) // the answer to what is at 1 comes later
	if kept := p.keptOf(2, p.firmEnd); kept != 1 {
		t.Errorf("what epoch 2 has read is kept up to %d, not 1", kept)
	}

	// The same records may have been stored anew at the same place, in a later epoch.
	w, p = ledgerOf(proto.DurabilityNone)
	p.acks(1, 0, proto.DurabilityNone)
	p.entries[0].epoch = 2
	w.ledger.powerCut()
	p.acked(p.entries[0].attempt, &proto.ProduceResponse{Durability: proto.DurabilitySync})
	if kept := p.keptOf(2, p.firmEnd); kept != 0 {
		t.Errorf("what epoch 2 has read is kept up to %d: it was lost, and acknowledged in another one", kept)
	}
}
