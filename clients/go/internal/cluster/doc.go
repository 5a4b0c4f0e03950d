// Package cluster is what a client knows of its brokers: which there are, who leads which partition, and a connection to
// each of them.
//
//	Cluster ── links ──> Link (role, node or seed) ──> conn.Conn, made again when it ends
//	        └─ topics ─> Topic, an immutable snapshot, replaced when it is old or an error says so
//
// A broker has one connection per role. Producers and Admin share one, because their requests are small and their answers
// are too. Consumers have another: a fetched chunk of a megabyte would hold up the acknowledgements behind it on the same
// stream, and long polls would sit in the window that producing needs.
package cluster
