package core

// All compiled-in limits of the broker, with unit and reason. What an operator
// may choose is configuration (config.go), bounded by these. The relations at
// the end do not compile when they are false.
const (
	// SlabBytesMin and SlabBytesMax are the smallest and largest size class of slabs.
	// 4 KiB is the disk's unit; 2 MiB is a huge page.
	SlabBytesMin = 4 << 10
	SlabBytesMax = 2 << 20

	// BatchRoomBytes is what a reactor leaves free in a slab before a batch, so that a
	// large batch is written from the slab behind its write mark and frame header.
	BatchRoomBytes = 128

	// BatchBytesMax is the largest record batch that can be configured: it must fit a
	// slab with its room, and its padding to the disk's unit.
	BatchBytesMax = SlabBytesMax - 64<<10

	// FrameBytesMax bounds a wire frame: a batch with the fields before it.
	FrameBytesMax = BatchBytesMax + 4<<10

	// HandshakeFrameBytesMax bounds a frame before HELLO has been answered.
	HandshakeFrameBytesMax = 4 << 10

	// AnswerChunkBytesMax bounds the batches of one answer unless one batch is larger.
	AnswerChunkBytesMax = 1 << 20

	// AnswerSlicesMax bounds the slices of one socket write; gnet closes the
	// connection above 1024.
	AnswerSlicesMax = 256

	// DirectWriteBytesMin is the batch size from which a batch is a frame of its own
	// and may go straight to its segment.
	DirectWriteBytesMin = 64 << 10

	// CombineBytesMin is from which size on combining two checksums is cheaper than
	// running over bytes that were just copied and still lie in the cache. The checksum
	// of a smaller batch's records is not handed on.
	CombineBytesMin = 4 << 10

	// JournalGroupBytesMax bounds one journal group with its header.
	JournalGroupBytesMax = 1 << 20

	// GatherFrameBytesMax bounds the frame that gathers the small batches of one
	// partition and turn.
	GatherFrameBytesMax = 256 << 10

	// SegmentExtentBytes is how much a segment file grows at a time.
	SegmentExtentBytes = 16 << 20

	// SegmentExtentIdleBytes is the first extent of a segment, which idle partitions never leave.
	SegmentExtentIdleBytes = 1 << 20

	// IndexIntervalBytes is the most bytes of frames between two entries of a sparse index.
	IndexIntervalBytes = 64 << 10

	// ProducersPerPartitionMax bounds the idempotent producers remembered per partition.
	ProducersPerPartitionMax = 10_000

	// BurialProducerMin is the first of the producer ids that the broker makes up for itself, to
	// write records that queue groups have given up. Ids are given out from 0 on, one by one.
	BurialProducerMin ProducerID = 1 << 62

	// ProducerBatchesRemembered is how many batches per producer and partition can be
	// recognised as duplicates; HELLO announces it as the producer's in-flight limit.
	ProducerBatchesRemembered = 5

	// PartitionsPerTopicMax bounds a topic.
	PartitionsPerTopicMax = 10_000

	// PartitionsPerNodeMax bounds a node.
	PartitionsPerNodeMax = 200_000

	// TopicNameBytesMax bounds a topic's name.
	TopicNameBytesMax = 249

	// GroupNameBytesMax bounds the name of a consumer group, and of a static member.
	GroupNameBytesMax = 255

	// MemberIDBytesMax bounds the id that a member chooses.
	MemberIDBytesMax = 64

	// GroupMembersMax bounds the members of one group, GroupPartitionsMax the partitions
	// that it shares, GroupRecordBytesMax the bytes of its record: that has to fit one
	// frame of the smallest journal.
	GroupMembersMax     = 1_000
	GroupPartitionsMax  = 10_000
	GroupRecordBytesMax = 480 << 10

	// GroupSharesMax bounds the places that the members of one queue group have in its
	// partitions: 1,000 members share 32 partitions all with all, and beyond that each
	// partition goes to fewer.
	GroupSharesMax = 1 << 15

	// GroupsPerCoordinatorMax bounds the groups of one partition of the groups' topic,
	// GroupsBytesMax their records: they have to fit a state file.
	GroupsPerCoordinatorMax = 50_000
	GroupsBytesMax          = 12 << 20

	// GroupTopicsMax bounds the topics that a member names.
	GroupTopicsMax = 100

	// GroupPatternBytesMax bounds the pattern that a member names.
	GroupPatternBytesMax = 255

	// CursorMetadataBytesMax bounds what a commit says beside its offset.
	CursorMetadataBytesMax = 1024

	// SettleRangesMax bounds the ranges of one SETTLE, SettleReasonBytesMax what a range says
	// of its why.
	SettleRangesMax      = 1024
	SettleReasonBytesMax = 1024

	// CursorBytesMax bounds what one partition keeps of the groups that read it, as its
	// state file holds it.
	CursorBytesMax = 8 << 20

	// QueuesPerPartitionMax bounds the queue groups of one partition: what they take together is
	// added up when one of them leases.
	QueuesPerPartitionMax = 1_000

	// QueueBytesMax bounds what one partition keeps of the windows of its queue groups, as its
	// state file holds it; QueueTextBytesMax is the part of it for what members said of dead
	// records.
	QueueBytesMax     = 5 << 20
	QueueTextBytesMax = 1 << 20

	// StateOwnerBytesMax bounds what a partition's owner keeps in a state file:
	// producers, the offsets and windows of groups, or the groups themselves.
	StateOwnerBytesMax = 16 << 20

	// ShardsMax and ReactorsMax bound a node's threads.
	ShardsMax   = 64
	ReactorsMax = 64

	// ProducerIDBlock is how many producer ids are reserved by one metadata command.
	ProducerIDBlock = 1_000
)

// Relations between limits. A negative constant does not convert to uint.
const (
	_ = uint(SlabBytesMax - BatchRoomBytes - BatchBytesMax - DiskAlignment)
	_ = uint(JournalGroupBytesMax - GatherFrameBytesMax - DiskAlignment)
	_ = uint(GatherFrameBytesMax - DirectWriteBytesMin)
	_ = uint(1024 - AnswerSlicesMax)
	_ = uint(StateOwnerBytesMax - GroupsBytesMax - 4*GroupRecordBytesMax)
	_ = uint(GroupSharesMax - GroupPartitionsMax)
	_ = uint(StateOwnerBytesMax - CursorBytesMax - QueueBytesMax - 200*ProducersPerPartitionMax)
	_ = uint(QueueBytesMax - QueueTextBytesMax - 2*16*QueueWindowMax)
	_ = uint(SegmentExtentBytes - SegmentExtentIdleBytes)
)
