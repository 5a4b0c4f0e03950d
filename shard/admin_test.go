package shard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func (n *node) admin(body any) mail.Answer {
	n.t.Helper()
	return n.one(mail.Request{Kind: mail.RequestAdmin, Body: body})
}

func TestTopicOverSeveralShards(t *testing.T) {
	n := newNode(t, 3)
	if n.view.Brokers()[0].ID != 1 {
		t.Errorf("brokers %v", n.view.Brokers())
	}
	topic := n.create("t", 1000) // more letters than fit the rings at once
	count := 0
	for _, m := range n.machines {
		count += len(m.partitions)
	}
	if count != 1000 {
		t.Fatalf("%d partitions opened", count)
	}
	for _, p := range topic.Partitions[:20] {
		produceN(n, p.ID, 1, 1, 1)
	}
	a := n.admin(&proto.AlterTopicRequest{Name: "t", Partitions: 1010, Set: []proto.TopicConfig{{Key: "durability", Value: "none"}}})
	if a.Err != nil || a.Body.(*proto.AlterTopicResponse).Partitions != 1010 {
		t.Fatalf("alter: %+v", a)
	}
	topic = n.view.TopicByName("t")
	for _, number := range []int{0, 999, 1005} {
		id := topic.Partitions[number].ID
		if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1})); a.Err != nil || a.Durability != core.DurabilityNone {
			t.Errorf("partition %d after the change: %+v", number, a)
		}
	}
	if a := n.admin(&proto.DeleteTopicRequest{TopicID: topic.ID}); a.Err != nil {
		t.Fatal(a.Err)
	}
	for i, m := range n.machines {
		if len(m.partitions) != 0 {
			t.Errorf("shard %d has %d partitions left", i, len(m.partitions))
		}
	}
}

// No view may show a topic before its shards have its partitions, and no answer
// may come before the command is durable.
// While its command waits for the disk, a creation is neither told to a shard, nor
// shown, nor answered: a power cut could still undo it.
func TestCreateIsDurableBeforeItIsSeen(t *testing.T) {
	n := newNode(t, 2)
	n.held = true
	r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: "t", Partitions: 8}}
	n.send(&r)
	for range 50 {
		n.turn()
	}
	if n.metadata().admin.log.EndOffset() == n.metadata().admin.log.DurableOffset() {
		t.Fatal("nothing waits for the disk")
	}
	for i, m := range n.machines {
		if len(m.partitions) != 0 {
			t.Errorf("shard %d has partitions of it", i)
		}
	}
	if n.view.TopicByName("t") != nil || len(n.answers()) != 0 {
		t.Fatal("seen before it is durable")
	}
	n.held = false
	n.settle()
	if n.view.TopicByName("t") == nil || len(n.answers()) != 1 {
		t.Fatal("not created")
	}
}

func TestCreateIsSeenWhenEveryShardHasIt(t *testing.T) {
	n := newNode(t, 2)
	n.outs[0].lettersFull, n.outs[1].lettersFull = true, true
	r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: "t", Partitions: 8}}
	n.send(&r)
	for range 50 {
		n.turn()
	}
	if n.view.TopicByName("t") != nil || len(n.answers()) != 0 {
		t.Fatal("seen before every shard has it")
	}
	if !n.metadata().Busy() {
		t.Error("the loop may park with letters that nobody got")
	}
	n.outs[0].lettersFull, n.outs[1].lettersFull = false, false
	n.settle()
	if n.view.TopicByName("t") == nil || len(n.answers()) != 1 {
		t.Fatal("not created")
	}
}

func TestAdminRefuses(t *testing.T) {
	n := newNode(t, 1)
	n.create("taken", 1)
	before := n.view.Epoch()
	for _, c := range []struct {
		body any
		code proto.Code
	}{
		{&proto.CreateTopicRequest{Name: "a/b"}, proto.CodeInvalidName},
		{&proto.CreateTopicRequest{Name: "taken"}, proto.CodeTopicExists},
		{&proto.CreateTopicRequest{Name: "t", Replicas: 3}, proto.CodeInvalidReplicationFactor},
		{&proto.CreateTopicRequest{Name: "t", Configs: []proto.TopicConfig{{Key: "x", Value: "y"}}}, proto.CodeInvalidConfig},
		{&proto.AlterTopicRequest{Name: "no"}, proto.CodeUnknownTopic},
		{&proto.DeleteTopicRequest{Name: "no"}, proto.CodeUnknownTopic},
	} {
		if a := n.admin(c.body); a.Err == nil || a.Err.Code != c.code {
			t.Errorf("%T: %+v", c.body, a.Err)
		}
	}
	a := n.admin(&proto.CreateTopicRequest{Name: "maybe", ValidateOnly: true, Partitions: 4})
	if body := a.Body.(*proto.CreateTopicResponse); body.Partitions != 4 || body.TopicID != [16]byte{} {
		t.Errorf("validate only: %+v", body)
	}
	if n.view.Epoch() != before || n.metadata().admin.log.EndOffset() != core.Offset(before) {
		t.Error("something was written")
	}
}

// Two creates of one name in one turn: both are in the log, one exists.
func TestConcurrentCreatesOfOneName(t *testing.T) {
	n := newNode(t, 1)
	a := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: "t"}}
	b := a
	n.send(&a)
	n.send(&b)
	n.settle()
	got := n.answers()
	if len(got) != 2 || got[0].Err != nil || got[1].Err == nil || got[1].Err.Code != proto.CodeTopicExists {
		t.Fatalf("answers %+v", got)
	}
}

func TestChangesInFlightAreBounded(t *testing.T) {
	n := newNode(t, 1)
	n.held = true
	refused := 0
	for i := range changesMax + 5 {
		r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: fmt.Sprint("t", i)}}
		n.send(&r)
	}
	for _, a := range n.answers() {
		if a.Err == nil || a.Err.Code != proto.CodeOverloaded {
			t.Fatalf("answer %+v", a)
		}
		refused++
	}
	if refused != 5 {
		t.Errorf("%d refused", refused)
	}
	for range 20 {
		n.turn()
	}
	if got := n.answers(); len(got) != 0 || n.view.Topics() != 0 {
		t.Errorf("%d answers and %d topics before anything is durable", len(got), n.view.Topics())
	}
	n.held = false
	n.settle()
	if got := n.answers(); len(got) != changesMax || n.view.Topics() != changesMax {
		t.Errorf("%d answers, %d topics", len(got), n.view.Topics())
	}
}

func TestAutoCreate(t *testing.T) {
	n := newNode(t, 1)
	n.create("there", 1)
	a := n.admin(&proto.MetadataRequest{Names: []string{"there", "new", "a/b", "newer"}})
	if a.Kind != mail.AnswerAdmin || a.Body != nil || n.view.TopicByName("new") == nil || n.view.TopicByName("newer") == nil || n.view.Topics() != 3 {
		t.Errorf("answer %+v, %d topics", a, n.view.Topics())
	}
}

func TestProducerIDsAreUniqueAcrossBlocks(t *testing.T) {
	n := newNode(t, 1)
	seen := map[int64]bool{}
	for range 2*core.ProducerIDBlock + 500 {
		r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.InitProducerRequest{}}
		n.send(&r)
	}
	n.settle()
	for _, a := range n.answers() {
		body, ok := a.Body.(*proto.InitProducerResponse)
		if !ok || seen[body.ProducerID] || body.ProducerID < 0 || body.ProducerEpoch != 0 {
			t.Fatalf("answer %+v", a)
		}
		seen[body.ProducerID] = true
	}
	if len(seen) != 2*core.ProducerIDBlock+500 {
		t.Errorf("%d ids", len(seen))
	}
}

func TestChangeTimesOut(t *testing.T) {
	n := newNode(t, 1)
	n.held = true
	r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: "t", TimeoutMs: 100}}
	n.send(&r)
	n.clock.advance(110 * time.Millisecond)
	n.machines[0].Tick()
	if got := n.answers(); len(got) != 1 || got[0].Err.Code != proto.CodeTimedOut {
		t.Fatalf("answers %+v", got)
	}
	n.held = false
	n.settle()
	if got := n.answers(); len(got) != 0 || n.view.TopicByName("t") == nil {
		t.Errorf("answers %+v; the change must still happen", got)
	}
}

// Every request that waits for a disk is answered in its time, and once.
func TestWhatWaitsForTheMetadataTimesOut(t *testing.T) {
	for _, body := range []any{&proto.InitProducerRequest{}, &proto.MetadataRequest{Names: []string{"new", "newer"}}} {
		n := newNode(t, 1)
		n.held = true
		n.send(&mail.Request{Kind: mail.RequestAdmin, Body: body, Wait: int64(100 * time.Millisecond)})
		n.clock.advance(90 * time.Millisecond)
		n.machines[0].Tick()
		if got := n.answers(); len(got) != 0 {
			t.Fatalf("%T: too early: %+v", body, got)
		}
		n.clock.advance(20 * time.Millisecond)
		n.machines[0].Tick()
		if got := n.answers(); len(got) != 1 || got[0].Err == nil || got[0].Err.Code != proto.CodeTimedOut {
			t.Fatalf("%T: answers %+v", body, got)
		}
		n.held = false
		n.settle()
		if got := n.answers(); len(got) != 0 || n.machines[0].wheel.armed != 0 {
			t.Errorf("%T: answers %+v, %d timers", body, got, n.machines[0].wheel.armed)
		}
	}
}

// The snapshot stands for the log's end: it holds what is on its way to be applied.
func TestSnapshotHoldsWhatIsOnItsWay(t *testing.T) {
	n := newNode(t, 1)
	n.create("applied", 2)
	n.held = true
	r := mail.Request{Kind: mail.RequestAdmin, Body: &proto.CreateTopicRequest{Name: "queued"}}
	n.send(&r)
	a := n.metadata().admin
	restored := cluster.NewMetadata(n.machines[0].options.Metadata)
	if err := restored.Restore(a.Snapshot(nil)); err != nil {
		t.Fatal(err)
	}
	if v := restored.View(); v.TopicByName("applied") == nil || v.TopicByName("queued") == nil || v.Epoch() != uint64(a.log.EndOffset()) {
		t.Errorf("%d topics at epoch %d", v.Topics(), v.Epoch())
	}
	if a.metadata.View().TopicByName("queued") != nil {
		t.Error("the snapshot changed the state")
	}
}

// A command of a newer build stops the start by name: to skip it would let this
// node disagree with the others.
func TestCommandOfANewerBuildStopsTheStart(t *testing.T) {
	n := newNode(t, 1)
	a := n.metadata().admin
	var b proto.BatchBuilder
	if err := b.Append(&proto.Record{Timestamp: 1, Value: []byte{99, 1, 2, 3}}); err != nil {
		t.Fatal(err)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.replayBatch(batch); !errors.Is(err, cluster.ErrCommandUnknown) {
		t.Errorf("error %v", err)
	}
}
