// Package proto is PulseMQ's wire protocol as pure functions over bytes: frames, commands, record batches and error
// codes. It does no I/O and imports nothing of the broker, so clients depend on it without the broker's libraries.
//
// # Where things come from
//
// schema/*.yaml describes every command, structure and error once. tools/gen makes the *_gen.go files here and
// docs/protocol from it; go run ./tools/gen -check fails when they are stale. Everything else is written by hand.
//
//	frame.go           the header around every payload
//	reader.go          bounds-checked reading of payloads; append.go is the other way round
//	command.go         what a command number means; error.go the same for codes
//	*_gen.go           one structure per message, with Size, AppendTo and Decode
//	batch.go           a record batch as a view over its bytes; batch_validate.go the rules for it
//	batch_builder.go   records into batches; record.go batches into records
//	codec*.go          the five compressions
//	crc.go             CRC32C, and combining two of them
//	partitioner.go     which partition a key belongs to
//	limits.go          what a broker allows and clients check first
//
// # Frame
//
//	 0        4         5         6             14
//	+--------+---------+---------+-------------+---------~
//	| length | version | command | request id  | payload
//	+--------+---------+---------+-------------+---------~
//	   u32       u8        u8         u64
//
// length counts what follows it. Bit 7 of command marks an answer. A payload is
//
//	fixed fields | tagged fields: count, count x (tag, size, value) | bulk bytes to the end of the frame
//
// and every structure inside it is the same without the bulk bytes. Reading never copies bytes (strings are copied), never
// makes room for more than the payload can hold, and refuses what has a second form. Messages are decoded into values that
// the caller owns, whose lists are used again.
//
// # Record batch
//
// The layout is Kafka's RecordBatch v2:
//
//	 0             8        12             16      17    21           23
//	+-------------+--------+--------------+-------+-----+------------+-------------------+
//	| base offset | length | leader epoch | magic | crc | attributes | last offset delta |
//	+-------------+--------+--------------+-------+-----+------------+-------------------+
//	      i64        i32         i32          i8    u32      i16              i32
//
//	 27               35              43            51               53              57      61
//	+----------------+---------------+-------------+----------------+---------------+-------+---------~
//	| base timestamp | max timestamp | producer id | producer epoch | base sequence | count | records
//	+----------------+---------------+-------------+----------------+---------------+-------+---------~
//	       i64              i64            i64            i16              i32         i32
//
// length counts from the leader epoch on. crc covers everything from the attributes on, so the broker sets base offset and
// leader epoch freely. What else it or a producer changes in the header (append time, producer, sequence) costs a checksum
// of 40 bytes: the one of the records is taken out of the old crc and combined with that of the new header. In the same way
// storage makes the checksum of a frame from those of its batches.
//
// A record, all lengths and deltas zigzag varints, -1 for null:
//
//	length | attributes i8 | timestamp delta | offset delta | key length | key | value length | value |
//	header count | header count x (key length | key | value length | value)
package proto
