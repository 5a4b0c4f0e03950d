// Package abuse does to a broker what hostile and broken clients do, over real sockets, and looks whether it lives, keeps
// its memory, and serves the others meanwhile.
//
// TestAbuse starts one broker as a process and runs the cases one after the other, each under its own name. During every
// case a neighbour, a client that has nothing to do with it, sends messages: its latency is measured, and at the end
// everything it was acknowledged is read back. After every case the process must be alive, its memory within the
// limit, its log one line per event, its metrics page valid.
//
// The frames come from the schema: a command that is added is truncated, reset and filled with nonsense by itself.
// With ABUSE=long in the environment there are more of everything, 20,000 idle connections among them.
package abuse
