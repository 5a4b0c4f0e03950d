// Package segment is the storage engine of a shard: partition logs made of
// segments with sparse indexes, the shard's journal with group commit,
// recovery to the durable point, retention, compaction and the offline tools
// that read a data folder.
//
// A data folder:
//
//	data/
//	  meta/                                    identity, layout, list of journal files; a copy of each
//	  layout-L/shard-NN/journal-NNNN.jnl       fixed size, pre-zeroed, recycled
//	  topics/<topic id>/<partition>/<20-digit base offset>-<10-digit segment number>.log .index .state
//	  held/partition-<id>-<number>.frames      what the journal held of a partition that could not be opened
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
//
// Write marks are sealed with their file's salt and their own position, so that
// the scanner finds the next write behind a damaged place and is not misled by
// record bytes that look like frames. Long writes may carry marks inside.
//
// An index and a state are a file header with the segment's ids and salt, a body,
// and one checksum over both; index_file.go and state_file.go draw the bodies.
//
//	segment.log   [header 4096][mark|frame|frame|...|zeros to 4 KiB][mark|frame|...]...[zeros: reserved]
//	segment.index [header 4096][entries, end, next offset, last index, max timestamp][entry 36]...[crc]
//	segment.state [header 4096][index, term, generation, position, offsets][epoch table][owner's part][crc]
//	journal.jnl   [header 4096][group header 64|frames|zeros to 4 KiB][group]...[older life's groups, or zeros]
//
// A segment that compaction wrote says in its header which range of indexes it
// stands for; compact.go says how it takes the place of the segments before.
package segment
