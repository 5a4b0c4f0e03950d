//go:build !linux

package abuse

import "testing"

func (b *broker) blackhole(t *testing.T) { t.Skip("it takes a network namespace") }
