// Package cluster holds what all brokers agree on: topics with their
// partitions, nodes with their incarnations, blocks of producer ids and the
// finalized feature level.
//
// Metadata is a pure state machine over versioned commands. The commands are
// the values of records in ordinary data frames of the metadata partition
// (core.MetadataPartition), written with sync durability:
//
//	request ──> Plan (validate.go) ──> Command ──> append, fdatasync ──> Apply ──> View
//
// Apply depends on the commands and their order alone. Several commands may be
// on their way to the disk at once, so a command that was allowed when it was
// planned can meet another state when it is applied: Apply then refuses it with
// the same error that Plan would have given, and changes nothing. Replay meets
// the same refusals and ignores them.
//
// A command of a version or kind that this build does not know stops the
// replay with ErrCommandUnknown: to skip it would let this node disagree with
// the others about everything after it.
//
// # Partition ids and deletions
//
// Ids of partitions are given out densely, from core.PartitionIDFirst up, and
// never again. An id below the next one that belongs to no topic is therefore
// the id of a deleted partition: its frames and folders may be removed. An id at
// or above the next one was never given out as far as this log knows, so what is
// found under it is quarantined. No list of deletions has to be kept for that.
//
// # Snapshot
//
//	version u16 | epoch u64 | next partition u64 | next producer i64 | feature level u16
//	| nodes: count, (id u32, incarnation 16)...
//	| topics: count, in the order of names:
//	    id 16, name, replicas u16, runs of partition ids: count, (first u64, count u32, leader u32)...,
//	    overrides: count, (key, value)...
//
// Counts are u32; texts are a u32 length and bytes; all integers big-endian.
package cluster
