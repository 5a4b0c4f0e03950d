package core

import (
	"encoding/hex"
	"fmt"
)

// TopicID is a random 128-bit name given to a topic at creation. It is never
// reused, which tells a topic from a deleted namesake.
type TopicID [16]byte

// String returns 32 lower-case hexadecimal digits; it is also the folder name.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// ParseTopicID reads what String wrote.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if len(s) != 2*len(id) {
		return id, fmt.Errorf("topic id %q: has %d characters, wants %d hexadecimal digits", s, len(s), 2*len(id))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, fmt.Errorf("topic id %q: %w", s, err)
	}
	return id, nil
}

// PartitionID names a partition in frames and journals. Ids come from the
// metadata log and are never reused. Zero is no partition.
type PartitionID uint64

// MetadataPartition is the partition whose log holds the cluster's metadata
// commands. It is written with the same frames and journal as any other.
const MetadataPartition PartitionID = 1

// PartitionIDFirst is the first id given to a partition of a topic; those below
// are kept for partitions of the broker itself.
const PartitionIDFirst PartitionID = 16

// PartitionNumber is a partition's place in its topic, from 0.
type PartitionNumber uint32

// Offset is a record's place in its partition. "Next" and "end" offsets are
// exclusive: ranges are [base, next).
type Offset int64

// Index is the position of a frame in its partition's replicated log, from 1.
// It equals the raft index.
type Index uint64

// Term is the raft term of a frame; clients see it as the leader epoch.
type Term uint32

// TermMax keeps a term representable as a leader epoch, which is an int32.
const TermMax Term = 1<<31 - 1

// LeaderEpoch is the term as clients see it. -1 means "not known".
type LeaderEpoch int32

// Generation orders rewrites of one index on one replica's disk. It is local
// to a data folder and rises after a truncation, a failed write or sync, and
// every unclean start.
type Generation uint32

// SegmentNumber names a segment file of a partition; it is never reused.
type SegmentNumber uint32

// ProducerID names an idempotent producer; -1 means none.
type ProducerID int64

// NodeID names a broker of the cluster, from 1.
type NodeID uint32

// ShardID is a shard's place among the shards of this node, from 0.
type ShardID uint16

// ShardOf says which of a node's shards owns a partition. The mix spreads
// consecutive ids; its constants are those of the splitmix64 finalizer.
func ShardOf(id PartitionID, shards int) ShardID {
	Assert(shards > 0, "a node has at least one shard")
	x := uint64(id)
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	x ^= x >> 31
	return ShardID(x % uint64(shards))
}
