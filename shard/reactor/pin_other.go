//go:build !linux

package reactor

// pinThread does nothing where threads cannot be pinned.
func pinThread(int) error { return nil }
