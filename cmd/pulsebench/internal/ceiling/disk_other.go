//go:build !linux

package ceiling

import (
	"context"
	"errors"
	"time"
)

// File is there on Linux only: other systems have no O_DIRECT, and a cache would be measured instead of a disk.
type File struct{}

var errNoDirect = errors.New("a disk's ceiling can be measured on Linux only")

// Open fails.
func (d Disk) Open(context.Context) (*File, error) { return nil, errNoDirect }

// Close does nothing.
func (f *File) Close() error { return nil }

// Measure fails.
func (n NewFiles) Measure(context.Context, Access, time.Duration) (*Measure, error) {
	return nil, errNoDirect
}

// Measure fails.
func (f *File) Measure(context.Context, Access, time.Duration) (*Measure, error) {
	return nil, errNoDirect
}
