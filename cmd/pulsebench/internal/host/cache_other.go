//go:build !linux

package host

import "errors"

func dropCache(string) error { return errors.New("a file's cache can be dropped on Linux only") }
