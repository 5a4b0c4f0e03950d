package proto

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
)

// frameCase makes one golden frame.
type frameCase struct {
	file string
	name string
	id   uint64
	m    Message
}

var (
	vectorTopic = [16]byte{0x3f, 0x2a, 0x91, 0x0c, 0x55, 0x6e, 0x4d, 0x01, 0x8e, 0x77, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60}
	vectorOther = [16]byte{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
)

const vectorTime = 1_700_000_000_000

// vectorBatch is a batch of one record, small enough for examples.
func vectorBatch() Batch {
	var b BatchBuilder
	if err := b.Append(&Record{Timestamp: vectorTime, Key: []byte("key"), Value: []byte("hello")}); err != nil {
		panic(err)
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return batch
}

// stored is a batch as a broker hands it out.
func stored(b Batch, offset int64, epoch int32) Batch {
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(epoch)
	return b
}

func vectorAssignment() GroupAssignment {
	return GroupAssignment{Version: 9, Settled: true, Topics: []AssignedTopic{
		{TopicID: vectorTopic, Name: "orders", Partitions: []AssignedPartition{{0, 7}, {3, 9}}}}}
}

func frameCases() []frameCase {
	produced := vectorBatch()
	return []frameCase{
		{"hello.json", "hello request", 1, &HelloRequest{Magic: Magic, ClientName: "example", ClientVersion: "1.0"}},
		{"hello.json", "hello request with commands", 1, &HelloRequest{Magic: Magic, ClientName: "example",
			Commands: []CommandRange{{CommandProduce, 1, 1}, {CommandFetch, 1, 2}}}},
		{"hello.json", "hello response", 1, &HelloResponse{Magic: Magic, ClusterID: "c1", NodeID: 1, BrokerVersion: "0.1.0",
			Commands: []CommandRange{{CommandHello, 1, 1}, {CommandProduce, 1, 1}}, Features: []string{"push"},
			Limits: Limits{FrameBytesMax: 1 << 21, BatchBytesMax: 1 << 20, BatchRecordsMax: 100_000, FetchBytesMax: 1 << 26,
				FetchRecordsMax: 1_000_000, FetchWaitMsMax: 60_000, ProducerBatchesInFlightMax: 5, SubscriptionsMax: 16,
				SubscriptionPartitionsMax: 10_000},
			KeepaliveMs: 30_000, WindowBytes: 1 << 24, WindowRequests: 1024}},
		{"ping.json", "ping request", 2, &PingRequest{Opaque: 0x0102030405060708}},
		{"ping.json", "ping response", 2, &PingResponse{Opaque: 0x0102030405060708}},
		{"ping.json", "ping request of the broker", ServerIDBit | 1, &PingRequest{Opaque: 1<<64 - 1}},
		{"credit.json", "credit request", 3, &CreditRequest{Subscription: 12, Bytes: 1 << 20}},
		{"credit.json", "credit push", ServerIDBit | 2, &CreditPush{WindowBytes: 1 << 23, WindowRequests: 512}},
		{"metadata.json", "metadata request for all", 4, &MetadataRequest{}},
		{"metadata.json", "metadata request by name", 4, &MetadataRequest{Selection: TopicSelectionNames, Names: []string{"orders", "zażółć"}}},
		{"metadata.json", "metadata request by id", 4, &MetadataRequest{Selection: TopicSelectionIDs, IDs: [][16]byte{vectorTopic, vectorOther},
			Cursor: []byte{1, 2, 3}, PageTopicsMax: 100}},
		{"metadata.json", "metadata response", 4, &MetadataResponse{MetadataEpoch: 9, ClusterID: "c1",
			Brokers: []MetadataBroker{{1, "127.0.0.1", 9090}, {2, "::1", 9090}},
			Topics: []MetadataTopic{
				{Name: "orders", TopicID: vectorTopic, Partitions: []MetadataPartition{{1, 3, []uint32{1, 2}}, {0, -1, []uint32{2}}}},
				{Error: Error{Code: CodeUnknownTopic, Text: `topic "nope" does not exist`}, Name: "nope"},
			}, Cursor: []byte("nope")}},
		{"create_topic.json", "create topic request", 5, &CreateTopicRequest{Name: "orders", Partitions: 12, Replicas: 1,
			Configs: []TopicConfig{{TopicConfigDurability, "sync"}, {TopicConfigRetentionMs, "7d"}}, TimeoutMs: 10_000}},
		{"create_topic.json", "create topic request with defaults", 5, &CreateTopicRequest{Name: "orders", ValidateOnly: true}},
		{"create_topic.json", "create topic response", 5, &CreateTopicResponse{TopicID: vectorTopic, Partitions: 12, Replicas: 1}},
		{"delete_topic.json", "delete topic request by name", 6, &DeleteTopicRequest{Name: "orders", TimeoutMs: 10_000}},
		{"delete_topic.json", "delete topic request by id", 6, &DeleteTopicRequest{TopicID: vectorTopic}},
		{"delete_topic.json", "delete topic response", 6, &DeleteTopicResponse{TopicID: vectorTopic}},
		{"alter_topic.json", "alter topic request", 7, &AlterTopicRequest{Name: "orders",
			Set: []TopicConfig{{TopicConfigRetentionBytes, "1GB"}}, Unset: []string{TopicConfigFlushMs}, TimeoutMs: 10_000}},
		{"alter_topic.json", "alter topic request with partitions", 7, &AlterTopicRequest{TopicID: vectorTopic, ValidateOnly: true, Partitions: 24}},
		{"alter_topic.json", "alter topic response", 7, &AlterTopicResponse{TopicID: vectorTopic, Partitions: 24}},
		{"describe_topic.json", "describe topic request", 8, &DescribeTopicRequest{Name: "orders"}},
		{"describe_topic.json", "describe topic response", 8, &DescribeTopicResponse{TopicID: vectorTopic, Name: "orders", Replicas: 1,
			Partitions: []PartitionDescription{
				{Leader: 1, LeaderEpoch: 3, Replicas: []uint32{1}, LogStartOffset: 10, HighWatermark: 90, LogEndOffset: 100, SizeBytes: 1 << 33},
				{Error: Error{Code: CodeNotLeader, Text: "node 1 does not lead it", Leader: &LeaderHint{2, 4, "10.0.0.2:9090"}},
					Leader: 2, LeaderEpoch: 4, Replicas: []uint32{2}, LogStartOffset: -1, HighWatermark: -1, LogEndOffset: -1},
			},
			Configs: []TopicConfigEntry{{TopicConfigDurability, "sync", ConfigSourceTopic, "When a batch is acknowledged."}}}},
		{"describe_topic.json", "describe topic response with damage", 8, &DescribeTopicResponse{TopicID: vectorTopic, Name: "orders", Replicas: 1,
			Partitions: []PartitionDescription{{Leader: 1, LeaderEpoch: 3, Replicas: []uint32{1}, LogStartOffset: 10, HighWatermark: 90, LogEndOffset: 100,
				SizeBytes: 1 << 20, Storage: &PartitionStorage{VerifiedMs: vectorTime, Verifying: true, SealedBytes: 1 << 19, DamagesTotal: 1,
					Damages: []StoredDamage{{Range: DamagedRange{BaseOffset: 20, NextOffset: 25}, FoundMs: vectorTime + 5, File: "topics/t/0/0.log", Text: "checksum mismatch"}}}}},
		}},
		{"verify_topic.json", "verify topic request", 18, &VerifyTopicRequest{Name: "orders"}},
		{"verify_topic.json", "verify topic request by id", 18, &VerifyTopicRequest{TopicID: vectorTopic}},
		{"verify_topic.json", "verify topic response", 18, &VerifyTopicResponse{TopicID: vectorTopic, Name: "orders", Partitions: []VerifyPartition{
			{SealedBytes: 1 << 33},
			{Error: Error{Code: CodePartitionUnavailable, Text: "it cannot be opened"}},
		}}},
		{"join_group.json", "join group request", 19, &JoinGroupRequest{Group: "billing", MemberID: "m-1", InstanceID: "host-7", ClientName: "worker 7",
			SessionTimeoutMs: 30_000, RebalanceTimeoutMs: 60_000, Topics: []string{"orders", "zażółć"}}},
		{"join_group.json", "join group request with a pattern", 19, &JoinGroupRequest{Group: "billing", Kind: GroupKindQueue, MemberID: "m-2",
			SessionTimeoutMs: 30_000, RebalanceTimeoutMs: 60_000, Pattern: "orders-.*"}},
		{"join_group.json", "join group response", 19, &JoinGroupResponse{MemberEpoch: 7, GroupEpoch: 9, Assignment: vectorAssignment()}},
		{"heartbeat.json", "heartbeat request", 20, &HeartbeatRequest{Group: "billing", MemberID: "m-1", InstanceID: "host-7", MemberEpoch: 7, Applied: -1, WaitMs: 10_000}},
		{"heartbeat.json", "heartbeat response without a change", 20, &HeartbeatResponse{GroupEpoch: 9}},
		{"heartbeat.json", "heartbeat response with an assignment", 20, &HeartbeatResponse{GroupEpoch: 10, Assignment: &[]GroupAssignment{vectorAssignment()}[0]}},
		{"leave_group.json", "leave group request", 21, &LeaveGroupRequest{Group: "billing", MemberID: "m-1", InstanceID: "host-7", MemberEpoch: 7, Returning: true}},
		{"leave_group.json", "leave group response", 21, &LeaveGroupResponse{GroupEpoch: 11}},
		{"commit_offset.json", "commit offset request", 22, &CommitOffsetRequest{Group: "billing", Items: []CommitOffsetItem{
			{TopicID: vectorTopic, Partition: 3, OwnerEpoch: 9, Offset: 1 << 40, LastEpoch: 2, Metadata: "so far"},
			{TopicID: vectorOther, OwnerEpoch: 10, LastEpoch: -1}}}},
		{"commit_offset.json", "commit offset request of a seek", 22, &CommitOffsetRequest{Group: "billing", Seek: true, Items: []CommitOffsetItem{
			{TopicID: vectorTopic, Partition: 3, OwnerEpoch: 12, Offset: 5, LastEpoch: -1}}}},
		{"commit_offset.json", "commit offset response", 22, &CommitOffsetResponse{Items: []CommitOffsetResult{
			{Committed: 1 << 40}, {Error: Error{Code: CodeStaleEpoch, Text: "epoch 12 has taken over"}, Committed: -1}}}},
		{"fetch_offsets.json", "fetch offsets request", 23, &FetchOffsetsRequest{Group: "billing", Items: []FetchOffsetsItem{
			{TopicID: vectorTopic, Partition: 3, OwnerEpoch: 9}, {TopicID: vectorOther, OwnerEpoch: -1}}}},
		{"fetch_offsets.json", "fetch offsets request for all", 23, &FetchOffsetsRequest{Group: "billing", All: true}},
		{"fetch_offsets.json", "fetch offsets response", 23, &FetchOffsetsResponse{Items: []FetchOffsetsResult{
			{TopicID: vectorTopic, Partition: 3, Committed: 90, LastEpoch: 2, Metadata: "so far", CommittedMs: vectorTime, OwnerEpoch: 9, LogStartOffset: 10, HighWatermark: 100},
			{TopicID: vectorOther, Error: Error{Code: CodeOffsetOutOfRange, Text: "offset 5 is gone", Offsets: &OffsetRange{Earliest: 10, Latest: 100}},
				Committed: 5, LastEpoch: -1, CommittedMs: vectorTime, OwnerEpoch: 9, LogStartOffset: -1, HighWatermark: -1}}}},
		{"fence_group.json", "fence group request", 24, &FenceGroupRequest{Group: "billing", Force: true}},
		{"fence_group.json", "fence group response", 24, &FenceGroupResponse{Epoch: 12}},
		{"list_groups.json", "list groups request", 25, &ListGroupsRequest{Cursor: []byte{1, 2}, PageGroupsMax: 100}},
		{"list_groups.json", "list groups response", 25, &ListGroupsResponse{Groups: []ListedGroup{
			{Group: "billing", Kind: GroupKindStream, State: GroupStateSettled, Epoch: 12, Members: 2}}, Cursor: []byte{1, 3}}},
		{"describe_group.json", "describe group request", 26, &DescribeGroupRequest{Group: "billing"}},
		{"describe_group.json", "describe group response", 26, &DescribeGroupResponse{State: GroupStateMoving, Epoch: 12, EmptySinceMs: -1, Members: []GroupMember{
			{MemberID: "m-1", InstanceID: "host-7", ClientName: "worker 7", Host: "127.0.0.1:50000", MemberEpoch: 7, SessionTimeoutMs: 30_000, RebalanceTimeoutMs: 60_000,
				HeardMs: 150, Assignment: vectorAssignment(), Leaving: []AssignedTopic{{TopicID: vectorTopic, Name: "orders", Partitions: []AssignedPartition{{5, 8}}}}}}}},
		{"delete_group.json", "delete group request", 27, &DeleteGroupRequest{Group: "billing"}},
		{"delete_group.json", "delete group response", 27, &DeleteGroupResponse{Epoch: 12}},
		{"lease.json", "lease request", 28, &LeaseRequest{Group: "mails", MemberID: "m-1",
			Add: []LeasePartition{{vectorTopic, 3, -1, 7, -1}, {vectorTopic, 4, 7, 7, 100}}, CreditRecords: 100, AckTimeoutMs: 30_000}},
		{"lease.json", "lease request with more credit", 29, &LeaseRequest{Subscription: 28, CreditRecords: 50}},
		{"lease.json", "lease request that removes", 30, &LeaseRequest{Subscription: 28, Remove: []TopicPartition{{vectorTopic, 3}}}},
		{"lease.json", "lease request that closes", 31, &LeaseRequest{Subscription: 28, Close: true}},
		{"lease.json", "lease response", 28, &LeaseResponse{Subscription: 28, Errors: []PartitionError{
			{TopicID: vectorOther, Partition: 1, Error: Error{Code: CodeStaleEpoch, Text: "epoch 12 has taken over"}},
			{TopicID: vectorTopic, Partition: 3, Error: Error{Code: CodeOffsetOutOfRange, Text: "the group has not begun here", Offsets: &OffsetRange{10, 90}}}}}},
		{"leased.json", "leased push", 28, &LeasedPush{TopicID: vectorTopic, Partition: 3, LeaderEpoch: 2, TimeoutMs: 30_000,
			Leases: []LeasedRange{{BaseOffset: 7, NextOffset: 8, Attempt: 2}}, Batches: stored(vectorBatch(), 7, 2)}},
		{"leased.json", "leased push with an error", 28, &LeasedPush{TopicID: vectorTopic, Partition: 3, LeaderEpoch: 2,
			Error: &Error{Code: CodeStaleEpoch, Text: "epoch 12 has taken over"}}},
		{"settle.json", "settle request", 30, &SettleRequest{Group: "mails", MemberID: "m-1", TopicID: vectorTopic, Partition: 3, Ranges: []SettledRange{
			{BaseOffset: 7, NextOffset: 8, Attempt: 2, Outcome: SettlementAck}, {BaseOffset: 9, NextOffset: 12, Attempt: 1, Outcome: SettlementNack, DelayMs: 5_000, Reason: "no route"},
			{BaseOffset: 12, NextOffset: 13, Attempt: 1, Outcome: SettlementExtend}, {BaseOffset: 13, NextOffset: 14, Attempt: 1, Outcome: SettlementReject, Reason: "no such user"},
			{BaseOffset: 14, NextOffset: 20, Attempt: 1, Outcome: SettlementRelease}}}},
		{"settle.json", "settle request that discards", 31, &SettleRequest{Group: "mails", TopicID: vectorTopic, Partition: 3, Ranges: []SettledRange{
			{BaseOffset: 7, NextOffset: 20, Outcome: SettlementDiscard}}}},
		{"settle.json", "settle response", 30, &SettleResponse{Ranges: []SettledResult{{Settled: 1}, {Error: Error{Code: CodeLeaseLost, Text: "offset 9 was acknowledged"}, Settled: 2}}}},
		{"describe_queue.json", "describe queue request", 31, &DescribeQueueRequest{Group: "mails", Items: []TopicPartition{{vectorTopic, 3}}}},
		{"describe_queue.json", "describe queue response", 31, &DescribeQueueResponse{Items: []QueuePartition{{TopicID: vectorTopic, Partition: 3, LowOffset: 7, HighOffset: 20,
			HighWatermark: 100, Available: 80, Leased: 9, Delayed: 2, Dying: 1, Dead: 1, WindowRecords: 13, WindowRecordsMax: 20_000,
			Blockers: []QueueBlocker{{Offset: 7, Attempt: 2, State: QueueRecordStateLeased, MemberID: "m-1", UntilMs: vectorTime},
				{Offset: 8, Attempt: 5, State: QueueRecordStateDead, UntilMs: -1, Reason: "no such user"}}}}}},
		{"init_producer.json", "init producer request", 9, &InitProducerRequest{}},
		{"init_producer.json", "init producer response", 9, &InitProducerResponse{ProducerID: 4_000_000_001}},
		{"produce.json", "produce request", 10, &ProduceRequest{TopicID: vectorTopic, Partition: 3, LeaderEpoch: -1, Acks: AcksDurable,
			TimeoutMs: 30_000, Batch: produced}},
		{"produce.json", "produce request without acks", 11, &ProduceRequest{TopicID: vectorTopic, LeaderEpoch: 7, Acks: AcksNone, Batch: produced}},
		{"produce.json", "produce response", 10, &ProduceResponse{BaseOffset: 1234, AppendTimeMs: -1, LogStartOffset: 10, Durability: DurabilitySync}},
		{"produce.json", "produce response of a duplicate", 10, &ProduceResponse{BaseOffset: 1 << 40, AppendTimeMs: vectorTime, Durability: DurabilityBatch, Duplicate: true}},
		{"fetch.json", "fetch request", 12, &FetchRequest{TopicID: vectorTopic, Partition: 3, LeaderEpoch: 7, Offset: 1234, LastEpoch: 6,
			MinBytes: 1, MaxWaitMs: 500, MaxBytes: 1 << 20, MaxRecords: 10_000}},
		{"fetch.json", "fetch response", 12, &FetchResponse{LeaderEpoch: 7, HighWatermark: 1235, LogStartOffset: 10, LogEndOffset: 1236,
			Batches: stored(vectorBatch(), 1234, 7)}},
		{"fetch.json", "fetch response with more to come", 12, &FetchResponse{LeaderEpoch: 7, HighWatermark: 1236, LogStartOffset: 10, LogEndOffset: 1236,
			More: true, Batches: append(stored(vectorBatch(), 1234, 6), stored(vectorBatch(), 1235, 7)...)}},
		{"fetch.json", "fetch response without records", 12, &FetchResponse{LeaderEpoch: 7, HighWatermark: 10, LogStartOffset: 10, LogEndOffset: 10}},
		{"subscribe.json", "subscribe request", 13, &SubscribeRequest{Add: []SubscribePartition{
			{vectorTopic, 0, 7, 100, 6, 1}, {vectorTopic, 1, -1, 0, -1, 2}}, CreditBytes: 1 << 22}},
		{"subscribe.json", "subscribe request that seeks", 14, &SubscribeRequest{Subscription: 13, Add: []SubscribePartition{{vectorTopic, 0, 7, 50, 5, 3}},
			Remove: []TopicPartition{{vectorTopic, 0}}}},
		{"subscribe.json", "subscribe request that closes", 15, &SubscribeRequest{Subscription: 13, Close: true}},
		{"subscribe.json", "subscribe response", 13, &SubscribeResponse{Subscription: 13, Errors: []PartitionError{{vectorTopic, 1,
			Error{Code: CodeOffsetOutOfRange, Text: "offset 0 is not held", Offsets: &OffsetRange{10, 90}}}}}},
		{"deliver.json", "deliver push", 13, &DeliverPush{TopicID: vectorTopic, Cookie: 1, LeaderEpoch: 7, HighWatermark: 101, LogStartOffset: 10,
			Batches: stored(vectorBatch(), 100, 7)}},
		{"deliver.json", "deliver push with an error", 13, &DeliverPush{TopicID: vectorTopic, Partition: 1, Cookie: 2, LeaderEpoch: -1, HighWatermark: -1, LogStartOffset: -1,
			Error: &Error{Code: CodeNotLeader, Text: "leadership has moved", Leader: &LeaderHint{2, 8, "10.0.0.2:9090"}}}},
		{"list_offsets.json", "list offsets request", 16, &ListOffsetsRequest{Items: []ListOffsetsItem{
			{vectorTopic, 0, -1, OffsetKindEarliest, 0}, {vectorTopic, 0, 7, OffsetKindLatest, 0},
			{vectorTopic, 1, 7, OffsetKindTimestamp, vectorTime}, {vectorOther, 0, -1, OffsetKindMaxTimestamp, 0}}}},
		{"list_offsets.json", "list offsets response", 16, &ListOffsetsResponse{Items: []ListOffsetsResult{
			{Offset: 10, TimestampMs: -1, LeaderEpoch: 3}, {Offset: 90, TimestampMs: -1, LeaderEpoch: 7},
			{Offset: -1, TimestampMs: -1, LeaderEpoch: -1},
			{Error: Error{Code: CodeUnknownTopic, Text: "no topic has this id"}, Offset: -1, TimestampMs: -1, LeaderEpoch: -1}}}},
		{"delete_records.json", "delete records request", 17, &DeleteRecordsRequest{TopicID: vectorTopic, Partition: 3, LeaderEpoch: 7, BeforeOffset: 500, TimeoutMs: 10_000}},
		{"delete_records.json", "delete records request up to the high watermark", 17, &DeleteRecordsRequest{TopicID: vectorTopic, LeaderEpoch: -1, BeforeOffset: -1}},
		{"delete_records.json", "delete records response", 17, &DeleteRecordsResponse{LogStartOffset: 500}},
		{"error.json", "error", 10, &Error{Code: CodeUnknownTopic, Text: "no topic has this id"}},
		{"error.json", "error about the connection", 0, &Error{Code: CodeFrameTooLarge, Text: "frame length 2147483647 is not allowed", Limit: 1 << 21}},
		{"error.json", "error with a wait", 10, &Error{Code: CodeOverloaded, Text: "memory is full", WaitMs: 250}},
		{"error.json", "error with a leader", 10, &Error{Code: CodeNotLeader, Text: "node 1 does not lead it", Leader: &LeaderHint{2, 8, "[2001:db8::1]:9090"}}},
		{"error.json", "error with a truncation", 12, &Error{Code: CodeLogTruncated, Text: "epoch 6 ends earlier here", Truncation: &Truncation{6, 1200}}},
		{"error.json", "error with offsets", 12, &Error{Code: CodeOffsetOutOfRange, Text: "offset 5 is not held", Offsets: &OffsetRange{10, 90}}},
		{"error.json", "error with a damaged range", 12, &Error{Code: CodeCorruptRecord, Text: "damaged", Damage: &DamagedRange{20, 30}}},
		{"error.json", "error with versions", 12, &Error{Code: CodeUnsupportedVersion, Text: "FETCH version 9 is not served", Versions: &VersionRange{1, 1}}},
	}
}

// batchCase makes one golden batch.
type batchCase struct {
	name, doc string
	codec     Codec
	records   []Record
	patch     func(Batch)
}

func (c batchCase) batch(t testing.TB) Batch {
	var b BatchBuilder
	b.Reset(c.codec)
	for i := range c.records {
		if err := b.Append(&c.records[i]); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if batch.Codec() != c.codec {
		t.Fatalf("%s: the records did not get smaller", c.name)
	}
	if c.patch != nil {
		c.patch(batch)
	}
	return batch
}

func batchCases() []batchCase {
	odd := []Record{
		{Timestamp: vectorTime, Value: []byte{}, Headers: []Header{{[]byte("twice"), []byte("1")}, {[]byte("twice"), []byte("2")}}},
		{Timestamp: vectorTime + 5, Key: []byte{0xff, 0xfe, 0}, Value: []byte("\x80value")},
		{Timestamp: vectorTime - 7, Key: []byte{}, Headers: []Header{{[]byte("null"), nil}, {[]byte{}, []byte{}}, {[]byte("bytes"), []byte{0xc3, 0x28}}}},
		{Timestamp: vectorTime + 300_000, Key: []byte("key"), Value: bytes.Repeat([]byte("x"), 300)},
	}
	many := make([]Record, 40)
	for i := range many {
		many[i] = Record{Timestamp: vectorTime + int64(i)*3, Key: fmt.Appendf(nil, "key-%d", i%10),
			Value: bytes.Repeat(fmt.Appendf(nil, "value number %d of a batch that gets smaller ", i), 4)}
	}
	large := make([]byte, 70_000)
	for i := range large {
		large[i] = byte(i>>3 ^ i>>9)
	}
	cases := []batchCase{
		{name: "one record", doc: "One record with a key and a value, as a producer builds it.", records: []Record{{Timestamp: vectorTime, Key: []byte("key"), Value: []byte("hello")}}},
		{name: "odd records", doc: "Null and empty keys and values, two headers of one name, null and empty header values, an empty header name, bytes that are not UTF-8, a time before the first one.", records: odd},
		{name: "stored", doc: "As a broker hands it out: with base offset and leader epoch.", records: odd[:1], patch: func(b Batch) { stored(b, 1<<40+7, 12) }},
		{name: "idempotent", doc: "From an idempotent producer; the sequence of the second record wraps to 0.", records: odd[:2], patch: func(b Batch) { b.SetProducer(4_000_000_000, 7, 1<<31-1) }},
		{name: "append time", doc: "With the broker's time: every record has the max timestamp.", records: odd, patch: func(b Batch) { stored(b, 5, 1).SetAppendTime(vectorTime + 1_000_000) }},
	}
	for _, codec := range allCodecs[1:] {
		cases = append(cases,
			batchCase{name: "compressed " + codec.String(), doc: "40 records compressed with " + codec.String() + ".", codec: codec, records: many},
			batchCase{name: "large " + codec.String(), doc: "One record of 70,000 bytes, several blocks in codecs that have them, compressed with " + codec.String() + ".", codec: codec, records: []Record{{Timestamp: vectorTime, Value: large}}})
	}
	return append(cases, batchCase{name: "compressed append time", doc: "Compressed, with the broker's time and an idempotent producer.", codec: CodecZstd, records: many,
		patch: func(b Batch) { b.SetProducer(1, 0, 0); stored(b, 99, 2).SetAppendTime(vectorTime + 5) }})
}

// invalidCases makes payloads and batches that have to be refused.
func invalidCases(t testing.TB) []invalidVector {
	payload := func(name, message string, b []byte) invalidVector {
		return invalidVector{Name: name, Message: message, Bytes: hex.EncodeToString(b), Error: "MALFORMED_REQUEST"}
	}
	u := binary.AppendUvarint
	id := make([]byte, 8)
	cases := []invalidVector{
		payload("cut off", "ping_request", make([]byte, 8)),
		payload("a byte too many", "ping_request", make([]byte, 10)),
		payload("count of 2^31", "subscribe_request", u(id[:8:8], 1<<31)),
		payload("count of 2^63", "subscribe_request", u(id[:8:8], 1<<63)),
		payload("count larger than the bytes left", "subscribe_request", append(u(id[:8:8], 1000), make([]byte, 500)...)),
		payload("overlong count", "subscribe_request", append(id[:8:8], 0x80, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
		payload("bool of 2", "subscribe_request", append(id[:8:8], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0)),
		payload("length past the end", "hello_request", []byte{'P', 'M', 'Q', '1', 5, 'a'}),
		payload("text that is not UTF-8", "hello_request", []byte{'P', 'M', 'Q', '1', 2, 0xc3, 0x28, 0, 0}),
		payload("tags that fall", "error_response", []byte{0, 1, 0, 2, 90, 0, 89, 0}),
		payload("a tag twice", "error_response", []byte{0, 1, 0, 2, 90, 0, 90, 0}),
		payload("a known tag with too few bytes", "error_response", []byte{0, 1, 0, 1, 0, 2, 1, 1}),
		payload("a known tag with too many bytes", "error_response", []byte{0, 1, 0, 1, 0, 5, 0, 0, 0, 1, 1}),
	}
	for _, c := range badBatches(t) {
		cases = append(cases, invalidVector{Name: c.name, Bytes: hex.EncodeToString(c.b), Error: c.want.String()})
	}
	return cases
}
