//go:build unix && !linux

package posix

import "os"

// newResolver knows os.Root alone: openat2 is Linux's.
func newResolver(root *os.Root) (resolver, error) { return rooted{root}, nil }
