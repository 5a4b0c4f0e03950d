package main

import (
	"context"
	"fmt"
)

// segmentFaults fail one write or sync of a segment. Nothing in doubt is acknowledged, nothing is tried again as if
// nothing had happened: the partition returns to its durable point and goes on in a new segment, and the power may be
// lost straight afterwards.
var segmentFaults = []diskFault{
	{"segment-write", "EIO on a write of a segment", func(_ context.Context, p *plan) error { return p.failSegment("write") }},
	{"segment-sync", "EIO on a sync of a segment; what it should have written never reaches the disk", func(_ context.Context, p *plan) error {
		// What Linux does after a failed sync: the data is marked clean, and seen until the power goes, or it is dropped.
		return p.failSegment([]string{"fsync-lose", "fsync-drop"}[p.random.IntN(2)])
	}},
	{"segment-folder", "EIO on the sync of a partition's folder, on the reservation of space or on the creation of a segment", func(_ context.Context, p *plan) error {
		return p.failSegment([]string{"fsyncdir", "fallocate", "create"}[p.random.IntN(3)])
	}},
}

func (p *plan) failSegment(operation string) error {
	mark, err := p.markLog()
	if err != nil {
		return err
	}
	path, nth := "/topics/*.log", 1+p.random.IntN(30)
	if operation == "fsyncdir" {
		path = "/topics/"
	}
	if operation == "fsyncdir" || operation == "fallocate" || operation == "create" {
		nth = 1 + p.random.IntN(4) // they are rare
	}
	p.cast.crashed() // the partition may lose what it did not promise to keep
	hit, err := p.failOnce("fail %s %d EIO %s", operation, nth, path)
	if err != nil {
		return err
	}
	if err := p.surfaced(mark, errorText); err != nil {
		return fmt.Errorf("%s of %s failed: %w", operation, hit.Last, err)
	}
	if err := p.process.Alive(); err != nil {
		return fmt.Errorf("%s of %s failed: %w", operation, hit.Last, err)
	}
	return p.powerLostNow()
}
