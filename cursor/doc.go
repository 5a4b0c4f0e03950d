// Package cursor is what a partition knows of the groups that read it: how far each has come, and which owner may say
// so. It is a pure state machine over the entries of cursor frames (docs/adr/0024-cursors.md):
//
//	payload  version u8 (1) | entries to the end
//	entry    kind u8 | group: length uvarint, bytes | body: length uvarint, bytes
//
// An entry takes effect when it is stored, in the order of the log. What it does then depends on the table alone, never
// on the request behind it, so that a replay comes to the same table.
package cursor
