package shard

import (
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Compaction may leave nothing of the end of one epoch and the beginning of the
// next. Who has read up to there goes on behind it: what was skipped has later
// epochs than the last record read, and is no sign of a log that was cut.
func TestReadOverCompactedEpochs(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("c", 1, "cleanup.policy", "compact", "segment.bytes", "1MiB", "max.message.bytes", "512KiB").Partitions[0].ID
	const records = 3
	for range 6 { // each time the same keys, in another epoch
		for range 3 {
			if a := n.one(n.produceRequest(id, batchSpec{records: records, value: 100 << 10, producer: -1})); a.Err != nil {
				t.Fatal(a.Err)
			}
			n.clock.advance(2 * time.Second)
			n.settle()
		}
		n.crash(1, mem.CrashOptions{})
	}
	p := n.owner(id).partitions[id]
	first := func() core.Offset {
		all := n.readAll(id)
		if len(all) == 0 {
			t.Fatal("nothing is left")
		}
		return core.Offset(all[0].Offset)
	}
	for step := 0; first() < 4*3*records; step++ {
		if step > 100 {
			t.Fatalf("compaction has kept the record at %d", first())
		}
		if a := n.one(n.produceRequest(id, batchSpec{records: records, value: 100 << 10, producer: -1})); a.Err != nil {
			t.Fatal(a.Err)
		}
		n.clock.advance(10 * time.Minute)
		n.settle()
	}
	epoch, end, ok := p.log.Epochs().End(1, p.log.EndOffset())
	if !ok || epoch != 1 || end >= first() {
		t.Fatalf("epoch %d ends at %d, the first record is %d", epoch, end, first())
	}
	r := n.fetchRequest(id, end-1)
	r.LastEpoch = 1
	a := n.one(r)
	if a.Err != nil || len(parcelRecords(t, a.Parcel)) == 0 {
		t.Errorf("a fetch behind epoch 1: %+v", a.Err)
	}
	n.giveBack(id, a.Parcel)
	n.settle()
	n.answers() // further chunks
	n.ask(mail.Request{Kind: mail.RequestSubscribe, ID: testSubscription, Partition: id, Offset: end - 1, LeaderEpoch: -1, LastEpoch: 1})
	pushed := 0
	for _, a := range n.lend(n.owner(id), 1<<20) {
		if a.Err != nil {
			t.Errorf("a push behind epoch 1: %v", a.Err)
		}
		if a.Kind == mail.AnswerDeliver {
			pushed += len(parcelRecords(t, a.Parcel))
		}
	}
	if pushed == 0 {
		t.Error("nothing was pushed")
	}
}
