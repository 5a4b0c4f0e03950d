// Package nats takes NATS JetStream into a contest.
//
//	serve.go     its server, embedded, as a process of its own
//	wire.go      a connection on the bare protocol: what is measured is the server, not a client
//	singles.go   every message a request with an acknowledgement of its own, many in flight
//	fast.go      fast batch publish through the official client
//	verify.go    reads streams back
//	mark.go      what every message carries for that
package nats
