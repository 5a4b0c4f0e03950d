package mail

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// A lease subscription is named by its connection and ID, as a subscription of SUBSCRIBE is, and apart from those.
// Its credit counts records. The reactor keeps it and lends it out in parts that add up to it, so that all shards
// together never lease more than the member asked for:
//
//	shard                                      reactor
//	has records and no credit: More -------->  remembers that it wants
//	leases, at most that many   <------------  RequestLeaseCredit: an even part of what is not lent
//	AnswerLeased: spent         ------------>
//	                            <------------  RequestLeaseRecall: another shard wants, and nothing is left
//	AnswerLeaseCredit: the rest ------------>
//
// A shard keeps credit that it has no records for until it is recalled, so that a record which comes then waits for nobody.

// Lease is the body of RequestLease: one partition for a lease subscription.
type Lease struct {
	Group, Member string
	Owner         int64       // owner epoch of the member's assignment
	Start         core.Offset // where the group begins when it has not begun; -1 nowhere
	TimeoutMillis uint32      // of its leases; 0 the topic's
}

// Leased is the body of AnswerLeased. It belongs to the reactor until the answer's Parcel is given back.
type Leased struct {
	Topic         core.TopicID
	Number        core.PartitionNumber
	Records       uint32              // leased, all ranges together: what is spent of the credit
	TimeoutMillis uint32              // from now until the leases are over
	Ranges        []proto.LeasedRange // ascending
}

// Settle is the body of RequestSettle: outcomes for one partition, at most core.SettleRangesMax
// ranges, ascending and apart, of known outcomes, with reasons of core.SettleReasonBytesMax at most.
type Settle struct {
	Group, Member string
	Ranges        []proto.SettledRange
}
