package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// faultOnce leaves one PRODUCE unanswered.
func faultOnce(once *atomic.Bool) func(proto.Message) fakebroker.Fault {
	return func(m proto.Message) fakebroker.Fault {
		_, produce := m.(*proto.ProduceRequest)
		return fakebroker.Fault{Silent: produce && once.CompareAndSwap(false, true)}
	}
}

func TestTopicLife(t *testing.T) {
	c := fake(t, 3)
	client := connect(t, c)
	a := client.Admin()
	created, err := a.CreateTopic(within(t), TopicSpec{Name: "t", Partitions: 4, Config: map[string]string{"retention.ms": "5", "durability": "batch"}})
	if err != nil || created.Partitions != 4 || created.Replicas != 1 || created.ID == (TopicID{}) {
		t.Fatalf("%+v, %v", created, err)
	}
	if _, err := a.CreateTopic(within(t), TopicSpec{Name: "t"}); !errors.Is(err, ErrTopicExists) {
		t.Error(err)
	}
	var refusal *Error
	if _, err := a.CreateTopic(within(t), TopicSpec{Name: "u", Replicas: 4}); !errors.Is(err, ErrInvalidReplicationFactor) || !errors.As(err, &refusal) || refusal.Limit != 3 {
		t.Error(err)
	}
	if dry, err := a.CreateTopic(within(t), TopicSpec{Name: "u", ValidateOnly: true}); err != nil || dry.ID != (TopicID{}) {
		t.Errorf("%+v, %v", dry, err)
	}
	p := producer(t, client)
	for n := range uint32(4) {
		for range n + 1 {
			if _, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(n)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := a.DescribeTopic(within(t), "t")
	if err != nil || d.ID != created.ID || len(d.Partitions) != 4 || len(d.Config) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	for n, part := range d.Partitions {
		if part.Err != nil || part.Number != uint32(n) || part.Leader != uint32(n%3+1) || part.HighWatermark != int64(n+1) || part.SizeBytes == 0 {
			t.Errorf("%+v", part)
		}
	}
	c.Node(2).Stop() // one leader cannot be asked
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d, err = a.DescribeTopic(ctx, "t")
	if err != nil || d.Partitions[0].Err != nil || !errors.Is(d.Partitions[1].Err, ErrUnreachable) || d.Partitions[2].Err != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if err := c.Node(2).Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if n, err := a.AlterTopic(within(t), "t", TopicChange{Set: map[string]string{"durability": "sync"}, Unset: []string{"retention.ms"}, Partitions: 5}); err != nil || n != 5 {
		t.Errorf("%d, %v", n, err)
	}
	if d, err = a.DescribeTopic(within(t), "t"); err != nil || len(d.Partitions) != 5 || fmt.Sprint(d.Config) != "[{durability sync topic }]" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := a.AlterTopic(within(t), "t", TopicChange{Partitions: 2}); !errors.Is(err, ErrInvalidPartitionCount) {
		t.Error(err)
	}
	if brokers, err := a.Brokers(within(t)); err != nil || len(brokers) != 3 {
		t.Errorf("%v, %v", brokers, err)
	}
	if id, err := a.DeleteTopic(within(t), "t"); err != nil || id != created.ID {
		t.Errorf("%v, %v", id, err)
	}
	if err := a.DeleteTopicID(within(t), created.ID); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
	if _, err := a.DescribeTopic(within(t), "t"); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
}

func TestTopicsComeInPages(t *testing.T) {
	c := fake(t, 1)
	for i := range 95 {
		c.Create(fmt.Sprintf("t%02d", i), 1)
	}
	c.PageTopics = 10
	a := connect(t, c).Admin()
	topics, err := a.ListTopics(within(t))
	if err != nil || len(topics) != 95 || c.Requests(proto.CommandMetadata) != 10 {
		t.Errorf("%d topics in %d pages, %v", len(topics), c.Requests(proto.CommandMetadata), err)
	}
	for i, topic := range topics {
		if topic.Name != fmt.Sprintf("t%02d", i) || len(topic.Partitions) != 1 {
			t.Errorf("%d: %+v", i, topic)
		}
	}
}

func TestListOffsets(t *testing.T) {
	c := fake(t, 2)
	c.Create("t", 3)
	for p := range 2 {
		for i := range 5 {
			store(c, "t", p, 1, CompressionNone, fmt.Sprint(i), fmt.Sprint(i)) // times 1000 + offset
		}
	}
	c.Partition("t", 1, func(l *fakebroker.Log) { l.Start = 4 })
	a := connect(t, c).Admin()
	for want, spec := range map[string]OffsetSpec{
		"0 4 0":   OffsetEarliest(),
		"10 10 0": OffsetLatest(),
		"3 4 -1":  OffsetAtTime(time.UnixMilli(1003)),
		"9 9 -1":  OffsetMaxTimestamp(),
	} {
		got, err := a.ListOffsets(within(t), "t", spec)
		if err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		if s := fmt.Sprint(got[0].Offset, got[1].Offset, got[2].Offset); s != want {
			t.Errorf("%+v: %s, want %s", spec, s, want)
		}
		if got[0].Found() == (got[0].Offset < 0) || spec == OffsetMaxTimestamp() && got[0].Timestamp.UnixMilli() != 1009 {
			t.Errorf("%+v", got[0])
		}
	}
	// Metadata that is out of date is noticed.
	c.MoveLeader("t", 0, 2)
	if got, err := a.ListOffsets(within(t), "t", OffsetLatest(), 0); err != nil || got[0].Offset != 10 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := a.ListOffsets(within(t), "t", OffsetLatest(), 3); !errors.Is(err, ErrInvalidPartition) {
		t.Error(err)
	}
	if _, err := a.ListOffsets(within(t), "none", OffsetLatest()); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
}

func TestDeleteRecords(t *testing.T) {
	c := fake(t, 2)
	c.Create("t", 2)
	store(c, "t", 1, 1, CompressionNone, "0", "1", "2")
	a := connect(t, c).Admin()
	if start, err := a.DeleteRecords(within(t), "t", 1, 2); err != nil || start != 2 {
		t.Errorf("%d, %v", start, err)
	}
	c.MoveLeader("t", 1, 1)
	if start, err := a.DeleteRecords(within(t), "t", 1, BeforeHighWatermark); err != nil || start != 3 {
		t.Errorf("%d, %v", start, err)
	}
	var refusal *Error
	if _, err := a.DeleteRecords(within(t), "t", 1, 9); !errors.As(err, &refusal) || refusal.Code != ErrOffsetOutOfRange || refusal.Offsets.Latest != 3 {
		t.Errorf("%v", err)
	}
	if _, err := a.DeleteRecords(within(t), "t", 2, 0); !errors.Is(err, ErrInvalidPartition) {
		t.Error(err)
	}
}

// A topic is verified by the leaders of all its partitions, and its description says what is damaged.
func TestVerifyTopic(t *testing.T) {
	c := fake(t, 3)
	client := connect(t, c)
	a := client.Admin()
	if _, err := a.CreateTopic(within(t), TopicSpec{Name: "t", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	p := producer(t, client)
	for n := range uint32(3) {
		if _, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(n)}); err != nil {
			t.Fatal(err)
		}
	}
	c.Partition("t", 1, func(l *fakebroker.Log) { l.Damage = []proto.DamagedRange{{BaseOffset: 0, NextOffset: 1}} })
	all, err := a.VerifyTopic(within(t), "t")
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for n, v := range all {
		if v.Partition != uint32(n) || v.Err != nil || v.SealedBytes == 0 {
			t.Errorf("%+v", v)
		}
	}
	d, err := a.DescribeTopic(within(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	for n, part := range d.Partitions {
		s := part.Storage
		if s == nil || !s.VerifiedSince.IsZero() || len(s.Damages) != int(s.DamagesTotal) || (s.DamagesTotal == 1) != (n == 1) {
			t.Errorf("partition %d: %+v", n, s)
		}
	}
	if one := d.Partitions[1].Storage.Damages[0]; one.Base != 0 || one.Next != 1 || one.File != "a.log" || one.Text != "damaged" || one.Found.IsZero() {
		t.Errorf("%+v", one)
	}
	if _, err := a.VerifyTopic(within(t), "u"); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
	c.Node(2).Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if all, err = a.VerifyTopic(ctx, "t"); err != nil || all[0].Err != nil || !errors.Is(all[1].Err, ErrUnreachable) {
		t.Errorf("%+v, %v", all, err)
	}
}
