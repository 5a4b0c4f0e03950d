// Package conn is one connection to one broker: it dials, shakes hands, keeps as many requests in flight as the broker's
// window allows, answers and sends PINGs, and ends when the broker has been silent or late for too long.
//
// Three goroutines live as long as a connection:
//
//	reader  reads frames, hands each answer to its request, and outlives the two others
//	writer  admits waiting requests into the window, in order, and writes them with one system call
//	watch   looks for silence and for late answers
//
// A request's Done is called exactly once when it is over. When the connection ends, that is after reader and writer
// have let go of everything, so that bytes lent with a request are its owner's again when Done is called.
package conn
