// Package proto is PulseMQ's wire protocol as pure functions over bytes: frame
// headers, commands, record batches and error codes. It does no I/O and imports
// nothing of the broker, so clients depend on it without the broker's libraries.
package proto
