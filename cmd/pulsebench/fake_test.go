package main

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// fakeBroker keeps topics in memory and speaks just as much of the protocol as pulsebench does. It can be told to be
// wrong, in ways that no real broker can be made to be.
type fakeBroker struct {
	t        *testing.T
	listener net.Listener

	mu     sync.Mutex
	topics map[string]*fakeTopic

	lose      bool // acknowledge the fifth batch and store nothing
	duplicate bool // store the fifth batch twice
	reorder   bool // store the fifth batch of a partition before the one that came before it
	corrupt   bool // change a byte of the fifth batch
	refuse    int  // refuse so many PRODUCE requests with OVERLOADED
	late      int  // let so many FETCH requests not see the last batch, as when it was acknowledged before it was written
	broken    bool // refuse every PRODUCE for good
	produced  int
	producers int64
}

type fakeTopic struct {
	id         [16]byte
	durability string
	partitions [][]proto.Batch
	ends       []int64
}

func startFake(t *testing.T) *fakeBroker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{t: t, listener: listener, topics: make(map[string]*fakeTopic)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait() // every client has closed its connections, else this hangs and the test says so
	})
	return b
}

func (b *fakeBroker) address() string { return b.listener.Addr().String() }

func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		head := make([]byte, proto.FrameHeaderBytes)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		h, _, err := proto.DecodeFrameHeader(head, 1<<28)
		if err != nil {
			b.t.Error(err)
			return
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		answer, err := b.answer(&h, payload)
		if err != nil {
			answer = proto.AsError(err)
		}
		if answer == nil {
			continue
		}
		if _, err := conn.Write(proto.AppendFrame(nil, h.RequestID, answer)); err != nil {
			return
		}
	}
}

func (b *fakeBroker) answer(h *proto.FrameHeader, payload []byte) (proto.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch h.Command {
	case proto.CommandHello:
		hello := &proto.HelloResponse{Magic: proto.Magic, ClusterID: "fake", NodeID: 1, BrokerVersion: "fake-1", WindowBytes: 64 << 20, WindowRequests: 1000,
			Limits: proto.Limits{FrameBytesMax: 32 << 20, BatchBytesMax: 16 << 20, BatchRecordsMax: 1 << 20, FetchBytesMax: 8 << 20, FetchRecordsMax: 1 << 20}}
		for _, c := range proto.Commands() {
			hello.Commands = append(hello.Commands, proto.CommandRange{Command: c.Command, VersionMin: c.VersionMin, VersionMax: c.VersionMax})
		}
		return hello, nil
	case proto.CommandMetadata:
		return b.metadata(payload)
	case proto.CommandCreateTopic:
		return b.create(payload)
	case proto.CommandDescribeTopic:
		var request proto.DescribeTopicRequest
		if err := request.Decode(payload); err != nil {
			return nil, err
		}
		topic := b.topics[request.Name]
		if topic == nil {
			return nil, proto.CodeUnknownTopic
		}
		return &proto.DescribeTopicResponse{Name: request.Name, TopicID: topic.id, Configs: []proto.TopicConfigEntry{{Key: "durability", Value: topic.durability, Source: proto.ConfigSourceTopic}}}, nil
	case proto.CommandDeleteTopic:
		var request proto.DeleteTopicRequest
		if err := request.Decode(payload); err != nil {
			return nil, err
		}
		for name, topic := range b.topics {
			if topic.id == request.TopicID {
				delete(b.topics, name)
				return &proto.DeleteTopicResponse{}, nil
			}
		}
		return nil, proto.CodeUnknownTopic
	case proto.CommandInitProducer:
		b.producers++
		return &proto.InitProducerResponse{ProducerID: b.producers}, nil
	case proto.CommandPing:
		var ping proto.PingRequest
		if err := ping.Decode(payload); err != nil {
			return nil, err
		}
		return &proto.PingResponse{Opaque: ping.Opaque}, nil
	case proto.CommandListOffsets:
		return b.offsets(payload)
	case proto.CommandProduce:
		return b.produce(payload)
	case proto.CommandFetch:
		return b.fetch(payload)
	}
	return nil, proto.CodeUnknownCommand
}

func (b *fakeBroker) metadata(payload []byte) (proto.Message, error) {
	var request proto.MetadataRequest
	if err := request.Decode(payload); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(b.address())
	number, _ := strconv.Atoi(port)
	answer := &proto.MetadataResponse{MetadataEpoch: 1, ClusterID: "fake", Brokers: []proto.MetadataBroker{{NodeID: 1, Host: host, Port: uint16(number)}}}
	for _, name := range request.Names {
		topic := b.topics[name]
		if topic == nil {
			answer.Topics = append(answer.Topics, proto.MetadataTopic{Name: name, Error: proto.Error{Code: proto.CodeUnknownTopic}})
			continue
		}
		shown := proto.MetadataTopic{Name: name, TopicID: topic.id}
		for range topic.partitions {
			shown.Partitions = append(shown.Partitions, proto.MetadataPartition{Leader: 1, LeaderEpoch: 1, Replicas: []uint32{1}})
		}
		answer.Topics = append(answer.Topics, shown)
	}
	return answer, nil
}

func (b *fakeBroker) create(payload []byte) (proto.Message, error) {
	var request proto.CreateTopicRequest
	if err := request.Decode(payload); err != nil {
		return nil, err
	}
	topic := &fakeTopic{id: [16]byte{byte(len(b.topics) + 1)}, durability: "sync"}
	for _, c := range request.Configs {
		topic.durability = c.Value
	}
	partitions := max(request.Partitions, 1)
	topic.partitions, topic.ends = make([][]proto.Batch, partitions), make([]int64, partitions)
	b.topics[request.Name] = topic
	return &proto.CreateTopicResponse{TopicID: topic.id, Partitions: partitions, Replicas: 1}, nil
}

func (b *fakeBroker) byID(id [16]byte) (*fakeTopic, error) {
	for _, topic := range b.topics {
		if topic.id == id {
			return topic, nil
		}
	}
	return nil, proto.CodeUnknownTopic
}

func (b *fakeBroker) offsets(payload []byte) (proto.Message, error) {
	var request proto.ListOffsetsRequest
	if err := request.Decode(payload); err != nil {
		return nil, err
	}
	answer := new(proto.ListOffsetsResponse)
	for _, item := range request.Items {
		topic, err := b.byID(item.TopicID)
		if err != nil {
			return nil, err
		}
		result := proto.ListOffsetsResult{TimestampMs: -1}
		if item.Kind == proto.OffsetKindLatest {
			result.Offset = topic.ends[item.Partition]
		}
		answer.Items = append(answer.Items, result)
	}
	return answer, nil
}

func (b *fakeBroker) produce(payload []byte) (proto.Message, error) {
	var request proto.ProduceRequest
	if err := request.Decode(payload); err != nil {
		return nil, err
	}
	topic, err := b.byID(request.TopicID)
	if err != nil {
		return nil, err
	}
	if b.broken {
		return nil, proto.CodeCorruptBatch.Errorf("no")
	}
	if b.refuse > 0 {
		b.refuse--
		return nil, &proto.Error{Code: proto.CodeOverloaded, Text: "later", WaitMs: 1}
	}
	batch, err := proto.ParseBatch(bytes.Clone(request.Batch))
	if err != nil {
		return nil, err
	}
	if err := batch.ValidateCRC(); err != nil {
		return nil, err
	}
	if err := batch.ValidateRecords(); err != nil {
		return nil, err
	}
	b.produced++
	p := request.Partition
	base := topic.ends[p]
	switch fifth := b.produced == 5; {
	case b.lose && fifth:
	case b.duplicate && fifth:
		topic.store(p, batch)
		topic.store(p, bytes.Clone(batch))
	case b.corrupt && fifth:
		batch[len(batch)-2] ^= 1
		topic.store(p, batch)
	case b.reorder && fifth && len(topic.partitions[p]) > 0:
		before := topic.partitions[p][len(topic.partitions[p])-1]
		topic.partitions[p] = topic.partitions[p][:len(topic.partitions[p])-1]
		topic.ends[p] = before.BaseOffset()
		topic.store(p, batch)
		topic.store(p, before)
	default:
		topic.store(p, batch)
	}
	if request.Acks == proto.AcksNone {
		return nil, nil
	}
	return &proto.ProduceResponse{BaseOffset: base, AppendTimeMs: -1, Durability: proto.DurabilitySync}, nil
}

func (f *fakeTopic) store(p uint32, batch proto.Batch) {
	batch.SetBaseOffset(f.ends[p])
	batch.SetLeaderEpoch(1)
	f.partitions[p] = append(f.partitions[p], batch)
	f.ends[p] = batch.NextOffset()
}

// fetch answers at once with one batch at most, so that reading takes many answers.
func (b *fakeBroker) fetch(payload []byte) (proto.Message, error) {
	var request proto.FetchRequest
	if err := request.Decode(payload); err != nil {
		return nil, err
	}
	topic, err := b.byID(request.TopicID)
	if err != nil {
		return nil, err
	}
	batches := topic.partitions[request.Partition]
	answer := &proto.FetchResponse{LeaderEpoch: 1, HighWatermark: topic.ends[request.Partition], LogEndOffset: topic.ends[request.Partition]}
	if n := len(batches); b.late > 0 && n > 0 {
		b.late--
		answer.HighWatermark = batches[n-1].BaseOffset()
		batches = batches[:n-1]
	}
	if i := slices.IndexFunc(batches, func(batch proto.Batch) bool { return batch.LastOffset() >= request.Offset }); i >= 0 {
		answer.Batches = batches[i]
	}
	return answer, nil
}
