package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	stallLong  = 10 * time.Second
	stallBrief = 2 * time.Second
	// stallTold is how late a client may hear that its message was not stored in time.
	stallTold = 2 * time.Second
	// stallOthers is what a message to a shard whose disk works may take meanwhile, unless one takes longer before: the
	// machine may do other things too.
	stallOthers = time.Second
)

// stallFault lets one shard's journal stand still. Its clients hear within their time that nothing came of their
// messages; the other shard is as fast as ever; memory stays within its limit; everything goes on afterwards.
//
// Meanwhile no sync reaches the disk below: the forgetful disk does those of folders one after the other, and every other
// operation waits for them. What the machine's own disk does then would be taken for what one shard does to the other.
var stallFault = diskFault{"stall", "the disk of one shard's journal stands still", func(ctx context.Context, p *plan) (err error) {
	if p.shards != 2 {
		if err := p.process.Terminate(); err != nil {
			return err
		}
		if err := p.startWith(2); err != nil {
			return err
		}
	}
	if err := p.disk.ask("real-sync off"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.disk.ask("real-sync on")) }()
	began := time.Now()
	if _, slow, why, err := p.probeEach(ctx, spaceWait); err != nil || slow > 0 { // it works before
		return errors.Join(err, fmt.Errorf("%d partitions did not answer within %v before the disk stood still: %q", slow, spaceWait, why))
	}
	usual := time.Since(began)
	stall := stallLong
	if p.brief {
		stall = stallBrief
	}
	operation := []string{"write", "fsync"}[p.random.IntN(2)]
	number, err := p.disk.arm("stall %s %d /shard-%02d/", operation, stall.Milliseconds(), p.random.IntN(2))
	if err != nil {
		return err
	}
	others := max(stallOthers, min(4*usual, stall/3))
	began = time.Now()
	_, err = p.disk.hit(number, ruleWait)
	var quick, slow int
	for err == nil && (quick == 0 || time.Since(began) < stall-stallTold) {
		var q, s int
		var why []string
		if q, s, why, err = p.probeEach(ctx, others); err == nil && (q == 0 || s == 0) {
			err = fmt.Errorf("%s of one shard stands still: %d partitions answer and %d do not; want some of both within %v; usual are %v: %q", operation, q, s, others, usual, why)
		}
		quick, slow = quick+q, slow+s
	}
	resident, _, memory := (&broker{Process: p.process}).residentBytes()
	counts, disarm := p.disk.disarm()
	if err := errors.Join(err, memory, disarm); err != nil {
		return err
	}
	if limit := int64(memoryLimit) * 5 / 4; resident > limit { // a quarter for what the runtime keeps besides
		return fmt.Errorf("while the disk stood still the broker took %d bytes of memory; its limit is %d", resident, limit)
	}
	p.say("stall: %v; %d messages answered, %d not", counts, quick, slow)
	if err := p.process.Alive(); err != nil {
		return err
	}
	return eventually(ctx, spaceWait, func() error {
		_, slow, why, err := p.probeEach(ctx, others)
		if err == nil && slow > 0 {
			err = fmt.Errorf("%d partitions do not answer after the disk has come back: %q", slow, why)
		}
		return err
	})
}}
