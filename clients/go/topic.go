package pulsemq

import (
	"encoding/hex"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// TopicID tells a topic from a deleted namesake.
type TopicID [16]byte

// String is the id in hexadecimal digits.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// TopicSpec is what CreateTopic creates.
type TopicSpec struct {
	Name       string
	Partitions uint32            // 0 takes the broker's default
	Replicas   uint16            // 0 takes the broker's default
	Config     map[string]string // settings that differ from the broker's defaults

	// ValidateOnly checks everything and creates nothing.
	ValidateOnly bool
}

// TopicChange is what AlterTopic changes; all of it or nothing.
type TopicChange struct {
	Set        map[string]string // settings to change
	Unset      []string          // settings that go back to the broker's default
	Partitions uint32            // the new number of partitions, more than now; 0 leaves it

	// ValidateOnly checks everything and changes nothing.
	ValidateOnly bool
}

// Topic is a topic as the list shows it.
type Topic struct {
	Name       string
	ID         TopicID
	Partitions []TopicPartition // by their number
}

// TopicPartition is where a partition lives.
type TopicPartition struct {
	Number      uint32
	Leader      uint32 // node id; 0 when there is none now
	LeaderEpoch int32  // -1 when unknown
	Replicas    []uint32
}

// TopicDescription is everything there is to know about a topic.
type TopicDescription struct {
	Name       string
	ID         TopicID
	Replicas   uint16
	Partitions []PartitionDescription // by their number
	Config     []ConfigEntry          // by their key
}

// PartitionDescription is a partition with its offsets. Err says why its leader could not be asked; the offsets are
// then -1.
type PartitionDescription struct {
	TopicPartition
	LogStartOffset int64 // the first record still kept
	HighWatermark  int64 // one more than the last offset that consumers may see
	LogEndOffset   int64 // the next offset to be given out
	SizeBytes      uint64
	Storage        *PartitionStorage // nil when the broker does not tell
	Err            error
}

// PartitionStorage is how whole a partition's stored records are known to be.
type PartitionStorage struct {
	// VerifiedSince is a moment: all that was sealed then has been read again and verified after it. Zero when unknown.
	VerifiedSince time.Time
	// Verifying says that a VerifyTopic has not ended yet.
	Verifying bool
	// SealedBytes is what a verification reads.
	SealedBytes uint64
	// DamagesTotal is how many damaged ranges are known; more than are listed when there are very many.
	DamagesTotal uint32
	Damages      []StoredDamage // in ascending order
}

// StoredDamage is a range of records that the broker's disk lost. A consumer is told ErrCorruptRecord there.
type StoredDamage struct {
	Base, Next int64     // the offsets, [Base, Next)
	Found      time.Time // when the broker met it since its last start
	File       string    // that should hold them, in the broker's data folder; empty when it is not known
	Text       string    // what is wrong; for people
}

// Verification is what VerifyTopic set going in one partition, or why not.
type Verification struct {
	Partition   uint32
	SealedBytes uint64 // that are read
	Err         error
}

// ConfigSource says where a setting's value comes from.
type ConfigSource = proto.ConfigSource

// The sources of settings.
const (
	ConfigSourceDefault = proto.ConfigSourceDefault // the broker's default
	ConfigSourceTopic   = proto.ConfigSourceTopic   // set on the topic
)

// ConfigEntry is one setting of a topic.
type ConfigEntry struct {
	Key    string
	Value  string
	Source ConfigSource
	Doc    string
}

// OffsetSpec names the offsets that ListOffsets finds.
type OffsetSpec struct {
	kind proto.OffsetKind
	ms   int64
}

// OffsetEarliest is the first record still kept.
func OffsetEarliest() OffsetSpec { return OffsetSpec{kind: proto.OffsetKindEarliest} }

// OffsetLatest is the high watermark: where the next visible record will be.
func OffsetLatest() OffsetSpec { return OffsetSpec{kind: proto.OffsetKindLatest} }

// OffsetAtTime is the first record whose time is at or after t.
func OffsetAtTime(t time.Time) OffsetSpec {
	return OffsetSpec{kind: proto.OffsetKindTimestamp, ms: t.UnixMilli()}
}

// OffsetMaxTimestamp is the record with the highest time, the first of several.
func OffsetMaxTimestamp() OffsetSpec { return OffsetSpec{kind: proto.OffsetKindMaxTimestamp} }

// PartitionOffset is what ListOffsets found in one partition.
type PartitionOffset struct {
	Partition   uint32
	Offset      int64     // -1 when no record matches
	Timestamp   time.Time // of the record, for OffsetAtTime and OffsetMaxTimestamp; else zero
	LeaderEpoch int32     // -1 when no record matches
	Err         error
}

// Found reports whether there is such an offset.
func (o PartitionOffset) Found() bool { return o.Err == nil && o.Offset >= 0 }
