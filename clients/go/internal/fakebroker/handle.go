package fakebroker

import (
	"fmt"
	"net"
	"sort"
	"strconv"

	"github.com/pulsemq/pulsemq/proto"
)

// handle carries out a request other than FETCH. It returns the answer, or a *proto.Error, or nothing to say.
func (s *session) handle(id uint64, request proto.Message, fault Fault) (proto.Message, error) {
	c := s.cluster
	switch r := request.(type) {
	case *proto.SubscribeRequest:
		return s.subscribe(id, r, fault)
	case *proto.CreditRequest:
		s.addCredit(r)
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.pumpQueues()
	switch r := request.(type) {
	case *proto.JoinGroupRequest:
		return c.join(r)
	case *proto.LeaveGroupRequest:
		delete(c.groups[r.Group], r.MemberID)
		return &proto.LeaveGroupResponse{}, nil
	case *proto.LeaseRequest:
		return s.lease(id, r)
	case *proto.SettleRequest:
		return s.settle(r)
	case *proto.PingRequest:
		return &proto.PingResponse{Opaque: r.Opaque}, nil
	case *proto.MetadataRequest:
		return c.metadata(r)
	case *proto.InitProducerRequest:
		c.nextProducer++
		return &proto.InitProducerResponse{ProducerID: c.nextProducer}, nil
	case *proto.ProduceRequest:
		return s.produce(r)
	case *proto.ListOffsetsRequest:
		answer := &proto.ListOffsetsResponse{}
		for i := range r.Items {
			answer.Items = append(answer.Items, s.listOffset(&r.Items[i]))
		}
		return answer, nil
	case *proto.DeleteRecordsRequest:
		p, refusal := c.find(s.node.ID, r.TopicID, r.Partition, r.LeaderEpoch)
		if refusal != nil {
			return nil, refusal
		}
		before := r.BeforeOffset
		if before < 0 {
			before = p.End
		}
		if before > p.End {
			return nil, &proto.Error{Code: proto.CodeOffsetOutOfRange, Offsets: &proto.OffsetRange{Earliest: p.Start, Latest: p.End}}
		}
		p.Start = max(p.Start, before)
		return &proto.DeleteRecordsResponse{LogStartOffset: p.Start}, nil
	case *proto.CreateTopicRequest:
		return c.createTopic(r)
	case *proto.DeleteTopicRequest:
		t, err := c.named(r.Name, r.TopicID)
		if err != nil {
			return nil, err
		}
		c.delete(t)
		return &proto.DeleteTopicResponse{TopicID: t.id}, nil
	case *proto.AlterTopicRequest:
		t, err := c.named(r.Name, r.TopicID)
		if err != nil {
			return nil, err
		}
		if r.Partitions != 0 && int(r.Partitions) <= len(t.partitions) {
			return nil, proto.CodeInvalidPartitionCount.Errorf("%d partitions, there are %d", r.Partitions, len(t.partitions))
		}
		for _, kv := range r.Set {
			t.configs[kv.Key] = kv.Value
		}
		for _, k := range r.Unset {
			delete(t.configs, k)
		}
		c.grow(t, int(r.Partitions))
		return &proto.AlterTopicResponse{TopicID: t.id, Partitions: uint32(len(t.partitions))}, nil
	case *proto.DescribeTopicRequest:
		t, err := c.named(r.Name, r.TopicID)
		if err != nil {
			return nil, err
		}
		return s.describe(t), nil
	case *proto.VerifyTopicRequest:
		t, err := c.named(r.Name, r.TopicID)
		if err != nil {
			return nil, err
		}
		answer := &proto.VerifyTopicResponse{TopicID: t.id, Name: t.name}
		for i, p := range t.partitions {
			var v proto.VerifyPartition
			if _, refusal := c.find(s.node.ID, t.id, uint32(i), -1); refusal != nil {
				v.Error = *refusal
			} else {
				for _, b := range p.Batches {
					v.SealedBytes += uint64(len(b))
				}
			}
			answer.Partitions = append(answer.Partitions, v)
		}
		return answer, nil
	}
	return nil, proto.CodeUnknownCommand.Errorf("%v", request.Command())
}

func (c *Cluster) named(name string, id [16]byte) (*topic, error) {
	t := c.topics[name]
	if name == "" {
		t = c.byID(id)
	}
	if t == nil {
		return nil, proto.CodeUnknownTopic.Errorf("topic %q does not exist", name)
	}
	return t, nil
}

func (c *Cluster) createTopic(r *proto.CreateTopicRequest) (proto.Message, error) {
	if c.topics[r.Name] != nil {
		return nil, proto.CodeTopicExists.Errorf("topic %q exists", r.Name)
	}
	if r.Name == "" || r.Name == ".." {
		return nil, proto.CodeInvalidName.Errorf("%q", r.Name)
	}
	if int(r.Replicas) > len(c.nodes) {
		return nil, &proto.Error{Code: proto.CodeInvalidReplicationFactor, Limit: uint64(len(c.nodes)), Text: fmt.Sprintf("%d replicas, %d brokers", r.Replicas, len(c.nodes))}
	}
	partitions := max(int(r.Partitions), 1)
	if r.ValidateOnly {
		return &proto.CreateTopicResponse{Partitions: uint32(partitions), Replicas: max(r.Replicas, 1)}, nil
	}
	configs := map[string]string{}
	for _, kv := range r.Configs {
		configs[kv.Key] = kv.Value
	}
	t := c.create(r.Name, partitions, configs)
	return &proto.CreateTopicResponse{TopicID: t.id, Partitions: uint32(partitions), Replicas: max(r.Replicas, 1)}, nil
}

func (s *session) describe(t *topic) *proto.DescribeTopicResponse {
	d := &proto.DescribeTopicResponse{TopicID: t.id, Name: t.name, Replicas: 1}
	for i, p := range t.partitions {
		pd := proto.PartitionDescription{Leader: p.leader, LeaderEpoch: p.leaderEpoch, Replicas: []uint32{p.leader},
			LogStartOffset: -1, HighWatermark: -1, LogEndOffset: -1}
		if _, refusal := s.cluster.find(s.node.ID, t.id, uint32(i), -1); refusal != nil {
			pd.Error = *refusal
		} else {
			pd.LogStartOffset, pd.HighWatermark, pd.LogEndOffset = p.Start, p.End, p.End
			for _, b := range p.Batches {
				pd.SizeBytes += uint64(len(b))
			}
			pd.Storage = &proto.PartitionStorage{VerifiedMs: -1, SealedBytes: pd.SizeBytes, DamagesTotal: uint32(len(p.Damage))}
			for _, r := range p.Damage {
				pd.Storage.Damages = append(pd.Storage.Damages, proto.StoredDamage{Range: r, FoundMs: 1_700_000_000_000, File: "a.log", Text: "damaged"})
			}
		}
		d.Partitions = append(d.Partitions, pd)
	}
	for k, v := range t.configs {
		d.Configs = append(d.Configs, proto.TopicConfigEntry{Key: k, Value: v, Source: proto.ConfigSourceTopic})
	}
	sort.Slice(d.Configs, func(i, j int) bool { return d.Configs[i].Key < d.Configs[j].Key })
	return d
}

func (c *Cluster) metadata(r *proto.MetadataRequest) (proto.Message, error) {
	m := &proto.MetadataResponse{MetadataEpoch: c.epoch, ClusterID: c.id}
	for _, n := range c.nodes {
		host, port, _ := net.SplitHostPort(n.Address())
		number, _ := strconv.Atoi(port)
		m.Brokers = append(m.Brokers, proto.MetadataBroker{NodeID: n.ID, Host: host, Port: uint16(number)})
	}
	names := r.Names
	if r.Selection == proto.TopicSelectionAll {
		for _, name := range c.names() {
			if name <= string(r.Cursor) {
				continue
			}
			if c.PageTopics > 0 && len(names) == c.PageTopics {
				m.Cursor = []byte(names[len(names)-1])
				break
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		t := c.topics[name]
		if t == nil {
			m.Topics = append(m.Topics, proto.MetadataTopic{Name: name, Error: *proto.CodeUnknownTopic.Errorf("topic %q does not exist", name)})
			continue
		}
		mt := proto.MetadataTopic{Name: name, TopicID: t.id}
		for _, p := range t.partitions {
			mt.Partitions = append(mt.Partitions, proto.MetadataPartition{Leader: p.leader, LeaderEpoch: p.leaderEpoch, Replicas: []uint32{p.leader}})
		}
		m.Topics = append(m.Topics, mt)
	}
	return m, nil
}

func (s *session) produce(r *proto.ProduceRequest) (proto.Message, error) {
	c := s.cluster
	p, refusal := c.find(s.node.ID, r.TopicID, r.Partition, r.LeaderEpoch)
	if refusal != nil {
		return nil, refusal
	}
	limit := int(c.Limits.BatchBytesMax)
	if own, err := strconv.Atoi(c.byID(r.TopicID).configs["max.message.bytes"]); err == nil {
		limit = min(limit, own)
	}
	if len(r.Batch) > limit {
		return nil, &proto.Error{Code: proto.CodeBatchTooLarge, Limit: uint64(limit), Text: fmt.Sprintf("a batch of %d bytes, %d are allowed", len(r.Batch), limit)}
	}
	base, duplicate, refusal := p.append(r.Batch)
	if refusal != nil {
		return nil, refusal
	}
	return &proto.ProduceResponse{BaseOffset: base, AppendTimeMs: -1, LogStartOffset: p.Start, Durability: c.Durability, Duplicate: duplicate}, nil
}

func (s *session) listOffset(item *proto.ListOffsetsItem) proto.ListOffsetsResult {
	p, refusal := s.cluster.find(s.node.ID, item.TopicID, item.Partition, item.LeaderEpoch)
	if refusal != nil {
		return proto.ListOffsetsResult{Error: *refusal, Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
	}
	switch item.Kind {
	case proto.OffsetKindEarliest:
		return proto.ListOffsetsResult{Offset: p.Start, TimestampMs: -1, LeaderEpoch: p.leaderEpoch}
	case proto.OffsetKindLatest:
		return proto.ListOffsetsResult{Offset: p.End, TimestampMs: -1, LeaderEpoch: p.leaderEpoch}
	}
	best := proto.ListOffsetsResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
	for _, r := range p.Records() {
		if r.Offset < p.Start {
			continue
		}
		found := proto.ListOffsetsResult{Offset: r.Offset, TimestampMs: r.Timestamp, LeaderEpoch: p.leaderEpoch}
		if item.Kind == proto.OffsetKindTimestamp {
			if r.Timestamp >= item.TimestampMs {
				return found
			}
		} else if r.Timestamp > best.TimestampMs {
			best = found
		}
	}
	return best
}
