package core

// Conn is a reactor's port to one client connection: gnet's in the broker, a
// simulated one under test. All calls come from the reactor's thread.
type Conn interface {
	// Write queues p and copies what the socket does not take at once.
	Write(p []byte) error
	// Writev queues the slices in order as one write, at most AnswerSlicesMax of
	// them, and copies what the socket does not take at once.
	Writev(ps [][]byte) error
	// Buffered is how many written bytes have not left for the socket.
	Buffered() int
	// Remote is the peer's address for logs.
	Remote() string
	// Close ends the connection after what is queued has been offered to the socket.
	Close()
}
