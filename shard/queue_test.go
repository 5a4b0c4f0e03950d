package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// delivered is one record as a member got it.
type delivered struct {
	offset  int64
	attempt uint32
}

// worker is a member of queue group "g" on a connection of its own.
type worker struct {
	n    *node
	name string
	conn mail.ConnRef
	id   core.PartitionID
	got  []delivered
	told []*proto.Error // that no more will come
	more int            // how often there were records and no credit
	rest uint32         // given back by a recall
	full bool           // keeps parcels
	kept []*mail.Parcel
}

const testLease = 77

func (n *node) worker(id core.PartitionID, slot uint32) *worker {
	return &worker{n: n, name: fmt.Sprint("m", slot), conn: mail.ConnRef{Slot: slot, Serial: 1}, id: id}
}

func (w *worker) request(kind mail.RequestKind) mail.Request {
	return mail.Request{Kind: kind, Conn: w.conn, ID: testLease, Partition: w.id, LeaderEpoch: -1}
}

// take goes through answers: those of leases are kept, the others come back.
func (w *worker) take(answers []mail.Answer) (others []mail.Answer) {
	w.n.t.Helper()
	for _, a := range answers {
		switch {
		case a.Kind != mail.AnswerLeased && a.Kind != mail.AnswerLeaseCredit || a.Conn != w.conn:
			others = append(others, a)
			continue
		case a.Kind == mail.AnswerLeaseCredit:
			w.rest += a.Records
		case a.Err != nil:
			w.told = append(w.told, a.Err)
			continue
		default:
			w.leased(a)
		}
		if a.More {
			w.more++
		}
	}
	return others
}

// leased takes a push apart: what is leased must be among the batches.
func (w *worker) leased(a mail.Answer) {
	w.n.t.Helper()
	there := map[int64]bool{}
	for _, r := range parcelRecords(w.n.t, a.Parcel) {
		there[r.Offset] = true
	}
	records, behind := uint32(0), int64(-1)
	body := a.Body.(*mail.Leased)
	for _, r := range body.Ranges {
		if r.BaseOffset < behind || r.NextOffset <= r.BaseOffset {
			w.n.t.Fatalf("ranges %+v", body.Ranges)
		}
		behind = r.NextOffset
		for o := r.BaseOffset; o < r.NextOffset; o++ {
			if !there[o] {
				w.n.t.Fatalf("record %d is leased and in no batch", o)
			}
			w.got = append(w.got, delivered{o, r.Attempt})
			records++
		}
	}
	if records != body.Records || body.TimeoutMillis == 0 {
		w.n.t.Fatalf("%d records in %+v", records, body)
	}
	if w.full {
		w.kept = append(w.kept, a.Parcel)
		return
	}
	w.n.giveBack(w.id, a.Parcel)
}

// settle runs turns until nothing moves, and keeps what came for the worker.
func (w *worker) settle() []mail.Answer {
	w.n.t.Helper()
	w.n.settle()
	others := w.take(w.n.answers())
	w.n.settle()
	return append(others, w.take(w.n.answers())...)
}

func (w *worker) tryLease(owner int64, start core.Offset) *proto.Error {
	w.n.t.Helper()
	r := w.request(mail.RequestLease)
	r.Body = &mail.Lease{Group: "g", Member: w.name, Owner: owner, Start: start}
	w.n.send(&r)
	others := w.settle()
	if len(others) != 1 || others[0].Kind != mail.AnswerLease {
		w.n.t.Fatalf("a LEASE is answered with %+v", others)
	}
	return others[0].Err
}

func (w *worker) lease(start core.Offset) {
	w.n.t.Helper()
	if err := w.tryLease(1, start); err != nil {
		w.n.t.Fatal(err)
	}
}

// credit lets the worker have more, and returns what it got.
func (w *worker) credit(records uint32) []delivered {
	w.n.t.Helper()
	r := w.request(mail.RequestLeaseCredit)
	r.Records = records
	w.n.send(&r)
	if others := w.settle(); len(others) > 0 {
		w.n.t.Fatalf("credit is answered with %+v", others)
	}
	return w.fresh()
}

// fresh is what came since the last call.
func (w *worker) fresh() []delivered {
	got := w.got
	w.got = nil
	return got
}

// wait lets time pass.
func (w *worker) wait(d time.Duration) []delivered {
	w.n.t.Helper()
	for range 4 { // a timer ends up to a tick late, and a window is looked through every 10 ms
		w.n.clock.advance(d / 4)
		w.settle()
	}
	w.n.clock.advance(20 * time.Millisecond)
	w.settle()
	return w.fresh()
}

func (w *worker) trySettle(ranges ...proto.SettledRange) ([]proto.SettledResult, *proto.Error) {
	w.n.t.Helper()
	r := w.request(mail.RequestSettle)
	r.ID, r.Body = 5, &mail.Settle{Group: "g", Member: w.name, Ranges: ranges}
	w.n.send(&r)
	others := w.settle()
	if len(others) != 1 {
		w.n.t.Fatalf("a SETTLE is answered with %+v", others)
	}
	if others[0].Err != nil {
		return nil, others[0].Err
	}
	return others[0].Body.(*proto.SettleResponse).Ranges, nil
}

// settles wants every outcome to take effect.
func (w *worker) settles(ranges ...proto.SettledRange) {
	w.n.t.Helper()
	results, err := w.trySettle(ranges...)
	if err != nil {
		w.n.t.Fatal(err)
	}
	for i, r := range results {
		if r.Error.Code != proto.CodeNone || int64(r.Settled) != ranges[i].NextOffset-ranges[i].BaseOffset {
			w.n.t.Fatalf("%+v: %+v", ranges[i], r)
		}
	}
}

func outcome(o proto.Settlement, attempt uint32, base, next int64) proto.SettledRange {
	return proto.SettledRange{BaseOffset: base, NextOffset: next, Attempt: attempt, Outcome: o}
}

func (w *worker) ack(attempt uint32, base, next int64) {
	w.n.t.Helper()
	w.settles(outcome(proto.SettlementAck, attempt, base, next))
}

func (w *worker) disconnect() {
	w.n.owner(w.id).Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: w.conn})
	w.n.settle()
}

// describe is how the group stands.
func (w *worker) describe() proto.QueuePartition {
	w.n.t.Helper()
	r := w.request(mail.RequestQueue)
	r.ID, r.Body = 6, "g"
	w.n.send(&r)
	others := w.settle()
	if len(others) != 1 || others[0].Err != nil {
		w.n.t.Fatalf("DESCRIBE_QUEUE is answered with %+v", others)
	}
	return *others[0].Body.(*proto.QueuePartition)
}

func (w *worker) wantStands(low, high int64, available, leased, delayed, dead uint64) {
	w.n.t.Helper()
	d := w.describe()
	if d.LowOffset != low || d.HighOffset != high || d.Available != available || d.Leased != leased || d.Delayed != delayed || d.Dead+d.Dying != dead {
		w.n.t.Fatalf("low %d, high %d, %d available, %d leased, %d delayed, %d dead; want %d, %d, %d, %d, %d, %d",
			d.LowOffset, d.HighOffset, d.Available, d.Leased, d.Delayed, d.Dead+d.Dying, low, high, available, leased, delayed, dead)
	}
	if s, _ := w.n.owner(w.id).partitions[w.id].cursors.table.Get("g"); s.Offset != low {
		w.n.t.Fatalf("the committed offset is %d, low is %d", s.Offset, low)
	}
}

func records(attempt uint32, base, next int64) (list []delivered) {
	for o := base; o < next; o++ {
		list = append(list, delivered{o, attempt})
	}
	return list
}

func wantRecords(t testing.TB, what string, got, want []delivered) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// newQueue is a topic of one partition with records, a batch for each five.
func newQueue(t testing.TB, count int, settings ...string) (*node, core.PartitionID) {
	n := newNode(t, 1)
	id := n.create("jobs", 1, settings...).Partitions[0].ID
	produceN(n, id, count/5, 5, 10)
	return n, id
}

func powerCut(n *node) {
	n.t.Helper()
	n.crash(7, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
}

// Members share a partition, each record goes to one of them, and what they settle in any order moves low. All of it
// survives a power cut but who had what.
func TestQueueShares(t *testing.T) {
	n, id := newQueue(t, 20)
	a, b := n.worker(id, 1), n.worker(id, 2)
	if err := a.tryLease(1, -1); err == nil || err.Code != proto.CodeOffsetOutOfRange || err.Offsets.Latest != 20 {
		t.Fatalf("a group that has not begun: %v", err)
	}
	a.lease(2)
	b.lease(-1)
	wantRecords(t, "a", a.credit(4), records(1, 2, 6))
	wantRecords(t, "b", b.credit(4), records(1, 6, 10))
	a.wantStands(2, 10, 10, 8, 0, 0)
	a.settles(outcome(proto.SettlementAck, 1, 2, 3), outcome(proto.SettlementAck, 1, 4, 5))
	b.ack(1, 7, 10)
	a.wantStands(3, 10, 10, 3, 0, 0)
	powerCut(n)
	a.wantStands(3, 10, 13, 0, 0, 0)
	b.lease(-1)
	wantRecords(t, "after the power cut", b.credit(5), []delivered{{3, 2}, {5, 2}, {6, 2}, {10, 1}, {11, 1}})
	// What a had is lost to it, and its late outcome does nothing.
	results, err := a.trySettle(outcome(proto.SettlementAck, 1, 3, 4), outcome(proto.SettlementNack, 1, 5, 7))
	if err != nil || results[0].Error.Code != proto.CodeLeaseLost || results[1].Settled != 0 {
		t.Fatalf("%+v, %v", results, err)
	}
	// An attempt that is not the one that is leased is lost too, and the rest of a range takes effect.
	results, _ = b.trySettle(outcome(proto.SettlementAck, 1, 3, 4), outcome(proto.SettlementAck, 2, 3, 7))
	if results[0].Error.Code != proto.CodeLeaseLost || results[1].Error.Code != proto.CodeLeaseLost || results[1].Settled != 3 {
		t.Fatalf("%+v", results)
	}
	b.wantStands(10, 12, 8, 2, 0, 0)
}

// A delivery is seen only when its count is on disk, an outcome is answered only then too.
func TestQueueCountsBeforeItDelivers(t *testing.T) {
	for _, level := range []string{"sync", "batch", "none"} {
		n, id := newQueue(t, 10, "durability", level, "flush.ms", "60000")
		w := n.worker(id, 1)
		w.lease(0)
		n.settle()
		n.held = true
		wantRecords(t, level+": before its count is on disk", w.credit(3), nil)
		n.held = false
		w.settle()
		wantRecords(t, level, w.fresh(), records(1, 0, 3))
		n.held = true
		r := w.request(mail.RequestSettle)
		r.ID, r.Body = 5, &mail.Settle{Group: "g", Member: w.name, Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, 0, 1)}}
		n.send(&r)
		if got := w.settle(); len(got) != 0 {
			t.Fatalf("%s: an outcome that is not on disk is answered with %+v", level, got)
		}
		n.held = false
		if got := w.settle(); len(got) != 1 || got[0].Err != nil {
			t.Fatalf("%s: %+v", level, got)
		}
		powerCut(n)
		w.lease(-1)
		want := []delivered{{1, 2}, {2, 2}}
		wantRecords(t, level+" after a power cut", w.credit(2), want)
	}
}

// With relaxed counting a delivery needs no frame; a power cut forgets what was counted since the last outcome.
func TestRelaxedAttempts(t *testing.T) {
	n, id := newQueue(t, 10, "queue.attempts", "relaxed", "queue.max.deliveries", "4")
	w := n.worker(id, 1)
	w.lease(0)
	frames := n.machines[0].stats.CursorFrames
	wantRecords(t, "relaxed", w.credit(3), records(1, 0, 3))
	if n.machines[0].stats.CursorFrames != frames {
		t.Error("a relaxed delivery took a frame")
	}
	w.settles(outcome(proto.SettlementNack, 1, 1, 2))
	wantRecords(t, "again", w.credit(1), []delivered{{1, 2}})
	powerCut(n)
	w.lease(-1)
	wantRecords(t, "after a power cut", w.credit(3), []delivered{{0, 1}, {1, 2}, {2, 1}})
}

// What becomes of a record: again at once, later, by the back-off, never again, as if it had not been looked at.
func TestOutcomes(t *testing.T) {
	n, id := newQueue(t, 10, "queue.backoff.ms", "1000,2000")
	w := n.worker(id, 1)
	w.lease(0)
	wantRecords(t, "first", w.credit(5), records(1, 0, 5))
	now := outcome(proto.SettlementNack, 1, 0, 1)
	now.DelayMs = 1
	later := outcome(proto.SettlementNack, 1, 1, 2)
	later.DelayMs = 500
	reject := outcome(proto.SettlementReject, 1, 4, 5)
	reject.Reason = "no good"
	w.settles(now, later, outcome(proto.SettlementNack, 1, 2, 3), outcome(proto.SettlementRelease, 1, 3, 4), reject)
	w.wantStands(0, 5, 6, 0, 3, 1)
	d := w.describe()
	if len(d.Blockers) != 5 || d.Blockers[4].State != proto.QueueRecordStateDead || d.Blockers[4].Reason != "no good" ||
		d.Blockers[1].State != proto.QueueRecordStateDelayed || d.Blockers[1].UntilMs != n.clock.wall/1e6+501 { // none comes early
		t.Fatalf("blockers %+v", d.Blockers)
	}
	wantRecords(t, "released", w.credit(1), []delivered{{3, 1}})
	w.credit(100)
	w.ack(1, 3, 4)
	wantRecords(t, "1 ms", w.wait(10*time.Millisecond), []delivered{{0, 2}})
	wantRecords(t, "500 ms", w.wait(480*time.Millisecond), []delivered{{1, 2}})
	wantRecords(t, "the back-off", w.wait(500*time.Millisecond), []delivered{{2, 2}})
	w.settles(outcome(proto.SettlementNack, 2, 2, 3))
	w.ack(2, 0, 2)
	wantRecords(t, "the longer one", w.wait(1900*time.Millisecond), nil)
	wantRecords(t, "the longer one", w.wait(200*time.Millisecond), []delivered{{2, 3}})
	// Its last attempt: it dies, and waits for somebody who takes it out.
	w.settles(outcome(proto.SettlementNack, 3, 2, 3))
	w.ack(1, 5, 10)
	w.wantStands(2, 10, 0, 0, 0, 2)
	powerCut(n)
	w.wantStands(2, 10, 0, 0, 0, 2)
	if d := w.describe(); d.Blockers[0].Reason != "nacked" || d.Blockers[1].Reason != "no good" || d.Blockers[0].Attempt != 3 {
		t.Fatalf("blockers %+v", d.Blockers)
	}
	results, err := w.trySettle(outcome(proto.SettlementDiscard, 0, 0, 10))
	if err != nil || results[0].Settled != 2 || results[0].Error.Code != proto.CodeNone {
		t.Fatalf("%+v, %v", results, err)
	}
	w.wantStands(10, 10, 0, 0, 0, 0)
}

// A record whose delay is over, and that nobody has taken, is told as available wherever it is told.
func TestDelayThatIsOverIsTold(t *testing.T) {
	n, id := newQueue(t, 5)
	w := n.worker(id, 1)
	w.lease(0)
	wantRecords(t, "first", w.credit(5), records(1, 0, 5))
	later := outcome(proto.SettlementNack, 1, 0, 1)
	later.DelayMs = 100
	w.settles(later)
	if d := w.describe(); d.Delayed != 1 || d.Blockers[0].State != proto.QueueRecordStateDelayed {
		t.Errorf("before: %+v", d)
	}
	w.wait(200 * time.Millisecond)
	if d := w.describe(); d.Delayed != 0 || d.Available != 1 || d.Blockers[0].State != proto.QueueRecordStateAvailable || d.Blockers[0].UntilMs != -1 {
		t.Errorf("after it: %+v", d)
	}
}

// A delay is counted by a clock that nobody sets, and survives a power cut.
func TestDelaysOutliveCrashesAndClocks(t *testing.T) {
	n, id := newQueue(t, 5)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(5)
	nack, soon := outcome(proto.SettlementNack, 1, 0, 3), outcome(proto.SettlementNack, 1, 3, 4)
	nack.DelayMs, soon.DelayMs = 20_000, 100
	w.settles(nack, soon)
	n.clock.wall += int64(365 * 24 * time.Hour)
	w.credit(10)
	wantRecords(t, "the clock was set ahead", w.wait(time.Second), records(2, 3, 4))
	w.settles(outcome(proto.SettlementRelease, 2, 3, 4))
	w.fresh()
	n.clock.wall -= int64(365 * 24 * time.Hour)
	powerCut(n)
	w.lease(-1)
	w.credit(3)
	w.fresh()
	wantRecords(t, "after the power cut", w.wait(17*time.Second), nil)
	wantRecords(t, "in time", w.wait(4*time.Second), records(2, 0, 1))
	w.credit(5)
	w.ack(2, 0, 1)
	// A start on a clock that went back does not wait until it is there again: no delay is that long.
	nack = outcome(proto.SettlementNack, 2, 1, 3)
	nack.DelayMs = 60_000
	w.settles(nack)
	n.clock.wall -= int64(core.QueueBackoffMax)
	powerCut(n)
	w.lease(-1)
	w.wait(10 * time.Millisecond)
	wantRecords(t, "after the clock went back", w.credit(2), records(3, 1, 3))
}

// A lease that is over gives the record to others, until its attempts are used up; whoever is still at work extends it.
func TestLeaseTimeOut(t *testing.T) {
	n, id := newQueue(t, 5, "queue.ack.timeout.ms", "1000", "queue.max.deliveries", "2")
	a, b := n.worker(id, 1), n.worker(id, 2)
	a.lease(0)
	b.lease(-1)
	wantRecords(t, "a", a.credit(5), records(1, 0, 5))
	a.wait(900 * time.Millisecond)
	a.settles(outcome(proto.SettlementExtend, 1, 0, 2))
	a.ack(1, 4, 5)
	b.credit(10)
	wantRecords(t, "b after the time-out", b.wait(200*time.Millisecond), records(2, 2, 4))
	if results, _ := a.trySettle(outcome(proto.SettlementNack, 1, 2, 4), outcome(proto.SettlementExtend, 1, 2, 4)); results[0].Settled != 0 || results[1].Settled != 0 {
		t.Fatalf("who was too late: %+v", results)
	}
	a.wantStands(0, 5, 0, 4, 0, 0)
	b.ack(2, 2, 3)
	// The last attempt of 3 is over: it dies, also when its member comes back with an outcome.
	wantRecords(t, "b", b.wait(1050*time.Millisecond), records(2, 0, 2))
	results, _ := b.trySettle(outcome(proto.SettlementNack, 2, 3, 4))
	if results[0].Error.Code != proto.CodeLeaseLost {
		t.Fatalf("%+v", results)
	}
	b.wantStands(0, 5, 0, 2, 0, 1)
	want := QueueCounts{Delivered: 9, Redelivered: 4, Acked: 2, TimedOut: 5, Dead: 1}
	if s := n.machines[0].Snapshot(); s.Queue != want || len(s.Queues) != 1 || s.Queues[0].QueueCounts != want {
		t.Errorf("counted %+v, shown %+v", s.Queue, s.Queues)
	}
}

// What a connection had goes to others at once when it is gone, or its subscription; what is taken off only keeps its
// leases. Records whose attempts are used up die.
func TestLeavingGivesBack(t *testing.T) {
	for _, way := range []string{"disconnect", "close", "remove, then disconnect"} {
		n, id := newQueue(t, 10, "queue.max.deliveries", "2")
		a, b := n.worker(id, 1), n.worker(id, 2)
		a.lease(0)
		b.lease(-1)
		wantRecords(t, way, a.credit(3), records(1, 0, 3))
		wantRecords(t, way, b.credit(3), records(1, 3, 6))
		b.credit(10)
		b.ack(1, 3, 6)
		b.ack(1, 6, 10)
		b.fresh()
		switch way {
		case "close":
			r := a.request(mail.RequestUnlease)
			r.Partition = 0
			n.owner(id).Receive(&r)
		case "remove, then disconnect":
			r := a.request(mail.RequestUnlease)
			n.send(&r)
			b.settle()
			wantRecords(t, way, b.fresh(), nil)
			a.ack(1, 0, 1)
			a.disconnect()
		default:
			a.disconnect()
		}
		b.settle()
		first := int64(0)
		if way == "remove, then disconnect" {
			first = 1
		}
		wantRecords(t, way+": b", b.fresh(), records(2, first, 3))
		b.disconnect()
		b.wantStands(first, 10, 0, 0, 0, uint64(3-first))
		if d := b.describe(); d.Blockers[0].Reason != "abandoned" {
			t.Errorf("%s: %+v", way, d.Blockers[0])
		}
		if m := n.machines[0]; len(m.peers) != 0 || m.memory.parcels != 0 {
			t.Errorf("%s: %d peers, %d bytes are held", way, len(m.peers), m.memory.parcels)
		}
	}
}

// A member that goes while the count of its delivery is written has seen nothing: it does not count.
func TestUnseenDeliveryDoesNotCount(t *testing.T) {
	n, id := newQueue(t, 5)
	a, b := n.worker(id, 1), n.worker(id, 2)
	a.lease(0)
	b.lease(-1)
	n.held = true
	a.credit(5)
	a.disconnect()
	n.held = false
	b.settle()
	wantRecords(t, "b", b.credit(5), records(1, 0, 5))
	b.wantStands(0, 5, 0, 5, 0, 0)
}

// The window bounds what is leased beyond the oldest record that is not settled.
func TestQueueWindow(t *testing.T) {
	n, id := newQueue(t, 100, "queue.window.max", "20")
	w := n.worker(id, 1)
	w.lease(0)
	wantRecords(t, "a full window", w.credit(50), records(1, 0, 20))
	w.ack(1, 1, 20)
	w.settle()
	wantRecords(t, "the oldest holds it", w.fresh(), nil)
	if d := w.describe(); d.WindowRecords != 20 || d.WindowRecordsMax != 20 || d.Available != 0 || len(d.Blockers) != 1 || d.Blockers[0].MemberID != "m1" {
		t.Fatalf("%+v", d)
	}
	stands := GroupQueue{Group: "g", QueueCounts: QueueCounts{Delivered: 20, Acked: 19}, Windows: 1, WindowsFull: 1, Records: 20, Leased: 1}
	if s := n.machines[0].Snapshot(); len(s.Queues) != 1 || s.Queues[0] != stands || s.QueueOthers != (GroupQueue{}) || s.Lags[0].Records != 100 {
		t.Errorf("shown %+v, others %+v, lags %+v", s.Queues, s.QueueOthers, s.Lags)
	}
	w.ack(1, 0, 1)
	w.settle()
	wantRecords(t, "the next window", w.fresh(), records(1, 20, 40))
}

// Credit is spent on what is pushed, told when it is missing, and given back when it is recalled.
func TestLeaseCredit(t *testing.T) {
	n, id := newQueue(t, 10)
	w := n.worker(id, 1)
	w.lease(0)
	if w.settle(); w.more != 1 {
		t.Fatalf("told %d times that there are records and no credit", w.more)
	}
	wantRecords(t, "4", w.credit(4), records(1, 0, 4))
	if w.more != 2 {
		t.Fatalf("told %d times", w.more)
	}
	wantRecords(t, "the rest", w.credit(10), records(1, 4, 10))
	recall := w.request(mail.RequestLeaseRecall)
	n.send(&recall)
	if w.settle(); w.rest != 4 || w.more != 2 {
		t.Fatalf("a recall gives %d back, told %d times", w.rest, w.more)
	}
	w.take(n.ask(n.produceRequest(id, batchSpec{records: 5, producer: -1})))
	if w.settle(); w.more != 3 || len(w.fresh()) != 0 {
		t.Fatalf("told %d times", w.more)
	}
	stranger := n.worker(id, 9)
	recall = stranger.request(mail.RequestLeaseRecall)
	n.send(&recall)
	n.settle()
	if got := n.answers(); len(got) != 1 || got[0].Records != 0 || !got[0].Recalled || len(n.machines[0].peers) != 1 {
		t.Fatalf("%+v, %d peers", got, len(n.machines[0].peers))
	}
}

// Partitions are given to those who wait in turn, in parts, so that nobody takes what many could.
func TestLeasesInTurn(t *testing.T) {
	n, id := newQueue(t, 100)
	var all []*worker
	for i := range uint32(4) {
		w := n.worker(id, 1+i)
		w.lease(0)
		all = append(all, w)
	}
	n.held = true // so that credit comes before records go
	for _, w := range all {
		r := w.request(mail.RequestLeaseCredit)
		r.Records = 100
		w.n.owner(id).Receive(&r)
	}
	n.held = false
	n.settle()
	answers := n.answers()
	total := 0
	for _, w := range all {
		answers = w.take(answers)
		if n := len(w.got); n < 10 || n > 40 {
			t.Errorf("%s has %d records", w.name, n)
		}
		total += len(w.got)
	}
	if total != 100 {
		t.Errorf("%d records were leased", total)
	}
}

// A seek begins anew at its offset, for members of its epoch; what the others have is lost. Nobody else moves a queue group's
// offset.
func TestQueueSeek(t *testing.T) {
	n, id := newQueue(t, 20)
	w := n.worker(id, 1)
	w.lease(10)
	wantRecords(t, "first", w.credit(5), records(1, 10, 15))
	for _, deed := range []mail.CursorDeed{mail.CursorCommit, mail.CursorOwn} {
		if _, err := n.cursor(id, mail.Cursor{Deed: deed, Group: "g", Owner: 3, Offset: 12}); err == nil || err.Code != proto.CodeGroupKindMismatch {
			t.Errorf("deed %d: %v", deed, err)
		}
	}
	if a := w.take(n.ask(mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1,
		Body: &mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: 3, Offset: 2}})); len(a) != 1 || a[0].Err != nil {
		t.Fatalf("%+v", a)
	}
	if len(w.told) != 1 || w.told[0].Code != proto.CodeStaleEpoch {
		t.Fatalf("told %v", w.told)
	}
	if results, _ := w.trySettle(outcome(proto.SettlementAck, 1, 10, 15)); results[0].Settled != 0 {
		t.Fatalf("%+v", results)
	}
	if err := w.tryLease(2, -1); err == nil || err.Code != proto.CodeStaleEpoch {
		t.Fatalf("%v", err)
	}
	powerCut(n)
	if err := w.tryLease(3, -1); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, "after the seek", w.credit(9), records(1, 2, 11))
	// A group that was set before anybody leased begins there.
	n.mustCursor(id, mail.Cursor{Deed: mail.CursorSeek, Group: "h", Owner: 1, Offset: 4})
	r := w.request(mail.RequestLease)
	r.ID, r.Body = 78, &mail.Lease{Group: "h", Member: "x", Owner: 2, Start: -1}
	if a := n.ask(r)[0]; a.Err != nil || a.Kind != mail.AnswerLease || a.Offset != 4 {
		t.Fatalf("%+v", a)
	}
}

// A seek meets leases and outcomes on their way to the disk: they do nothing to the window that it begins.
func TestSeekMeetsWhatIsUnderWay(t *testing.T) {
	n, id := newQueue(t, 20)
	a, b := n.worker(id, 1), n.worker(id, 2)
	a.lease(10)
	if err := b.tryLease(9, -1); err != nil {
		t.Fatal(err)
	}
	a.credit(5)
	a.fresh()
	n.held = true
	seek := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: 9, Offset: 12}}
	n.send(&seek)
	n.turn()
	settle := a.request(mail.RequestSettle)
	settle.ID, settle.Body = 5, &mail.Settle{Group: "g", Member: "m1", Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, 10, 15)}}
	n.send(&settle)
	b.credit(3) // claims 15 to 17 of the window before
	n.held = false
	others := b.take(a.settle())
	b.settle()
	settled := false
	for _, o := range others {
		if o.Kind == mail.AnswerSettle {
			settled = true
			if r := o.Body.(*proto.SettleResponse).Ranges[0]; r.Settled != 0 || r.Error.Code != proto.CodeLeaseLost {
				t.Errorf("settled %+v", r)
			}
		}
	}
	if !settled {
		t.Errorf("answers %+v", others)
	}
	wantRecords(t, "b has the window that the seek began", b.fresh(), records(1, 12, 15))
	b.wantStands(12, 15, 5, 3, 0, 0)
	powerCut(n)
	b.wantStands(12, 15, 8, 0, 0, 0)
}

// What has no frame yet when a seek takes effect, because one is under way, is void too.
func TestSeekMeetsWhatWaits(t *testing.T) {
	n, id := newQueue(t, 20)
	a := n.worker(id, 1)
	a.lease(10)
	a.credit(5)
	n.held = true
	settle := func(id uint64, base, next int64) {
		r := a.request(mail.RequestSettle)
		r.ID, r.Body = id, &mail.Settle{Group: "g", Member: "m1", Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, base, next)}}
		n.send(&r)
		n.turn()
	}
	settle(101, 10, 11)
	settle(103, 11, 12) // goes with the seek, and behind it
	seek := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: 9, Offset: 12}}
	n.send(&seek)
	n.turn()
	settle(102, 12, 14)
	n.held = false
	settled := map[uint64]uint32{}
	for _, o := range a.settle() {
		if o.Kind == mail.AnswerSettle {
			settled[o.ID] = o.Body.(*proto.SettleResponse).Ranges[0].Settled
		}
	}
	if len(settled) != 3 || settled[101] != 1 || settled[102] != 0 || settled[103] != 0 {
		t.Errorf("settled %v", settled)
	}
	a.wantStands(12, 12, 8, 0, 0, 0)
}

// What retention or a trim takes away is settled, and counted.
func TestTrimSettles(t *testing.T) {
	n, id := newQueue(t, 20)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(10)
	w.ack(1, 2, 4)
	w.fresh()
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 5}); a.Err != nil {
		t.Fatal(a.Err)
	}
	w.settle()
	w.wantStands(5, 10, 10, 5, 0, 0)
	if got := n.machines[0].stats.Queue.Trimmed; got != 3 {
		t.Errorf("%d records are counted", got)
	}
	if results, _ := w.trySettle(outcome(proto.SettlementAck, 1, 4, 6)); results[0].Settled != 1 {
		t.Errorf("%+v", results)
	}
	// Also past everything that was ever leased, in one step.
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 15}); a.Err != nil {
		t.Fatal(a.Err)
	}
	w.settle()
	w.wantStands(15, 15, 5, 0, 0, 0)
	wantRecords(t, "the rest", w.credit(9), records(1, 15, 20))
}

// A group that is deleted, or forgotten, has no window any more; its members are told.
func TestForgottenQueue(t *testing.T) {
	n, id := newQueue(t, 10)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(2)
	w.fresh()
	m := n.machines[0]
	n.held = true
	m.forget(&mail.Letter{Kind: mail.LetterForget, From: 0, Group: "g", Time: forgetAll, Owner: ownerAny})
	n.turn()
	settle := w.request(mail.RequestSettle)
	settle.ID, settle.Body = 5, &mail.Settle{Group: "g", Member: "m1", Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, 0, 1)}}
	n.send(&settle)
	n.turn()
	n.held = false
	others := w.settle()
	if len(others) != 1 || others[0].Body.(*proto.SettleResponse).Ranges[0].Error.Code != proto.CodeLeaseLost {
		t.Errorf("%+v", others)
	}
	if len(w.told) != 1 || w.told[0].Code != proto.CodeUnknownGroup {
		t.Errorf("told %v", w.told)
	}
	if cs := m.partitions[id].cursors; len(cs.queues) != 0 || len(cs.queueList) != 0 || cs.table.Groups() != 0 || cs.settles != 0 {
		t.Errorf("left: %d, %d, %d groups, %d settles", len(cs.queues), len(cs.queueList), cs.table.Groups(), cs.settles)
	}
	if _, err := w.trySettle(outcome(proto.SettlementAck, 1, 0, 1)); err == nil || err.Code != proto.CodeUnknownGroup {
		t.Errorf("%v", err)
	}
	w.lease(6)
	wantRecords(t, "begun anew", w.credit(9), records(1, 6, 10))
}

// The members of a topic that is deleted, and of a broker that stops, are told.
func TestQueueEndsWithItsPartition(t *testing.T) {
	for _, way := range []string{"delete", "stop"} {
		n, id := newQueue(t, 10)
		w := n.worker(id, 1)
		w.full = true
		w.lease(0)
		w.credit(2)
		m := n.machines[0]
		code := proto.CodeUnknownTopic
		if way == "delete" {
			w.take(n.ask(mail.Request{Kind: mail.RequestAdmin, Body: &proto.DeleteTopicRequest{Name: "jobs"}}))
			w.settle()
		} else {
			code = proto.CodeShuttingDown
			n.stop()
			w.take(n.answers())
		}
		if len(w.told) != 1 || w.told[0].Code != code {
			t.Errorf("%s: told %v", way, w.told)
		}
		for _, p := range w.kept {
			m.Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: p})
		}
		m.Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: w.conn})
		if len(m.peers) != 0 || m.memory.parcels != 0 {
			t.Errorf("%s: %d peers, %d bytes are held", way, len(m.peers), m.memory.parcels)
		}
	}
}

// A write before a lease and an outcome fails: the outcome is told so, everything is as before, and goes on.
func TestQueueRollsBack(t *testing.T) {
	n, id := newQueue(t, 10)
	w := n.worker(id, 1)
	w.lease(0)
	wantRecords(t, "first", w.credit(2), records(1, 0, 2))
	n.clock.advance(time.Second)
	w.settle()
	fault := n.disks[0].folder.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*", Count: 1})
	produce := n.produceRequest(id, batchSpec{records: 1, value: 700 << 10, producer: -1}) // too large for the journal
	n.send(&produce)
	settle := w.request(mail.RequestSettle)
	settle.ID, settle.Body = 5, &mail.Settle{Group: "g", Member: "m1", Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, 0, 1)}}
	credit := w.request(mail.RequestLeaseCredit)
	credit.Records = 2
	n.machines[0].Receive(&credit)
	n.send(&settle)
	var others []mail.Answer
	for range 5 {
		others = append(others, w.settle()...)
		n.clock.advance(time.Second)
	}
	if fault.Hits() == 0 || n.machines[0].stats.RolledBack == 0 {
		t.Fatalf("the fault was hit %d times, rolled back %d times", fault.Hits(), n.machines[0].stats.RolledBack)
	}
	failed := false
	for _, a := range others {
		failed = failed || a.ID == settle.ID && a.Err != nil && a.Err.Code == proto.CodeStorageError
	}
	if !failed {
		t.Fatalf("%+v", others)
	}
	wantRecords(t, "then", w.fresh(), records(1, 2, 4))
	w.ack(1, 0, 1)
	w.wantStands(1, 4, 6, 3, 0, 0)
	powerCut(n)
	w.wantStands(1, 4, 9, 0, 0, 0)
}

// A delivery whose read was under way when the durability was raised leases nothing of what that hides, and goes on later.
func TestLeasesUnderWayHideWhatARaisedDurabilityHides(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("jobs", 1, "durability", "batch", "flush.ms", "60000")
	id := topic.Partitions[0].ID
	produceN(n, id, 1, 1, 10)
	w := n.worker(id, 1)
	w.lease(0)
	produceN(n, id, 1, 1, 10)
	m := n.machines[0]
	p := m.partitions[id]
	n.held = true
	credit := w.request(mail.RequestLeaseCredit)
	credit.Records = 5
	m.Receive(&credit)
	q := m.leasable.Pop()
	q.queued = false
	wish := q.wish(5)
	span, _ := q.window.Claim(&wish, nil)
	g := m.pools.grant()
	s := q.shares[0]
	g.share, g.span, g.reserved = s, span, queueGrantBytes
	s.leaser.credit -= int64(span.Records)
	s.leaser.inFlight++
	m.hold(s.leaser.peer, g.reserved)
	g.read = segment.Read{Log: p.log, Offset: 0, Limit: p.highWatermark(), BytesMax: 1000, Owner: g}
	if !m.store.Read(&g.read) || g.read.Next != 2 {
		t.Fatalf("read up to %d", g.read.Next)
	}
	raised := *topic
	raised.Config.Durability = core.DurabilitySync
	p.configure(&raised)
	if p.highWatermark() != 1 {
		t.Skipf("the engine has synced up to %d", p.highWatermark())
	}
	g.ReadDone(&g.read)
	n.turn()
	if q.window.High() > 2 || q.window.Leased() != 1 {
		t.Fatalf("high %d, %d leased", q.window.High(), q.window.Leased())
	}
	n.held = false
	w.settle()
	wantRecords(t, "after the sync", w.fresh(), records(1, 0, 2))
	if m.memory.parcels != 0 {
		t.Errorf("%d bytes are held", m.memory.parcels)
	}
}

// State files carry windows over the segments that held their entries.
func TestQueueStateFile(t *testing.T) {
	n, id := newQueue(t, 20)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(10)
	w.ack(1, 3, 6)
	reject := outcome(proto.SettlementReject, 1, 7, 8)
	reject.Reason = "why"
	w.settles(reject)
	p := n.machines[0].partitions[id]
	state := p.Snapshot(nil)
	fresh := n.machines[0].newPartition(1<<40, p.topic, 0)
	delete(n.machines[0].partitions, 1<<40)
	if err := fresh.Restore(state); err != nil {
		t.Fatal(err)
	}
	a, b := p.cursors.table.AppendQueues(nil), fresh.cursors.table.AppendQueues(nil)
	if string(a) != string(b) {
		t.Errorf("%x is restored as %x", a, b)
	}
	// A snapshot that is taken while frames wait holds them.
	n.held = true
	settle := w.request(mail.RequestSettle)
	settle.ID, settle.Body = 5, &mail.Settle{Group: "g", Member: "m1", Ranges: []proto.SettledRange{outcome(proto.SettlementAck, 1, 0, 1)}}
	n.send(&settle)
	n.turn()
	state = p.Snapshot(nil)
	if err := fresh.Restore(state); err != nil {
		t.Fatal(err)
	}
	if low := fresh.cursors.table.Window("g").Low(); low != 1 || p.cursors.table.Window("g").Low() != 0 {
		t.Errorf("low %d in the snapshot", low)
	}
	n.held = false
	w.settle()
	for cut := range state {
		if fresh.Restore(state[:cut]) == nil && cut > 2 && string(state[:cut]) != string(state) && cut < len(state)-len(a) {
			break // sections that are whole are read; a cut within one is refused, which the package's tests see
		}
	}
}

// More groups than a partition's state holds are refused.
func TestTooManyQueues(t *testing.T) {
	n, id := newQueue(t, 5)
	p := n.machines[0].partitions[id]
	w := n.worker(id, 1)
	w.lease(0)
	cs := p.cursors
	cs.windows = core.QueueBytesMax - core.QueueTextBytesMax - cs.table.QueueBytes()
	r := w.request(mail.RequestLease)
	r.ID, r.Body = 78, &mail.Lease{Group: "h", Member: "x", Owner: 2}
	if a := n.one(r); a.Err == nil || a.Err.Code != proto.CodeGroupFull || a.Kind != mail.AnswerLease {
		t.Fatalf("%+v", a)
	}
	cs.windows = 0
	if a := n.ask(r)[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	if a := n.ask(r)[0]; a.Err == nil || a.Err.Code != proto.CodeInvalidRequest {
		t.Fatalf("a partition that is there already: %+v", a)
	}
}

// A LEASE that comes after its group was deleted leaves nothing behind, and what drops it leaves a new group of the name alone.
func TestLeaseAfterItsGroupWasDeleted(t *testing.T) {
	n, id := newQueue(t, 5)
	w := n.worker(id, 1)
	w.lease(0) // nobody knows which groups there are: it stays
	m := n.machines[0]
	m.forget(&mail.Letter{Kind: mail.LetterForget, Group: "g", Time: forgetAll, Owner: 0})
	w.settle()
	w.wantStands(0, 0, 5, 0, 0, 0)
	powerCut(n)
	m = n.machines[0]
	m.forget(&mail.Letter{Kind: mail.LetterForget, Group: "g", Time: forgetAll, Owner: 0})
	w.settle()
	w.wantStands(0, 0, 5, 0, 0, 0)
	m.forget(&mail.Letter{Kind: mail.LetterForget, Group: "g", Time: forgetAll, Owner: 1})
	w.settle()
	n.groups()
	w.lease(0)
	if n.settle(); len(w.told) != 1 || w.told[0].Code != proto.CodeUnknownGroup || n.machines[0].partitions[id].cursors.table.Groups() != 0 {
		t.Errorf("told %v, %d groups", w.told, n.machines[0].partitions[id].cursors.table.Groups())
	}
}

// A record that dies goes to the dead-letter topic once, also when the power goes in between, and a seek leaves what is on its
// way to itself.
func TestDyingRecordsReachTheirTopic(t *testing.T) {
	n := newNode(t, 1)
	dead := n.create("dead", 1).Partitions[0].ID
	id := n.create("jobs", 1, "dead.letter.topic", "dead", "queue.max.deliveries", "1").Partitions[0].ID
	produceN(n, id, 2, 5, 10)
	w := n.worker(id, 1)
	w.lease(0)
	wantRecords(t, "first", w.credit(4), records(1, 0, 4))
	reject := outcome(proto.SettlementReject, 1, 1, 2)
	reject.Reason = "no good"
	w.settles(outcome(proto.SettlementNack, 1, 0, 1), reject)
	for range 5 {
		n.clock.advance(100 * time.Millisecond)
		w.settle()
	}
	w.wantStands(2, 4, 6, 2, 0, 0)
	if got := n.readAll(dead); len(got) != 2 || string(got[0].Key) != "key-0" {
		t.Fatalf("%d dead letters", len(got))
	}
	// The count of 2 and 3 is used up by the power cut: they die without being delivered again.
	powerCut(n)
	w.lease(-1)
	wantRecords(t, "after the power cut", w.credit(2), records(1, 4, 6))
	for range 5 {
		n.clock.advance(100 * time.Millisecond)
		w.settle()
	}
	w.wantStands(4, 6, 4, 2, 0, 0)
	if got := n.readAll(dead); len(got) != 4 {
		t.Fatalf("%d dead letters", len(got))
	}
	// The power goes when they lie there and nobody knows.
	n.held = true
	w.disconnect()
	for range 3 {
		n.turn()
	}
	n.held = false
	for range 4 {
		n.turn()
	}
	powerCut(n)
	w.lease(-1)
	wantRecords(t, "after the next one", w.credit(1), records(1, 6, 7))
	for range 5 {
		n.clock.advance(100 * time.Millisecond)
		w.settle()
	}
	if got := n.readAll(dead); len(got) != 6 {
		t.Fatalf("%d dead letters", len(got))
	}
	w.wantStands(6, 7, 3, 1, 0, 0)
}

// Offsets that compaction has left out are settled by the way.
func TestQueueOverCompactedRecords(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("c", 1, "cleanup.policy", "compact", "segment.bytes", "1MiB", "max.message.bytes", "512KiB").Partitions[0].ID
	const records = 3
	write := func() {
		if a := n.one(n.produceRequest(id, batchSpec{records: records, value: 100 << 10, producer: -1})); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	write()
	w := n.worker(id, 1)
	w.lease(0)
	p := n.owner(id).partitions[id]
	for step := 0; ; step++ {
		if step > 100 {
			t.Fatal("compaction has left everything")
		}
		write()
		n.clock.advance(10 * time.Minute)
		n.settle()
		if all := n.readAll(id); step > 10 && int64(len(all)) < int64(p.log.EndOffset()) {
			break
		}
	}
	there := map[int64]bool{}
	for _, r := range n.readAll(id) {
		there[r.Offset] = true
	}
	n.answers()
	w.n = n
	got := map[int64]bool{}
	for range 300 {
		r := w.request(mail.RequestLeaseCredit)
		r.Records = 100
		n.send(&r)
		n.settle()
		var ranges []proto.SettledRange
		for _, a := range n.answers() {
			if a.Kind != mail.AnswerLeased {
				continue
			}
			for _, r := range a.Body.(*mail.Leased).Ranges {
				ranges = append(ranges, outcome(proto.SettlementAck, 1, r.BaseOffset, r.NextOffset))
				for o := r.BaseOffset; o < r.NextOffset; o++ {
					got[o] = true
				}
			}
			n.giveBack(id, a.Parcel)
		}
		if len(ranges) == 0 {
			break
		}
		w.settles(ranges...)
	}
	for o := range there {
		if !got[o] {
			t.Errorf("record %d was not delivered", o)
		}
	}
	if len(got) >= int(p.log.EndOffset()) {
		t.Errorf("%d of %d offsets were delivered, %d have a record", len(got), p.log.EndOffset(), len(there))
	}
	if s, _ := p.cursors.table.Get("g"); core.Offset(s.Offset) != p.log.EndOffset() {
		t.Errorf("low %d of %d", s.Offset, p.log.EndOffset())
	}
}

// Records that the log cannot give any more stay, dead, with that reason, and the others go on. A busy disk is asked again; what
// else fails is told.
func TestQueueReadErrors(t *testing.T) {
	n, id := newQueue(t, 20)
	w := n.worker(id, 1)
	w.lease(0)
	m := n.machines[0]
	q := m.partitions[id].cursors.queues["g"]
	fail := func(err *proto.Error) {
		q.shares[0].leaser.credit = 10
		wish := q.wish(10)
		span, _ := q.window.Claim(&wish, nil)
		g := m.pools.grant()
		g.share, g.span, g.reserved = q.shares[0], span, queueGrantBytes
		g.share.leaser.credit -= int64(span.Records)
		g.share.leaser.inFlight++
		m.hold(g.share.leaser.peer, g.reserved)
		g.failed(err)
		w.settle()
	}
	fail(&proto.Error{Code: proto.CodeCorruptRecord, Damage: &proto.DamagedRange{BaseOffset: 0, NextOffset: 5}})
	wantRecords(t, "behind the damage", w.fresh(), records(1, 5, 15))
	w.wantStands(0, 15, 5, 10, 0, 5)
	if d := w.describe(); d.Blockers[0].Reason != "damaged" {
		t.Errorf("%+v", d.Blockers[0])
	}
	fail(errOverloadedDisk)
	wantRecords(t, "the disk is busy", w.fresh(), nil)
	wantRecords(t, "then", w.wait(40*time.Millisecond), records(1, 15, 20))
	produceAndTake := w.take(n.ask(n.produceRequest(id, batchSpec{records: 5, producer: -1})))
	if len(produceAndTake) != 1 {
		t.Fatalf("%+v", produceAndTake)
	}
	w.wait(40 * time.Millisecond)
	if m.memory.parcels != 0 || len(w.told) != 0 {
		t.Errorf("%d bytes are held, told %v", m.memory.parcels, w.told)
	}
	q.shares[0].leaser.credit = 0
	fail(&proto.Error{Code: proto.CodeStorageError})
	if len(w.told) != 1 || w.told[0].Code != proto.CodeStorageError || m.memory.parcels != 0 {
		t.Errorf("told %v, %d bytes are held", w.told, m.memory.parcels)
	}
}

// Deliveries wait for memory that others hold, and go on when it comes back: that of their connection, and that of the shard.
func TestQueueWaitsForMemory(t *testing.T) {
	const count = 60
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 32 << 20 })
	id := n.create("jobs", 1).Partitions[0].ID
	for range count {
		produceN(n, id, 1, 1, 900<<10)
	}
	var all []*worker
	total := 0
	take := func(answers []mail.Answer) {
		for _, w := range all {
			before := len(w.kept)
			answers = w.take(answers)
			total += len(w.kept) - before
		}
	}
	for i := range uint32(8) {
		w := n.worker(id, 1+i)
		w.full = true
		w.lease(0)
		all = append(all, w)
		r := w.request(mail.RequestLeaseCredit)
		r.Records = 100
		n.send(&r)
		n.settle()
		take(n.answers())
	}
	m := n.machines[0]
	if most := len(all[0].kept); most > 5 || m.parched.Len() != 1 || total >= count {
		t.Fatalf("the first connection has %d deliveries, all have %d, %d groups wait", most, total, m.parched.Len())
	}
	for round := 0; total < count; round++ {
		if round > 3*count {
			t.Fatalf("%d deliveries of %d", total, count)
		}
		for _, w := range all {
			if len(w.kept) > 0 {
				n.giveBack(id, w.kept[0])
				w.kept = w.kept[1:]
				break
			}
		}
		n.settle()
		take(n.answers())
	}
	for _, w := range all {
		m.Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: w.conn})
	}
	n.settle()
	take(n.answers())
	for _, w := range all {
		for _, parcel := range w.kept {
			n.giveBack(id, parcel)
		}
	}
	if m.memory.parcels != 0 || len(m.peers) != 0 || m.parched.Len() != 0 {
		t.Errorf("%d bytes are held, %d peers, %d groups wait", m.memory.parcels, len(m.peers), m.parched.Len())
	}
}

// One message that is never acknowledged holds the window, which is shown, and no disk: retention goes on, and settles it.
func TestUnackedRecordHoldsNoSpace(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("jobs", 1, "retention.bytes", "4MiB", "segment.bytes", "1MiB", "max.message.bytes", "512KiB", "queue.window.max", "20").Partitions[0].ID
	w := n.worker(id, 1)
	p := n.machines[0].partitions[id]
	w.lease(0)
	full := false
	for i := range 200 {
		r := n.produceRequest(id, batchSpec{records: 1, value: 200 << 10, producer: -1})
		n.send(&r)
		w.settle()
		w.credit(1)
		for o := int64(1); i < 30 && o < 30; o++ {
			if _, err := w.trySettle(outcome(proto.SettlementAck, 1, o, o+1)); err != nil {
				t.Fatal(err)
			}
		}
		if s := n.machines[0].Snapshot(); len(s.Queues) == 1 && s.Queues[0].WindowsFull == 1 {
			full = true
		}
		n.clock.advance(2 * time.Second)
		w.settle()
		if size := p.log.SizeBytes(); size > 16<<20 {
			t.Fatalf("the log has %d bytes", size)
		}
	}
	if !full {
		t.Error("no metric has said that the window is full")
	}
	if d := w.describe(); d.LowOffset < int64(p.log.StartOffset()) || p.log.StartOffset() == 0 {
		t.Errorf("low %d, the log begins at %d", d.LowOffset, p.log.StartOffset())
	}
	if n.machines[0].stats.Queue.Trimmed == 0 {
		t.Error("nothing is counted as trimmed")
	}
}

// Groups that come and go leave nothing behind.
func TestShortLivedQueues(t *testing.T) {
	n, id := newQueue(t, 5)
	m := n.machines[0]
	for round := range 3 {
		for g := range core.QueuesPerPartitionMax + 1 {
			r := mail.Request{Kind: mail.RequestLease, Conn: mail.ConnRef{Slot: 1}, ID: uint64(1000*round + g%100 + 1), Partition: id, LeaderEpoch: -1, Received: n.clock.monotonic,
				Body: &mail.Lease{Group: fmt.Sprint("g", round, "-", g), Member: "m", Owner: 1}}
			r.Conn.Slot = uint32(g)
			m.Receive(&r)
			if g%100 == 0 {
				n.settle()
			}
		}
		n.settle()
		refused := 0
		for _, a := range n.answers() {
			if a.Err != nil && a.Err.Code == proto.CodeGroupFull && a.Err.Limit == core.QueuesPerPartitionMax {
				refused++
			} else if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		if refused != 1 {
			t.Errorf("%d groups were refused", refused)
		}
		for g := range core.QueuesPerPartitionMax + 1 {
			m.Receive(&mail.Request{Kind: mail.RequestDisconnect, Conn: mail.ConnRef{Slot: uint32(g)}})
			m.forget(&mail.Letter{Kind: mail.LetterForget, Group: fmt.Sprint("g", round, "-", g), Time: forgetAll, Owner: ownerAny})
		}
		n.settle()
		n.answers()
		cs := m.partitions[id].cursors
		if len(cs.queues) != 0 || len(cs.queueList) != 0 || cs.table.Queues() != 0 || cs.table.Groups() != 0 || cs.windows != 0 || cs.growth != 0 || len(m.peers) != 0 {
			t.Fatalf("left: %d, %d, %d windows, %d groups, %d and %d bytes reckoned, %d peers", len(cs.queues), len(cs.queueList), cs.table.Queues(), cs.table.Groups(), cs.windows, cs.growth, len(m.peers))
		}
	}
}

// Everything expires into the dead-letter topic at once: each record is there once, and the window holds no more than its limit.
func TestAllExpireAtOnce(t *testing.T) {
	const count = 6_000
	n := newNode(t, 2)
	dead := n.create("dead", 2)
	id := n.create("jobs", 1, "dead.letter.topic", "dead", "queue.max.deliveries", "1", "queue.ack.timeout.ms", "1000", "queue.window.max", "500").Partitions[0].ID
	produceN(n, id, count/500, 500, 10)
	w := n.worker(id, 1)
	w.lease(0)
	w.credit(count)
	p := n.owner(id).partitions[id]
	for round := 0; ; round++ {
		if s, _ := p.cursors.table.Get("g"); s.Offset == count {
			break
		}
		if round > 2_000 {
			t.Fatalf("the group stands at %+v", w.describe())
		}
		n.clock.advance(200 * time.Millisecond)
		w.settle()
		if records := p.cursors.table.Window("g").Records(); records > 500 {
			t.Fatalf("%d records in the window", records)
		}
	}
	seen := map[string]int{}
	letters := 0
	for _, to := range dead.Partitions {
		for _, r := range n.readAll(to.ID) {
			letters++
			for _, h := range r.Headers {
				if string(h.Key) == "mq-offset" {
					seen[string(h.Value)]++
				}
			}
		}
	}
	if letters != count || len(seen) != count {
		t.Errorf("%d dead letters of %d records, %d were expected", letters, len(seen), count)
	}
	if got := n.owner(id).stats.Queue; got.Dying != count || got.TimedOut != count || got.Delivered != count {
		t.Errorf("counted %+v", got)
	}
}

// Many messages that are delayed by a day take their window and few bytes of state; a restart in between delivers none early, and
// none that was acknowledged.
func TestManyDelayedByADay(t *testing.T) {
	const count = 2_000
	n := newNode(t, 1)
	id := n.create("jobs", 1, "queue.window.max", fmt.Sprint(count), "retention.ms", "unlimited").Partitions[0].ID
	produceN(n, id, 10, 500, 10)
	w := n.worker(id, 1)
	w.lease(0)
	if got := len(w.credit(2 * count)); got != count {
		t.Fatalf("%d records were leased", got)
	}
	nack := outcome(proto.SettlementNack, 1, 10, count)
	nack.DelayMs = uint32((24 * time.Hour).Milliseconds())
	w.settles(nack)
	w.ack(1, 5, 10)
	w.wantStands(0, count, 0, 5, count-10, 0)
	w.ack(1, 1, 5)
	for _, when := range []string{"an hour", "a second hour"} {
		powerCut(n)
		p := n.machines[0].partitions[id]
		if state := p.cursors.table.AppendQueues(nil); len(state) > 200 {
			t.Errorf("the state of a run of delays takes %d bytes", len(state))
		}
		w.lease(-1)
		want := []delivered{{0, 2}}
		if when != "an hour" {
			want = []delivered{{0, 3}}
		}
		wantRecords(t, when, w.credit(5), want)
		wantRecords(t, when, w.wait(time.Second), nil)
		n.clock.advance(time.Hour)
	}
	w.settle()
	w.fresh()
	w.credit(2 * count)
	got := w.wait(21*time.Hour + 50*time.Minute)
	for _, d := range got {
		if d.offset != 0 {
			t.Fatalf("%v came early", d)
		}
	}
	w.fresh()
	got = w.wait(20 * time.Minute)
	due := map[int64]bool{} // a lease lasts half a minute, so they come more than once in that time
	for _, d := range got {
		if d.offset >= 10 && d.offset < count {
			due[d.offset] = true
		} else if d.offset > 0 && d.offset < 10 {
			t.Errorf("record %d was acknowledged, and comes again", d.offset)
		}
	}
	if len(due) != count-10 {
		t.Errorf("%d of %d came in time", len(due), count-10)
	}
}
