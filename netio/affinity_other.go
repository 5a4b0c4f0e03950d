//go:build !linux

package netio

import "errors"

func pinThread(int) error { return errors.New("threads cannot be bound to processors on this system") }
