// Package host is about the processes that a comparison measures beside each other on this machine: the broker, the echo
// server, and what they take of processor and memory.
package host
