// Package group is a consumer group as a pure state machine: who its members are, which partitions each is meant to
// have, and who has them now. It does no I/O and reads no clock; its coordinator (shard) tells it the time, stores its
// record when it has changed, and answers only when that is durable.
//
// # How partitions move
//
// Each partition has a target, the member that should have it, and a holder, the member that has it or was told that it
// may. They differ while the partition moves:
//
//	target A, holder A      settled
//	target B, holder A      A is told to give it up (it is no longer in A's assignment)
//	target B, holder none   A has applied an assignment without it, or is gone
//	target B, holder B      B is told, with a new owner epoch
//
// Only partitions that move stop. An assignment has a version; naming it in a heartbeat says that everything which is
// not in it was given up. So heartbeats carry no lists, and a lost or repeated one does no harm.
//
// # Queue groups
//
// Members of a queue group share partitions: each message is leased to one of them where it lies, so nothing has to be
// given up before somebody else has it. A partition has no target and no holder but a list of members, all that read its
// topic while that fits. They have it under the epochs of their memberships: what ends those is the only thing that
// takes it from them all.
//
// # Epochs
//
// Member epochs, owner epochs, assignment versions and the group's epoch are drawn from one counter, which only rises,
// also over the lives of groups of one name: a new group begins above every group that its coordinator has forgotten.
//
// # What is stored
//
// The record (record.go) holds everything but when members were last heard of: after a start of the coordinator every
// member has its whole session time-out to be heard again, and nothing moves.
package group
