package mail

import "github.com/pulsemq/pulsemq/core"

// LetterKind says what one shard tells another.
type LetterKind uint8

const (
	// LetterOpen asks the owner to create the partition described by Topic and Number.
	LetterOpen LetterKind = iota + 1
	// LetterConfigure hands the owner a changed topic configuration.
	LetterConfigure
	// LetterDelete asks the owner to delete the partition.
	LetterDelete
	// LetterDone answers each of the above to the shard that asked.
	LetterDone
	// LetterForget asks a shard to drop what Group has committed to its partitions, unless
	// that was after Time.
	LetterForget
	// LetterForgot answers it: it is done, durably, or Time is that of a later commit.
	LetterForgot
)

// Letter travels between shards about changes of metadata, and about groups that are forgotten. The shard of the
// metadata partition sends it after the change is durable and counts the answers
// before it answers the client.
type Letter struct {
	Kind      LetterKind
	From      core.ShardID
	Change    uint64 // metadata epoch of the change
	Partition core.PartitionID
	Number    core.PartitionNumber
	Topic     *core.Topic

	// Of LetterForget and LetterForgot. Partition is the one that keeps the group, and Change
	// is its number for this asking.
	Group string
	Time  int64 // milliseconds
}
