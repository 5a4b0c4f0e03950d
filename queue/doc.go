// Package queue is how a queue group stands in one partition: which of its records are settled, which may be leased, how
// often each was delivered. It is a pure state machine (docs/adr/0025-queues.md): it knows no clock, no disk and no member.
//
//	           low                              high
//	 settled    | some settled, some not         |  never leased
//	------------+--------------------------------+---------------
//	            |<--- a Window holds these ----->|
//
// A record has a state, which is durable: it changes by an Op alone, once the op is stored, in the order of the log, so
// that a replay comes to the same state. Beside it a record has a mark, which is lost with the process: who has it leased
// and until when, or that an op about it is on its way. A record with a mark is left alone by everything but what marked
// it, so there is at most one op under way for a record, and the ops of one frame may be sorted and put together.
//
// Ops travel in the bodies of cursor entries of kind 5:
//
//	body  owner epoch varint | time varint | ops to the end
//	op    kind u8 | base offset, from the next of the op before: varint | records uvarint | what the kind has:
//
//	kind         has                                          what becomes of the records
//	1 begin      identity u64                                 the window begins at base, with none
//	2 lease      attempts uvarint                             delivered that often, with this time
//	3 settle                                                  done
//	4 retry      attempts uvarint, until varint               available, or delayed until then
//	5 die        reason u8, text: length uvarint, bytes       on the way to the dead-letter topic
//	6 bury       reason u8, text                              dead, until somebody takes them out
//
// An op that does not fit a record's state leaves the record alone; what is settled stays settled.
package queue
