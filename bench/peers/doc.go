// Peers measures PulseMQ beside other brokers: the same machine, the same message sizes, batches and requests in flight,
// one after the other in one run, and every message that was acknowledged is read back.
//
//	contest.go   the workloads, who takes part in which, and the floors
//	peer.go      what a broker has to be able to do to take part
//	pulsemq.go   PulseMQ, driven by pulsebench
//	nats/        NATS JetStream: its server embedded in a process of its own, a driver on the bare protocol, and its
//	             client's fast batch publish
//	server.go    a process that says when it is ready
//	table.go     what comes out: a table, Markdown, JSON
//
// It is a module of its own, so that the dependencies of other brokers reach nobody else.
package main
