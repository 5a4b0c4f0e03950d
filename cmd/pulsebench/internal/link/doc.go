// Package link is a connection to a broker for those who speak the protocol themselves: it frames, keeps to the window
// that the broker grants, and answers its PINGs, and leaves it to its user what to send and when.
//
// Nothing here has a goroutine. One goroutine reads: Fill blocks for more bytes, Next hands out the whole frames that
// have arrived, as slices of the read buffer. Frames to send are gathered by Append and Tail and leave together with
// Flush, in one system call however many there are. Next takes notice of windows and PINGs and so touches what Append
// touches: a user with more than one goroutine puts its own lock around everything but Fill.
package link
