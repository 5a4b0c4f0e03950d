package shard

import (
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// A LEASE whose begin takes the disk longer than the client waits is refused, and can be tried again at once.
func TestLeaseIsTriedAgainWhileItsBeginWaits(t *testing.T) {
	n, id := newQueue(t, 10)
	w := n.worker(id, 1)
	n.held = true
	r := w.request(mail.RequestLease)
	r.Wait, r.Body = int64(time.Second), &mail.Lease{Group: "g", Member: w.name, Owner: 1}
	n.send(&r)
	n.settle()
	n.clock.advance(2 * time.Second)
	if others := w.settle(); len(others) != 1 || others[0].Err == nil || others[0].Err.Code != proto.CodeTimedOut {
		t.Fatalf("%+v", others)
	}
	again := w.request(mail.RequestLease)
	again.Body = &mail.Lease{Group: "g", Member: w.name, Owner: 1}
	n.send(&again)
	n.settle()
	n.held = false
	if others := w.settle(); len(others) != 1 || others[0].Err != nil {
		t.Fatalf("%+v", others)
	}
	wantRecords(t, "leased once", w.credit(4), records(1, 0, 4))
	if q := n.machines[0].partitions[id].cursors.queues["g"]; len(q.shares) != 1 || len(q.members) != 1 || len(q.left) != 0 {
		t.Errorf("%d shares, %d members, %d left", len(q.shares), len(q.members), len(q.left))
	}
}

// A member that comes and goes leaves nothing behind once what it had leased is settled, however long the leases could
// have lasted.
func TestMembersThatComeAndGoLeaveNothing(t *testing.T) {
	n, id := newQueue(t, 500)
	w, stays := n.worker(id, 1), n.worker(id, 2)
	stays.lease(0)
	for o := range int64(300) {
		r := w.request(mail.RequestLease)
		r.Body = &mail.Lease{Group: "g", Member: w.name, Owner: 1, TimeoutMillis: 24 * 3600_000}
		n.send(&r)
		w.settle()
		if got := w.credit(1); len(got) != 1 || got[0].offset != o {
			t.Fatalf("got %v", got)
		}
		leave := w.request(mail.RequestUnlease)
		n.machines[0].Receive(&leave)
		w.ack(1, o, o+1)
	}
	q := n.machines[0].partitions[id].cursors.queues["g"]
	if l := n.machines[0].peers[peerKey{0, w.conn}].leasers[0]; len(q.left) > 2*leftSpare || len(l.left) > 2*leftSpare {
		t.Errorf("%d and %d shares are kept", len(q.left), len(l.left))
	}
	chain := 0
	for s := q.members[w.name]; s != nil; s = s.older {
		chain++
	}
	if chain > 2*leftSpare {
		t.Errorf("%d shares of one member", chain)
	}
	// One that still has a lease is kept, and may settle it.
	r := w.request(mail.RequestLease)
	r.Body = &mail.Lease{Group: "g", Member: w.name, Owner: 1, TimeoutMillis: 24 * 3600_000}
	n.send(&r)
	w.settle()
	wantRecords(t, "one more", w.credit(1), records(1, 300, 301))
	leave := w.request(mail.RequestUnlease)
	n.machines[0].Receive(&leave)
	for range 4 * leftSpare {
		stays.lease2(t)
	}
	w.ack(1, 300, 301)
}

// lease2 takes the worker's partition off and on again.
func (w *worker) lease2(t *testing.T) {
	t.Helper()
	leave := w.request(mail.RequestUnlease)
	w.n.owner(w.id).Receive(&leave)
	w.lease(0)
}

// What waits for the disk is bounded by ranges, of which one SETTLE may have many.
func TestSettlesThatWaitAreBounded(t *testing.T) {
	n, id := newQueue(t, 10)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(10)
	w.fresh()
	p := n.machines[0].partitions[id]
	p.cursors.settles = settleRangesWaitMax - 2
	if _, err := w.trySettle(outcome(proto.SettlementAck, 1, 0, 1), outcome(proto.SettlementAck, 1, 1, 2), outcome(proto.SettlementAck, 1, 2, 3)); err == nil || err.Code != proto.CodeOverloaded {
		t.Errorf("%v", err)
	}
	w.settles(outcome(proto.SettlementAck, 1, 0, 1), outcome(proto.SettlementAck, 1, 1, 2))
	if p.cursors.settles != settleRangesWaitMax-2 {
		t.Errorf("%d wait", p.cursors.settles)
	}
	w.wantStands(2, 10, 0, 8, 0, 0)
}

// Credit, and a delivery that has left, cost nothing for partitions that have no records.
func TestIdlePartitionsCostNothing(t *testing.T) {
	const partitions = 50
	n := newNode(t, 1)
	topic := n.create("jobs", partitions)
	w := n.worker(topic.Partitions[0].ID, 1)
	for _, p := range topic.Partitions {
		w.id = p.ID
		w.lease(0)
	}
	w.id, w.full = topic.Partitions[0].ID, true
	w.credit(10)
	produced := n.produceRequest(w.id, batchSpec{records: 1, value: 10, producer: -1})
	n.send(&produced)
	w.settle()
	wantRecords(t, "got", w.fresh(), records(1, 0, 1))
	m := n.machines[0]
	credit := w.request(mail.RequestLeaseCredit)
	credit.Records = 5
	m.Receive(&credit)
	m.Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: w.kept[0]})
	if m.leasable.Len() > 1 {
		t.Errorf("%d groups in the round", m.leasable.Len())
	}
	w.full = false
	// Those that found no credit wait again when there is some.
	recall := w.request(mail.RequestLeaseRecall)
	m.Receive(&recall)
	w.settle()
	for _, p := range topic.Partitions {
		r := n.produceRequest(p.ID, batchSpec{records: 1, value: 10, producer: -1})
		n.send(&r)
	}
	w.settle()
	got := w.credit(partitions)
	for range 5 { // a few deliveries at a time leave for the socket
		w.settle()
		got = append(got, w.fresh()...)
	}
	if len(got) != partitions {
		t.Errorf("got %d records of %d partitions", len(got), partitions)
	}
}
