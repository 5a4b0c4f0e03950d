// Package fakebroker is a cluster in memory that speaks the protocol over real sockets: for tests of the client. It
// keeps records, checks sequences and remembers producers as a broker does, moves leaders, listens at new addresses, and
// fails on request: see Fault. It shares no code with the broker and none with the client but package proto.
package fakebroker
