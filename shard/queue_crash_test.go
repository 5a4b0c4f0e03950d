package shard

import (
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// queueBooks are what clients know of a queue group.
type queueBooks struct {
	t        *rapid.T
	n        *node
	id       core.PartitionID
	workers  []*worker
	acked    map[int64]bool // by an answer
	ending   map[int64]bool // somebody has asked for its end, perhaps without an answer
	seen     map[int64]int  // deliveries
	released map[int64]int  // that were asked to be taken back
	holder   map[int64]*worker
	attempt  map[int64]uint32
	most     int
	strict   bool // counts are durable
}

// note takes down what came.
func (b *queueBooks) note() {
	b.n.settle()
	answers := b.n.answers()
	for _, w := range b.workers {
		answers = w.take(answers)
		for _, d := range w.fresh() {
			if b.acked[d.offset] {
				b.t.Fatalf("record %d was acknowledged, and comes again", d.offset)
			}
			if other := b.holder[d.offset]; other != nil {
				b.t.Fatalf("record %d is with %s and with %s", d.offset, other.name, w.name)
			}
			b.seen[d.offset]++
			if seen := b.seen[d.offset] - b.released[d.offset]; b.strict && (seen > b.most || int(d.attempt) < seen || int(d.attempt) > b.most) {
				b.t.Fatalf("record %d is delivered for time %d as attempt %d, allowed are %d", d.offset, seen, d.attempt, b.most)
			}
			b.holder[d.offset], b.attempt[d.offset] = w, d.attempt
		}
	}
}

func (b *queueBooks) lease() {
	for _, w := range b.workers {
		if p := b.n.machines[0].peers[peerKey{conn: w.conn}]; p == nil || len(p.leasers) == 0 {
			w.lease(0)
		}
	}
	b.note()
}

// heldBy are records of a worker, in order.
func (b *queueBooks) heldBy(w *worker) (list []int64) {
	for o, holder := range b.holder {
		if holder == w {
			list = append(list, o)
		}
	}
	slices.Sort(list)
	return list
}

// settleSome sends an outcome for a few records of a worker.
func (b *queueBooks) settleSome(w *worker, o proto.Settlement, most int) *mail.Request {
	r := w.request(mail.RequestSettle)
	body := &mail.Settle{Group: "g", Member: w.name}
	for i, offset := range b.heldBy(w) {
		if i == most {
			break
		}
		rng := outcome(o, b.attempt[offset], offset, offset+1)
		rng.DelayMs = uint32(offset % 3 * 50)
		body.Ranges = append(body.Ranges, rng)
		switch o {
		case proto.SettlementAck, proto.SettlementReject:
			b.ending[offset] = true
		case proto.SettlementRelease:
			b.released[offset]++
		}
		delete(b.holder, offset)
	}
	if len(body.Ranges) == 0 {
		return nil
	}
	r.ID, r.Body = 5, body
	b.n.send(&r)
	return &r
}

// Members that lease, settle in every way, come and go, through power cuts at any moment: no record is with two of them, none
// is delivered more often than allowed, what was acknowledged never comes again, and every record ends.
func TestQueueThroughCrashes(t *testing.T) {
	// Each run starts several brokers; a fourth of the usual number is enough.
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	if n, err := strconv.Atoi(before); err == nil {
		_ = checks.Value.Set(strconv.Itoa(max(1, n/4)))
	}
	for _, settings := range [][]string{{"durability", "sync"}, {"durability", "batch", "flush.ms", "50"}, {"durability", "sync", "queue.attempts", "relaxed"}} {
		rapid.Check(t, func(rt *rapid.T) {
			n := newNode(t, 1)
			id := n.create("jobs", 1, append([]string{"queue.window.max", "30", "queue.max.deliveries", "3", "queue.ack.timeout.ms", "2000"}, settings...)...).Partitions[0].ID
			b := &queueBooks{t: rt, n: n, id: id, most: 3, strict: len(settings) == 2 || settings[2] == "flush.ms",
				acked: map[int64]bool{}, ending: map[int64]bool{}, seen: map[int64]int{}, released: map[int64]int{}, holder: map[int64]*worker{}, attempt: map[int64]uint32{}}
			for i := range uint32(3) {
				b.workers = append(b.workers, n.worker(id, 1+i))
			}
			gone := func() { // nobody has anything any more
				clear(b.holder)
				for _, w := range b.workers {
					w.got = nil
				}
				n.answers()
			}
			for range rapid.IntRange(5, 40).Draw(rt, "steps") {
				w := b.workers[rapid.IntRange(0, 2).Draw(rt, "worker")]
				switch action := rapid.IntRange(0, 11).Draw(rt, "action"); action {
				case 0, 1:
					count := rapid.IntRange(1, 8).Draw(rt, "records")
					r := n.produceRequest(id, batchSpec{records: count, value: 5, producer: -1})
					n.send(&r)
					n.settle()
					b.note()
				case 2, 3, 4:
					b.lease()
					r := w.request(mail.RequestLeaseCredit)
					r.Records = rapid.Uint32Range(1, 12).Draw(rt, "credit")
					n.send(&r)
					b.note()
				case 5, 6, 7, 8:
					o := rapid.SampledFrom([]proto.Settlement{proto.SettlementAck, proto.SettlementAck, proto.SettlementNack, proto.SettlementReject, proto.SettlementRelease, proto.SettlementExtend}).Draw(rt, "outcome")
					before := b.heldBy(w)
					r := b.settleSome(w, o, rapid.IntRange(1, 6).Draw(rt, "most"))
					if r == nil {
						continue
					}
					n.settle()
					for _, a := range n.outs[0].answers {
						if a.Kind != mail.AnswerSettle {
							continue
						}
						for i, result := range a.Body.(*proto.SettleResponse).Ranges {
							switch {
							case result.Settled != 1:
								rt.Fatalf("%+v of what %s holds: %+v", r.Body, w.name, result)
							case o == proto.SettlementAck:
								b.acked[before[i]] = true
							case o == proto.SettlementExtend:
								b.holder[before[i]] = w
							}
						}
					}
					b.note()
				case 9:
					n.clock.advance(time.Duration(rapid.IntRange(1, 2500).Draw(rt, "ms")) * time.Millisecond)
					for o := range b.holder { // the leases that are over are lost, and the others may be kept
						q := n.machines[0].partitions[id].cursors.queues["g"]
						if look, ok := q.window.Blocker(o); !ok || look.Offset != o || !look.Leased || look.Lease <= n.clock.monotonic {
							delete(b.holder, o)
						}
					}
					b.note()
				case 10:
					n.machines[0].Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: w.conn})
					for _, o := range b.heldBy(w) {
						delete(b.holder, o)
					}
					b.note()
				default: // the power goes while things are on their way
					n.held = true
					b.settleSome(w, rapid.SampledFrom([]proto.Settlement{proto.SettlementAck, proto.SettlementNack, proto.SettlementRelease}).Draw(rt, "outcome"), 4)
					r := b.workers[0].request(mail.RequestLeaseCredit)
					r.Records = 5
					n.send(&r)
					for range rapid.IntRange(0, 3).Draw(rt, "turns") {
						n.turn()
					}
					if rapid.Bool().Draw(rt, "some end") {
						n.held = false
						n.turn()
						answers := n.answers()
						for _, w := range b.workers { // what was pushed was seen
							answers = w.take(answers)
							for _, d := range w.fresh() {
								b.seen[d.offset]++
							}
						}
					}
					n.crash(rapid.Uint64().Draw(rt, "seed"), mem.CrashOptions{})
					gone()
				}
			}
			// In the end one member takes everything that is left.
			n.crash(rapid.Uint64().Draw(rt, "seed"), mem.CrashOptions{})
			gone()
			produced := int64(n.machines[0].partitions[id].log.EndOffset())
			w := b.workers[0]
			b.workers = b.workers[:1]
			b.lease()
			r := w.request(mail.RequestLeaseCredit)
			r.Records = 1000
			n.send(&r)
			b.note()
			discard := n.worker(id, 9)
			for range 300 {
				if low, _ := n.machines[0].partitions[id].cursors.table.Get("g"); low.Offset == produced {
					return
				}
				held := b.heldBy(w)
				if b.settleSome(w, proto.SettlementAck, 100) != nil {
					n.settle()
					for _, o := range held {
						b.acked[o] = true
					}
					b.note()
				}
				r := discard.request(mail.RequestSettle)
				r.ID, r.Body = 6, &mail.Settle{Group: "g", Ranges: []proto.SettledRange{outcome(proto.SettlementDiscard, 0, 0, produced)}}
				n.send(&r)
				n.clock.advance(100 * time.Millisecond)
				b.note()
			}
			rt.Fatalf("the group stands at %+v, %d records were produced", discard.describe(), produced)
		})
	}
}
