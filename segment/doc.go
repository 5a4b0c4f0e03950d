// Package segment is the storage engine of a shard: partition logs made of
// segments with sparse indexes, the shard's journal with group commit,
// recovery to the durable point, retention, compaction and the offline tools
// that read a data folder.
//
// A data folder:
//
//	data/
//	  meta/                                    identity, layout, list of journal files
//	  layout-L/shard-NN/journal-NNNN.jnl       fixed size, pre-zeroed, recycled
//	  topics/<topic id>/<partition>/<20-digit base offset>-<10-digit segment number>.log .index .state
//
// Everything that is stored is a frame: a 64-byte header and its payload. The
// same frame bytes stand in the journal and in the segment.
//
//	0         4  5  6     8          12          16              24
//	+---------+--+--+-----+----------+-----------+---------------+----------------+
//	| magic   |v |k |flags| head crc | pay. crc  | partition id  | index          |
//	+---------+--+--+-----+----------+-----------+---------------+----------------+
//	32        36          40         48          52              56              64
//	+---------+-----------+----------+-----------+---------------+----------------+
//	| term    | generation| base offset (40..48) | offset span   | payload bytes  | append time (56..64)
//	+---------+-----------+----------+-----------+---------------+----------------+
//
// A journal group is a 64-byte header and whole frames, starting on a 4 KiB
// boundary. A segment write is a write mark, whole frames, and zeros up to the
// next 4 KiB boundary. All integers are big-endian.
package segment
