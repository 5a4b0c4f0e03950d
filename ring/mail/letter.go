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
)

// Letter travels between shards about changes of metadata. The shard of the
// metadata partition sends it after the change is durable and counts the answers
// before it answers the client.
type Letter struct {
	Kind      LetterKind
	From      core.ShardID
	Change    uint64 // metadata epoch of the change
	Partition core.PartitionID
	Number    core.PartitionNumber
	Topic     *core.Topic
}
