package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// moment is an operation at which the power goes. The operation does not happen any more.
type moment struct {
	operation string
	path      string
	most      int // the nth from now on, with a random n up to this; rare operations come seldom
}

// moments of a broker at work: every kind of operation on every kind of file. Segments roll and journals are recycled all
// the time, topics are created and deleted, compaction and retention remove files.
var moments = []moment{
	{"create", "/topics/*.log", 3}, {"fallocate", "/topics/*.log", 5}, {"write", "/topics/*.log", 50}, {"fsync", "/topics/*.log", 30},
	{"fsyncdir", "/topics/", 6}, {"mkdir", "/topics/", 3}, {"unlink", "/topics/", 4}, {"rename", "/topics/", 2},
	{"create", ".index", 3}, {"write", ".index", 3}, {"fsync", ".index", 3}, {"write", ".state", 3}, {"fsync", ".state", 3},
	{"write", ".jnl", 100}, {"fsync", ".jnl", 100}, {"write", "/meta/", 3}, {"fsync", "/meta/", 3}, {"rename", "/meta/", 3}, {"fsyncdir", "/meta/", 3},
}

// powerFaults cut the power at one exact operation.
var powerFaults = []diskFault{
	{"power-moment", "power lost at an operation: in the middle of a roll, of recycling, of the creation of a topic", func(_ context.Context, p *plan) error {
		m := moments[p.random.IntN(len(moments))]
		number, err := p.armPower(m.operation, m.path, m.most)
		if err != nil {
			return err
		}
		p.cast.crashed()
		if _, err := p.disk.hit(number, 3*time.Second); err != nil {
			if !errors.Is(err, errNotHit) {
				return err
			}
			// This operation is rare: then at any moment.
			if _, err := p.disk.disarm(); err != nil {
				return err
			}
			if err := p.losePower(); err != nil {
				return err
			}
			return p.start()
		}
		if _, err := p.disk.disarm(); err != nil {
			return err
		}
		if err := p.regainPower(); err != nil {
			return err
		}
		return p.start()
	}},
	{"power-start", "power lost again while what the first loss left is recovered", func(_ context.Context, p *plan) error {
		if err := p.losePower(); err != nil {
			return err
		}
		return p.startDarkly(1 + p.random.IntN(3))
	}},
	{"power-layout", "power lost while another number of shards moves the journals", func(_ context.Context, p *plan) error {
		if p.random.IntN(2) == 0 {
			if err := p.process.Terminate(); err != nil {
				return err
			}
		} else if err := p.losePower(); err != nil {
			return err
		}
		p.shards = 3 - p.shards
		return p.startDarkly(1 + p.random.IntN(3))
	}},
	{"power-stop", "power lost during a clean stop", func(_ context.Context, p *plan) error {
		operation := []string{"write", "fsync", "create", "fsyncdir", "rename"}[p.random.IntN(5)]
		number, err := p.armPower(operation, "", 40)
		if err != nil {
			return err
		}
		p.cast.crashed()
		p.process.Terminate() // how it ends is its own affair when the power goes
		_, err = p.disk.hit(number, 0)
		cut := err == nil
		if err != nil && !errors.Is(err, errNotHit) {
			return err
		}
		if _, err := p.disk.disarm(); err != nil {
			return err
		}
		if !cut {
			if err := p.disk.cut(p.random); err != nil {
				return err
			}
		}
		if err := p.regainPower(); err != nil {
			return err
		}
		return p.start()
	}},
}

// armPower arms the loss of power at one of the next operations.
func (p *plan) armPower(operation, path string, most int) (int, error) {
	how := "clean"
	if p.random.IntN(2) == 0 {
		how = fmt.Sprint(p.random.Uint32())
	}
	return p.disk.arm("power %s %d %s %s", operation, 1+p.random.IntN(most), how, path)
}

// startDarkly starts the broker with its present number of shards and loses the power during the start, some times; then
// it starts it.
func (p *plan) startDarkly(times int) error {
	shards := p.shards
	for range times {
		operation := []string{"read", "write", "fsync", "create", "fsyncdir", "rename", "unlink", "fallocate"}[p.random.IntN(8)]
		number, err := p.armPower(operation, "", 30)
		if err != nil {
			return err
		}
		failed := p.startWith(shards)
		_, err = p.disk.hit(number, 0)
		cut := err == nil
		if err != nil && !errors.Is(err, errNotHit) {
			return err
		}
		if _, err := p.disk.disarm(); err != nil {
			return err
		}
		switch {
		case !cut && failed != nil:
			return fmt.Errorf("start after the loss of power: %w", failed)
		case !cut:
			if err := p.losePower(); err != nil { // it was up before it came to that operation
				return err
			}
		default:
			p.cast.crashed()
			if err := p.regainPower(); err != nil {
				return err
			}
		}
	}
	return p.startWith(shards)
}
