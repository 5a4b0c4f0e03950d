package shard

import (
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// A member takes the partition off again before the group has begun there: the LEASE is answered all the same, and the
// group has begun for the next.
func TestLeaseTakenOffBeforeItBegins(t *testing.T) {
	n, id := newQueue(t, 5)
	w := n.worker(id, 1)
	lease := w.request(mail.RequestLease)
	lease.Body = &mail.Lease{Group: "g", Member: w.name, Owner: 1, Start: 0}
	n.send(&lease)
	off := w.request(mail.RequestUnlease)
	n.send(&off)
	if others := w.settle(); len(others) != 1 || others[0].Err != nil {
		t.Fatalf("the LEASE is answered with %+v", others)
	}
	w.lease(-1)
	wantRecords(t, "begun", w.credit(5), records(1, 0, 5))
}

// Where deliveries are counted in memory, how often a dead record was delivered is on disk with its death.
func TestRelaxedDeathTellsItsAttempts(t *testing.T) {
	for name, die := range map[string]func(w *worker){
		"nacked":    func(w *worker) { w.settles(outcome(proto.SettlementNack, 2, 0, 2)) },
		"rejected":  func(w *worker) { w.settles(outcome(proto.SettlementReject, 2, 0, 2)) },
		"timed out": func(w *worker) { w.wait(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			n, id := newQueue(t, 5, "queue.attempts", "relaxed", "queue.max.deliveries", "2")
			w := n.worker(id, 1)
			w.lease(0)
			w.credit(2)
			wantRecords(t, "once more", append(w.wait(time.Minute), w.credit(2)...), records(2, 0, 2))
			die(w)
			powerCut(n)
			d := w.describe()
			if len(d.Blockers) < 2 || d.Dead != 2 || d.Blockers[0].Attempt != 2 || d.Blockers[1].Attempt != 2 {
				t.Errorf("after the power cut: %+v", d)
			}
		})
	}
}

// A record counts as delayed until its time has come, and not while somebody has it again.
func TestDelayedAreCountedOnce(t *testing.T) {
	n, id := newQueue(t, 5)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(2)
	nack := outcome(proto.SettlementNack, 1, 0, 2)
	nack.DelayMs = 50
	w.settles(nack)
	w.wantStands(0, 2, 3, 0, 2, 0)
	w.wait(100 * time.Millisecond)
	w.wantStands(0, 2, 5, 0, 0, 0)
	wantRecords(t, "again", w.credit(1), []delivered{{0, 2}})
	w.wantStands(0, 2, 4, 1, 0, 0)
}

// A member goes while its delivery is being read: whoever waits gets the records at once.
func TestRecordsOfAMemberThatGoesWhileTheyAreRead(t *testing.T) {
	n, id := newQueue(t, 5)
	a, b := n.worker(id, 1), n.worker(id, 2)
	a.lease(0)
	b.lease(-1)
	m := n.machines[0]
	q := m.partitions[id].cursors.queues["g"]
	share := q.members["m1"]
	share.leaser.credit = 5
	span, _ := q.window.Claim(&queue.Wish{Records: 5, End: 5, WindowMax: 10}, nil)
	g := m.pools.grant()
	g.share, g.span, g.reserved = share, span, queueGrantBytes
	share.leaser.credit -= int64(span.Records)
	share.leaser.inFlight++
	m.hold(share.leaser.peer, g.reserved)
	credit := b.request(mail.RequestLeaseCredit)
	credit.Records = 5
	n.send(&credit)
	b.settle()
	wantRecords(t, "while it is read", b.fresh(), nil)
	off := a.request(mail.RequestUnlease)
	off.Partition = 0
	n.owner(id).Receive(&off)
	n.settle()
	g.read.Log = m.partitions[id].log
	g.ReadDone(&g.read)
	b.settle()
	wantRecords(t, "then", b.fresh(), records(1, 0, 5))
}
