package shard

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const testSubscription = 77

func (n *node) subscribe(id core.PartitionID, offset core.Offset) {
	n.t.Helper()
	a := n.one(mail.Request{Kind: mail.RequestSubscribe, ID: testSubscription, Partition: id, LeaderEpoch: -1, LastEpoch: -1, Offset: offset})
	if a.Kind != mail.AnswerSubscribe || a.Err != nil {
		n.t.Fatalf("subscribe: %+v", a)
	}
}

// lend gives credit on one shard and returns what was pushed.
func (n *node) lend(m *Machine, bytes uint32) []mail.Answer {
	m.Receive(&mail.Request{Kind: mail.RequestCredit, ID: testSubscription, Bytes: bytes})
	n.settle()
	return n.answers()
}

func TestPushNeedsCredit(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 4, 1, 1000)
	n.subscribe(id, 0)
	if got := n.answers(); len(got) != 0 {
		t.Fatalf("pushed without credit: %+v", got)
	}
	m := n.machines[0]
	got := n.lend(m, 1) // the last push may overdraw by one batch
	if len(got) != 1 || len(parcelRecords(t, got[0].Parcel)) != 1 || got[0].ID != testSubscription {
		t.Fatalf("pushes %+v", got)
	}
	n.giveBack(id, got[0].Parcel)
	n.settle()
	size := uint32(got[0].Parcel.Bytes)
	if got = n.lend(m, 1000); len(got) != 0 {
		t.Fatalf("the overdraft was forgotten: %+v", got)
	}
	_ = size
	got = n.lend(m, 1<<20)
	if len(got) != 1 || len(parcelRecords(t, got[0].Parcel)) != 3 {
		t.Fatalf("the rest: %+v", got)
	}
	n.giveBack(id, got[0].Parcel)
	// New data is pushed by itself while there is credit.
	r := n.produceRequest(id, batchSpec{records: 2, producer: -1})
	got = n.ask(r)
	if len(got) != 2 || got[1].Kind != mail.AnswerDeliver || len(parcelRecords(t, got[1].Parcel)) != 2 {
		t.Fatalf("new data: %+v", got)
	}
}

func TestPushIsFairAndIdlePartitionsCostNothing(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("t", 1000)
	busy := []core.PartitionID{topic.Partitions[10].ID, topic.Partitions[20].ID, topic.Partitions[30].ID}
	for _, p := range topic.Partitions {
		n.subscribe(p.ID, 0)
	}
	for _, id := range busy {
		produceN(n, id, 12, 1, 100<<10)
	}
	m := n.machines[0]
	s := m.peers[peerKey{}].subscriptions[0]
	if s.ready.Len() != len(busy) {
		t.Errorf("%d ready of %d with data", s.ready.Len(), len(busy))
	}
	order := map[core.PartitionID]int{}
	got := n.lend(m, 2<<20)
	for rounds := 0; len(got) > 0; rounds++ {
		for _, a := range got {
			if a.Kind != mail.AnswerDeliver {
				t.Fatalf("answer %+v", a)
			}
			order[a.Partition] += a.Parcel.Bytes
			if rounds == 0 && a.Parcel.Bytes > deliverBytesShared {
				t.Errorf("one partition took %d bytes at once", a.Parcel.Bytes)
			}
		}
		if rounds == 0 {
			if len(got) != deliveriesPerSubscriptionMax {
				t.Errorf("%d pushes out, read-ahead is %d", len(got), deliveriesPerSubscriptionMax)
			}
		}
		for _, a := range got {
			n.giveBack(a.Partition, a.Parcel)
		}
		n.settle()
		got = n.answers()
	}
	least, most := 1<<40, 0
	for _, id := range busy {
		least, most = min(least, order[id]), max(most, order[id])
	}
	if len(order) != len(busy) || most-least > deliverBytesShared {
		t.Errorf("unfair: %v", order)
	}
}

func TestUnsubscribeStopsOnePartition(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("t", 2)
	a, b := topic.Partitions[0].ID, topic.Partitions[1].ID
	n.subscribe(a, 0)
	n.subscribe(b, 0)
	n.lend(n.machines[0], 1<<20)
	n.send(&mail.Request{Kind: mail.RequestUnsubscribe, ID: testSubscription, Partition: a})
	for _, id := range []core.PartitionID{a, b} {
		got := n.ask(n.produceRequest(id, batchSpec{records: 1, producer: -1}))
		if want := map[core.PartitionID]int{a: 1, b: 2}[id]; len(got) != want {
			t.Errorf("partition %d: %d answers, want %d", id, len(got), want)
		}
	}
	n.machines[0].Receive(&mail.Request{Kind: mail.RequestUnsubscribe, ID: testSubscription})
	if got := n.ask(n.produceRequest(b, batchSpec{records: 1, producer: -1})); len(got) != 1 {
		t.Errorf("pushed after the end: %+v", got)
	}
}

func TestPushTellsOfDeletion(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	n.subscribe(id, 0)
	f := n.fetchRequest(id, 0)
	f.Conn.Slot, f.BytesMin, f.Wait = 4, 1, 1e9
	n.send(&f)
	n.settle()
	n.held = true
	r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
	n.send(&r)
	n.held = false
	got := n.ask(mail.Request{Kind: mail.RequestAdmin, Body: &proto.DeleteTopicRequest{Name: "t"}})
	var deleted, push, fetch bool
	for _, a := range got {
		switch {
		case a.Kind == mail.AnswerAdmin:
			deleted = a.Body.(*proto.DeleteTopicResponse) != nil
		case a.Kind == mail.AnswerDeliver && a.Err != nil:
			push = a.Err.Code == proto.CodeUnknownTopic
		case a.Kind == mail.AnswerError && a.ID == f.ID:
			fetch = a.Err.Code == proto.CodeUnknownTopic
		}
	}
	if !deleted || !push || !fetch && len(got) < 3 {
		t.Errorf("answers %+v", got)
	}
	m := n.machines[0]
	if len(m.partitions) != 0 || m.memory.pending != 0 || n.view.Topics() != 0 {
		t.Errorf("left behind: %d partitions, %d bytes", len(m.partitions), m.memory.pending)
	}
	if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1})); a.Err == nil || a.Err.Code != proto.CodeUnknownTopic {
		t.Errorf("produce afterwards: %+v", a)
	}
}

// A client that seeks for ever without giving credit must not fill the memory.
func TestSeeksWithoutCreditAreForgotten(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("t", 2)
	for _, p := range topic.Partitions {
		produceN(n, p.ID, 1, 1, 10)
		n.subscribe(p.ID, 0)
	}
	for range 500 {
		n.subscribe(topic.Partitions[0].ID, 0)
	}
	s := n.machines[0].peers[peerKey{}].subscriptions[0]
	if s.ready.Len() > 2*len(s.shares)+readySpare || len(s.shares) != 2 {
		t.Errorf("%d in the queue of %d shares", s.ready.Len(), len(s.shares))
	}
	got := n.lend(n.machines[0], 1<<20)
	if len(got) != 2 || len(parcelRecords(t, got[0].Parcel))+len(parcelRecords(t, got[1].Parcel)) != 2 {
		t.Errorf("pushes %+v", got)
	}
}
