//go:build !linux

package main

import "errors"

var errNoLoop = errors.New("small disks are mounted on Linux only")

type loopDisk struct{ mount string }

func lackLoop(*stage) error { return errNoLoop }

func mountLoop(string, int64) (*loopDisk, error) { return nil, errNoLoop }

func (d *loopDisk) fill() error { return errNoLoop }

func (d *loopDisk) release() error { return errNoLoop }

func (d *loopDisk) unmount() error { return errNoLoop }
