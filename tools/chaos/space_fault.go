package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// spaceWait bounds how long the broker may take to see that the disk is full, and that it is not any more.
const spaceWait = 30 * time.Second

// spaceFault fills the disk under the broker: what would need new space is refused, in every file that grows. The
// journal is reserved as a whole, and goes on. Producers are told STORAGE_FULL; reads work, and a start; when there is
// space again, producers go on by themselves.
var spaceFault = diskFault{"no-space", "ENOSPC wherever a file grows, also during a start", func(ctx context.Context, p *plan) error {
	for _, rule := range []string{"fail write 1+ ENOSPC /topics/", "fail fallocate 1+ ENOSPC /topics/", "fail create 1+ ENOSPC /topics/", "fail mkdir 1+ ENOSPC /topics/"} {
		if _, err := p.disk.arm("%s", rule); err != nil {
			return err
		}
	}
	p.cast.crashed() // a write that was refused takes what was not promised along
	err := p.spaceIsOut(ctx)
	counts, disarm := p.disk.disarm()
	if err = errors.Join(err, disarm); err != nil {
		return err
	}
	if len(counts) == 0 {
		return errNotHit
	}
	if err := p.process.Alive(); err != nil {
		return err
	}
	return eventually(ctx, spaceWait, func() error { return p.probe(ctx, 2*time.Second) })
}}

func (p *plan) spaceIsOut(ctx context.Context) error {
	full := func() error {
		switch err := p.probe(ctx, time.Second); {
		case err == nil:
			return errors.New("a message is taken, and the disk is full")
		case errors.Is(err, pulsemq.ErrStorageFull): // the cause of the time-out that it led to
			return nil
		default:
			return err
		}
	}
	if err := eventually(ctx, spaceWait, full); err != nil {
		return err
	}
	if err := p.readSome(ctx); err != nil {
		return fmt.Errorf("on a full disk: %w", err)
	}
	if p.random.IntN(2) == 0 {
		return nil
	}
	if err := p.process.Terminate(); err != nil {
		return fmt.Errorf("stop on a full disk: %w", err)
	}
	if err := p.start(); err != nil {
		return fmt.Errorf("start on a full disk: %w", err)
	}
	if err := p.readSome(ctx); err != nil {
		return fmt.Errorf("after a start on a full disk: %w", err)
	}
	return nil
}

// readSome reads a partition from its start to its end.
func (p *plan) readSome(ctx context.Context) error {
	ledgers := p.cast.ledgers["small"]
	_, gaps, err := p.cast.readThrough(ctx, ledgers[p.random.IntN(len(ledgers))])
	if err == nil && len(gaps) > 0 {
		err = fmt.Errorf("%v are called damaged", gaps)
	}
	return err
}
