// Package payload makes the record batches that a run sends, and recognises them when they are read back.
//
// A batch is built once, as a Template. Sending it again costs a few hundred bytes of work whatever its size, because
// what differs from batch to batch lies at its front and the checksum of the rest is known:
//
//	+-------------+---------------------------+------------------------------------------+
//	| header (61) | first record up to its    | rest of the records, the same in every   |
//	|             | mark, and the mark        | batch: sent from one place in memory     |
//	+-------------+---------------------------+------------------------------------------+
//	 crc and times   patched for each batch     never touched, its checksum is combined
//	 are patched
//
// A mark names the run, the producer and a counter, so that a reader of the log can tell what is missing, what is there
// twice and what is out of order:
//
//	 0       4         8         16         20      24        32     40
//	+-------+---------+---------+----------+-------+---------+------+
//	| magic | records | run     | producer | index | counter | sent |
//	+-------+---------+---------+----------+-------+---------+------+
//	   u32     u32       u64       u32       u32     u64       i64
//
// The mark of index 0 speaks for as many records as it says; the others of the batch hold the magic, the run and their
// own index, and zeros, because they are never patched.
//
// A compressed batch is patched in the same way. Every codec's format is a sequence of frames or blocks, and has a way
// to hold bytes as they are: the front of the records goes into a frame of its own that stores it, the rest is
// compressed once. See stored.go.
package payload
