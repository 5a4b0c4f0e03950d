// Package mem is a file system in memory that forgets what a real one may forget.
// The simulator and every crash test run on it: one FS, the blocking view, and a
// Driver per shard over the same state, deterministic for a seed.
//
// What a power cut may do is kept beside what the programs see:
//
//	file    pages      what a read returns
//	        durable    what the last sync made safe
//	        unsynced   the versions of each page since then, oldest first
//	folder  entries    what a lookup finds
//	        durable    what SyncDir made safe
//	        changes    creates, renames and unlinks since then, in their order
//
// Crash makes a copy of the file system as after a power cut: of everything
// unsynced it keeps, drops or tears what its seed says, sector by sector and entry
// by entry. Kill makes one as after the death of the process alone: the caches
// survive. In both, operations in flight may have happened or not.
//
// Faults are rules (fault.go): the nth operation of a kind on a path fails, is
// delayed, stores too little, or flips a bit. Each counts what it did, so that a
// test can require that every injected fault has surfaced.
//
// The driver enforces the port's contract: alignment, no reuse of an operation in
// flight, no change of a buffer while it is being written, no close of a file in use.
package mem
