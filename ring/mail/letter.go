package mail

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

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
	// that was after Time, or its owner epoch there is above Owner.
	LetterForget
	// LetterForgot answers it: it is done, durably, or Time is that of a later commit.
	LetterForgot
	// LetterBury asks the owner of Partition, of a dead-letter topic, to store Burial.
	LetterBury
	// LetterBuried answers it, with the same Change: Burial says what lies there durably.
	LetterBuried
	// LetterClaim says that Group has taken partitions of a shard over under the epoch Owner.
	// Who keeps the group answers with LetterForget when there is none.
	LetterClaim
)

// Letter travels between shards: about changes of metadata, about groups that are forgotten, and with records that a
// queue group has given up. Of a change, the shard of the metadata partition sends it after the change is durable and
// counts the answers before it answers the client.
type Letter struct {
	Kind      LetterKind
	From      core.ShardID
	Change    uint64 // metadata epoch of the change
	Partition core.PartitionID
	Number    core.PartitionNumber
	Topic     *core.Topic

	// Of LetterForget, LetterForgot and LetterClaim. Partition is the one that keeps the group,
	// and Change is its number for this asking; 0 when nobody waits for the answer.
	Group string
	Time  int64 // milliseconds
	Owner int64 // epoch

	// Of LetterBury and LetterBuried. Change is its number for the shard that asks.
	Burial *Burial
}

// Burial is a batch for a dead-letter topic. It goes with the letter and comes back with its answer: only who has the
// letter touches it.
type Burial struct {
	// Batch has the broker's own producer, so that a repetition is known for one.
	Batch []byte
	// Buried says, in the answer, how many records of the batch lie in the partition, from the first on. Without Err it
	// is at least one.
	Buried int
	Err    *proto.Error
}
