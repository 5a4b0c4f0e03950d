// Package ledger holds what a run was promised against what the log turns out to hold.
//
// Producers write down which marks were acknowledged and where; readers write down every mark that they find. Both may
// happen at the same time, and in any order: an end-to-end run often reads a batch before its producer has the answer.
//
//	acknowledged, not found        lost
//	found more than once           duplicated
//	found behind a later mark of   reordered: a connection's batches for one partition keep their order
//	the same producer, in the
//	same partition
//	found somewhere else than      misplaced: an acknowledgement says where the first record lies
//	acknowledged
//	found, never sent              unknown
//
// What was sent and refused, or never answered, may be there once or not at all.
package ledger
