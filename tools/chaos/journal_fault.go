package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// endWait bounds how long the broker may take to end after its journal failed.
const endWait = 20 * time.Second

// journalFaults fail one write or sync of a journal. The process ends by itself, says why and exits with a code; nothing
// in doubt is acknowledged; the next start recovers, also when the power is lost first.
var journalFaults = []diskFault{
	{"journal-write", "EIO on a write of the journal", func(_ context.Context, p *plan) error { return p.failJournal("write") }},
	{"journal-sync", "EIO on a sync of the journal; what it should have written never reaches the disk", func(_ context.Context, p *plan) error {
		return p.failJournal([]string{"fsync-lose", "fsync-drop"}[p.random.IntN(2)])
	}},
}

// journalEnds waits until the broker has ended. It goes on when what failed was the preparation of a file in which there
// is nothing yet: then its log says so.
func (p *plan) journalEnds(mark logMark) (goesOn bool, err error) {
	for end := time.Now().Add(endWait); ; {
		select {
		case <-p.process.Exited():
			return false, nil
		case <-time.After(10 * time.Millisecond):
		}
		lines, err := mark.lines()
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, "a journal file could not be prepared") && strings.Contains(line, errorText)
		}) {
			return true, p.process.Alive()
		}
		if time.Now().After(end) {
			return false, errors.New("the broker goes on")
		}
	}
}

func (p *plan) failJournal(operation string) error {
	mark, err := p.markLog()
	if err != nil {
		return err
	}
	p.cast.crashed()
	hit, err := p.failOnce("fail %s %d EIO .jnl", operation, 1+p.random.IntN(60))
	if err != nil {
		return err
	}
	if goesOn, err := p.journalEnds(mark); err != nil {
		return fmt.Errorf("%s of %s failed, and %w", operation, hit.Last, err)
	} else if goesOn {
		return p.powerLostNow()
	}
	if end := p.process.Alive(); end == nil || !strings.Contains(end.Error(), "exit status 1") {
		return fmt.Errorf("%s of %s failed: %w; want exit status 1", operation, hit.Last, end)
	}
	found, err := mark.errors()
	if err != nil {
		return err
	}
	named := false
	for _, line := range found {
		named = named || strings.Contains(line, "journal") && strings.Contains(line, errorText)
	}
	if !named {
		return errors.New("the journal failed, and the log does not say so")
	}
	if p.random.IntN(2) == 0 {
		if err := p.losePower(); err != nil {
			return err
		}
	}
	return p.start()
}
