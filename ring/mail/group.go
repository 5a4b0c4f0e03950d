package mail

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// GroupCommand is a command about a consumer group on its way to the group's coordinator.
type GroupCommand struct {
	// Message is a *proto.XxxRequest of JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, FENCE_GROUP,
	// LIST_GROUPS, DESCRIBE_GROUP or DELETE_GROUP.
	Message proto.Message
	// View is the newest one that the reactor has: the coordinator looks topics up in it.
	View core.View
	// Host is the address that the client has connected from.
	Host string
}

// GroupsTopicWanted asks the shard of the metadata to make core.GroupsTopic.
type GroupsTopicWanted struct{}

// CursorDeed says what a Cursor asks for.
type CursorDeed uint8

const (
	// CursorAsk tells what is committed.
	CursorAsk CursorDeed = iota
	// CursorOwn takes the partition over under the owner epoch.
	CursorOwn
	// CursorCommit commits an offset, CursorSeek sets it.
	CursorCommit
	CursorSeek
)

// Cursor is one item of COMMIT_OFFSET or FETCH_OFFSETS.
type Cursor struct {
	Deed      CursorDeed
	Group     string
	Owner     int64
	Offset    int64
	LastEpoch int32
	Metadata  string
}

// CursorState answers a Cursor: what the partition knows of the group.
type CursorState struct {
	Topic     core.TopicID
	Number    core.PartitionNumber
	Owner     int64
	Offset    int64 // committed; -1 nothing
	LastEpoch int32
	Metadata  string
	Time      int64 // of the commit, milliseconds; -1 none

	LogStartOffset, HighWatermark core.Offset

	// Err says that the partition was taken over and the log no longer holds the offset.
	Err *proto.Error
}
