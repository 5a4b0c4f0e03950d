package netio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func TestMetadata(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.view.topics[0].Partitions[3].Leader = 0
	s, c := b.connect()
	m := decode(t, b.ask(s, c, 5, &proto.MetadataRequest{}), &proto.MetadataResponse{})
	if m.MetadataEpoch != 5 || m.ClusterID != "test-cluster" || len(m.Cursor) != 0 {
		t.Fatalf("%+v", m)
	}
	if len(m.Brokers) != 1 || m.Brokers[0] != (proto.MetadataBroker{NodeID: 1, Host: "broker.test", Port: 9090}) {
		t.Fatalf("brokers %+v", m.Brokers)
	}
	if len(m.Topics) != 2 || m.Topics[0].Name != "alpha" || len(m.Topics[0].Partitions) != 8 || m.Topics[0].TopicID != topicA {
		t.Fatalf("topics %+v", m.Topics)
	}
	if p := m.Topics[0].Partitions; p[0].Leader != 1 || p[3].Leader != 0 || p[0].LeaderEpoch != -1 || len(p[0].Replicas) != 1 {
		t.Fatalf("partitions %+v", p)
	}
	// Brokers alone.
	m = decode(t, b.ask(s, c, 6, &proto.MetadataRequest{Selection: proto.TopicSelectionNames}), &proto.MetadataResponse{})
	if len(m.Topics) != 0 || len(m.Brokers) != 1 {
		t.Fatalf("%+v", m)
	}
	wantError(t, b.ask(s, c, 7, &proto.MetadataRequest{Selection: 9}), 7, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 8, &proto.MetadataRequest{Selection: proto.TopicSelectionIDs, Cursor: []byte("xyz")}), 8, proto.CodeInvalidRequest)
}

func TestMetadataOfSome(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	names := []string{"beta", "none", "../x", "alpha", ""}
	m := decode(t, b.ask(s, c, 5, &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: names}), &proto.MetadataResponse{})
	codes := []proto.Code{0, proto.CodeUnknownTopic, proto.CodeInvalidName, 0, proto.CodeInvalidName}
	for i, topic := range m.Topics {
		if topic.Name != names[i] || topic.Error.Code != codes[i] || (codes[i] != 0) != (len(topic.Partitions) == 0) {
			t.Errorf("topic %d: %+v, want code %v", i, topic, codes[i])
		}
	}
	m = decode(t, b.ask(s, c, 6, &proto.MetadataRequest{Selection: proto.TopicSelectionIDs, IDs: [][16]byte{{1}, topicB}}), &proto.MetadataResponse{})
	if len(m.Topics) != 2 || m.Topics[0].Error.Code != proto.CodeUnknownTopic || m.Topics[0].TopicID != [16]byte{1} || m.Topics[1].Name != "beta" {
		t.Fatalf("%+v", m.Topics)
	}
}

// Pages never split a topic, hold a bounded number of partitions, and together
// hold every topic once.
func TestMetadataPages(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.view.topics = nil
	var names []string
	for i := range 2500 {
		name := fmt.Sprintf("t%05d", i)
		names = append(names, name)
		partitions := 1
		if i%1000 == 7 {
			partitions = core.PartitionsPerTopicMax
		}
		b.view.topics = append(b.view.topics, testTopic(core.TopicID{byte(i), byte(i >> 8), 1}, name, partitions, core.PartitionID(16+i)))
	}
	s, c := b.connect()
	for _, request := range []*proto.MetadataRequest{
		{},
		{PageTopicsMax: 300},
		{Selection: proto.TopicSelectionNames, Names: names},
		{Selection: proto.TopicSelectionNames, Names: names, PageTopicsMax: 999},
	} {
		var got []string
		pages := 0
		for id := uint64(10); ; id++ {
			m := decode(t, b.ask(s, c, id, request), &proto.MetadataResponse{})
			partitions := 0
			for _, topic := range m.Topics {
				got = append(got, topic.Name)
				partitions += len(topic.Partitions)
			}
			if partitions > metadataPagePartitionsMax+core.PartitionsPerTopicMax || request.PageTopicsMax > 0 && len(m.Topics) > int(request.PageTopicsMax) {
				t.Fatalf("a page of %d topics and %d partitions", len(m.Topics), partitions)
			}
			pages++
			if request.Cursor = m.Cursor; len(m.Cursor) == 0 {
				break
			}
		}
		if len(got) != len(names) || pages < 3 {
			t.Fatalf("%d topics in %d pages, want %d", len(got), pages, len(names))
		}
		for i := range got {
			if got[i] != names[i] {
				t.Fatalf("topic %d is %s, want %s", i, got[i], names[i])
			}
		}
	}
}

func TestAutoCreate(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.AutoCreate = true }})
	var asked []string
	b.shards[0].create = func(m *proto.MetadataRequest) {
		asked = append(asked, m.Names...)
		view := *b.view
		view.epoch++
		view.topics = append(view.topics[:2:2], testTopic(core.TopicID{0xc}, "gamma", 1, 200))
		b.views.Publish(&view)
	}
	s, c := b.connect()
	m := decode(t, b.ask(s, c, 5, &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{"alpha", "gamma", "a/b"}}), &proto.MetadataResponse{})
	if len(asked) != 1 || asked[0] != "gamma" {
		t.Fatalf("asked to create %q", asked)
	}
	if len(m.Topics) != 3 || m.Topics[1].Error.Failed() || m.Topics[2].Error.Code != proto.CodeInvalidName || m.MetadataEpoch != 6 {
		t.Fatalf("%+v", m)
	}
	if s.pendings.count != 0 || len(s.creating) != 0 {
		t.Fatal("the request is still under way")
	}
	// What lies behind the page is left to the request that asks for that page.
	asked = nil
	list := &proto.MetadataRequest{Selection: proto.TopicSelectionNames, PageTopicsMax: 2, Names: []string{"m1", "m2", "m3", "m4", "m5"}}
	list.Cursor = decode(t, b.ask(s, c, 7, list), &proto.MetadataResponse{}).Cursor
	if strings.Join(asked, " ") != "m1 m2" {
		t.Fatalf("asked to create %q", asked)
	}
	if b.ask(s, c, 8, list); strings.Join(asked, " ") != "m1 m2 m3 m4" {
		t.Fatalf("asked to create %q", asked)
	}
	// Nothing missing, nothing asked.
	asked = []string{"gamma"}
	b.ask(s, c, 6, &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{"gamma"}})
	if len(asked) != 1 {
		t.Fatalf("asked to create %q", asked)
	}
}

func TestListOffsets(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	s, c := b.connect()
	b.ask(s, c, 5, produce(2, testBatch(t, 7, 10)))
	item := func(partition uint32, kind proto.OffsetKind) proto.ListOffsetsItem {
		return proto.ListOffsetsItem{TopicID: topicA, Partition: partition, LeaderEpoch: -1, Kind: kind}
	}
	request := &proto.ListOffsetsRequest{Items: []proto.ListOffsetsItem{
		item(2, proto.OffsetKindLatest), item(2, proto.OffsetKindEarliest), item(99, 0), item(2, 9), item(3, proto.OffsetKindLatest), item(2, proto.OffsetKindLatest),
	}}
	request.Items = append(request.Items, proto.ListOffsetsItem{TopicID: [16]byte{9}})
	m := decode(t, b.ask(s, c, 6, request), &proto.ListOffsetsResponse{})
	want := []struct {
		offset int64
		code   proto.Code
	}{{7, 0}, {0, 0}, {-1, proto.CodeInvalidPartition}, {-1, proto.CodeInvalidRequest}, {0, 0}, {7, 0}, {-1, proto.CodeUnknownTopic}}
	for i, got := range m.Items {
		if got.Offset != want[i].offset || got.Error.Code != want[i].code {
			t.Errorf("item %d: offset %d, %v; want %d, %v", i, got.Offset, got.Error.Code, want[i].offset, want[i].code)
		}
	}
	decode(t, b.ask(s, c, 7, &proto.ListOffsetsRequest{}), &proto.ListOffsetsResponse{})
	wantError(t, b.ask(s, c, 8, &proto.ListOffsetsRequest{Items: make([]proto.ListOffsetsItem, scatterPartsMax+1)}), 8, proto.CodeInvalidRequest)
}

// A request for very many partitions is spread in pieces that the rings hold.
func TestScatterIsBounded(t *testing.T) {
	b := newBench(t, benchOptions{ring: 16})
	b.view.topics[0] = testTopic(topicA, "alpha", core.PartitionsPerTopicMax, 16)
	s, c := b.connect()
	b.receive(s, proto.AppendFrame(nil, 5, &proto.DescribeTopicRequest{TopicID: topicA}))
	if n := b.links[0].Requests.Len() + b.reactor.backlogs[0].Len(); n > scatterInFlightMax {
		t.Fatalf("%d parts are under way", n)
	}
	b.run()
	m := decode(t, frames(t, c.sent), &proto.DescribeTopicResponse{})
	if len(m.Partitions) != core.PartitionsPerTopicMax || m.Name != "alpha" || m.Replicas != 1 {
		t.Fatalf("%d partitions", len(m.Partitions))
	}
	for i, p := range m.Partitions {
		if p.Error.Failed() || p.SizeBytes != 99 || p.LeaderEpoch != 7 || p.Leader != 1 {
			t.Fatalf("partition %d: %+v", i, p)
		}
	}
	if len(m.Configs) != len(core.TopicKeys()) {
		t.Fatalf("%d settings, want %d", len(m.Configs), len(core.TopicKeys()))
	}
	for i := 1; i < len(m.Configs); i++ {
		if m.Configs[i-1].Key >= m.Configs[i].Key || m.Configs[i].Doc == "" {
			t.Fatalf("settings are not in the order of their keys: %+v", m.Configs)
		}
	}
	if len(s.scatters) != 0 || s.pendings.count != 0 {
		t.Fatal("the request is still under way")
	}
}

// When every way to a shard is full a scattered request waits; it is not refused.
func TestScatterWaitsForRoom(t *testing.T) {
	b := newBench(t, benchOptions{settings: func(s *Settings) { s.WindowRequests = 60_000 }})
	s, c := b.connect()
	for i := range uint64(256 + backlogRequestsMax) {
		b.receive(s, proto.AppendFrame(nil, 1000+i, fetch(0, 0)))
	}
	b.receive(s, proto.AppendFrame(nil, 5, &proto.DescribeTopicRequest{Name: "beta"}))
	if wait := b.reactor.Flush(); wait == 0 || len(b.reactor.starved) != 1 {
		t.Fatalf("wait %d, %d starved", wait, len(b.reactor.starved))
	}
	b.run()
	b.run()
	for _, f := range frames(t, c.sent) {
		if f.header.RequestID == 5 {
			decode(t, []frame{f}, &proto.DescribeTopicResponse{})
			return
		}
	}
	t.Fatal("it was never answered")
}

func TestDescribeTopicErrors(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.view.topics[0].Partitions[1].Leader = 2
	s, c := b.connect()
	wantError(t, b.ask(s, c, 5, &proto.DescribeTopicRequest{}), 5, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 5, &proto.DescribeTopicRequest{Name: "alpha", TopicID: topicA}), 5, proto.CodeInvalidRequest)
	wantError(t, b.ask(s, c, 5, &proto.DescribeTopicRequest{Name: "none"}), 5, proto.CodeUnknownTopic)
	wantError(t, b.ask(s, c, 5, &proto.DescribeTopicRequest{TopicID: [16]byte{1}}), 5, proto.CodeUnknownTopic)
	m := decode(t, b.ask(s, c, 6, &proto.DescribeTopicRequest{Name: "alpha"}), &proto.DescribeTopicResponse{})
	if p := m.Partitions[1]; p.Error.Code != proto.CodeNotLeader || p.HighWatermark != -1 || p.SizeBytes != 0 || p.Leader != 2 {
		t.Fatalf("%+v", p)
	}
}

func TestAdminCommands(t *testing.T) {
	b := newBench(t, benchOptions{shards: 3})
	home := core.ShardOf(core.MetadataPartition, 3)
	b.shards[home].keep = true
	s, c := b.connect()
	created := decode(t, b.ask(s, c, 5, &proto.CreateTopicRequest{Name: "x", Partitions: 3, TimeoutMs: 1500}), &proto.CreateTopicResponse{})
	if created.TopicID != topicA || created.Partitions != 3 {
		t.Fatalf("%+v", created)
	}
	if q := b.shards[home].seen[0]; q.Wait != 1500e6 || q.Body.(*proto.CreateTopicRequest).Name != "x" || q.Partition != core.MetadataPartition {
		t.Fatalf("%+v", q)
	}
	wantError(t, b.ask(s, c, 6, &proto.CreateTopicRequest{}), 6, proto.CodeInvalidName)
	decode(t, b.ask(s, c, 7, &proto.DeleteTopicRequest{Name: "x"}), &proto.DeleteTopicResponse{})
	decode(t, b.ask(s, c, 8, &proto.AlterTopicRequest{Name: "x"}), &proto.AlterTopicResponse{})
	if got := decode(t, b.ask(s, c, 9, &proto.InitProducerRequest{}), &proto.InitProducerResponse{}); got.ProducerID != 1000 {
		t.Fatalf("%+v", got)
	}
	got := decode(t, b.ask(s, c, 10, &proto.DeleteRecordsRequest{TopicID: topicA, Partition: 3, LeaderEpoch: -1, BeforeOffset: 44}), &proto.DeleteRecordsResponse{})
	if got.LogStartOffset != 44 {
		t.Fatalf("%+v", got)
	}
	wantError(t, b.ask(s, c, 11, &proto.DeleteRecordsRequest{TopicID: topicA, Partition: 8}), 11, proto.CodeInvalidPartition)
	wantError(t, b.ask(s, c, 12, &proto.DeleteRecordsRequest{TopicID: topicA, BeforeOffset: -2}), 12, proto.CodeInvalidRequest)
	if s.pendings.count != 0 {
		t.Fatal("requests are still under way")
	}
}

// Requests of a few bytes must not make the broker keep room for millions of results.
func TestDescriptionsAreBounded(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.view.topics = append(b.view.topics, testTopic(core.TopicID{15: 9}, "wide", core.PartitionsPerTopicMax, 1000))
	s, c := b.connect()
	for id := uint64(2); id < 2+100; id++ {
		b.receive(s, proto.AppendFrame(nil, id, &proto.DescribeTopicRequest{Name: "wide"}))
	}
	refused := 0
	for _, f := range frames(t, c.sent) {
		e := wantError(t, []frame{f}, f.header.RequestID, proto.CodeOverloaded)
		if e.WaitMs > 0 {
			refused++
		}
	}
	if refused != 100-scatterResultsMax/core.PartitionsPerTopicMax {
		t.Errorf("%d of 100 were refused", refused)
	}
	s.Lost()
	if b.reactor.scatterResults != 0 {
		t.Errorf("%d results are kept for nobody", b.reactor.scatterResults)
	}
	s, c = b.connect()
	decode(t, b.ask(s, c, 2, &proto.DescribeTopicRequest{Name: "wide"}), &proto.DescribeTopicResponse{})
	if b.reactor.scatterResults != 0 {
		t.Errorf("%d results are left over", b.reactor.scatterResults)
	}
}
