// Package core is the broker's vocabulary: identifiers, limits, configuration,
// assertions, and the ports through which the state machines reach the world
// (Disk, FS, Clock, Conn, Workers). It imports the standard library only, so
// that every other package can speak it.
package core
