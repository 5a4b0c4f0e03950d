package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// diskFault is one way in which the disk fails under a broker that works.
type diskFault struct {
	name string
	what string // in a line, for people
	// play makes the disk fail while others send, and returns what the broker did wrong. Afterwards the disk is whole
	// and the broker runs. What was acknowledged is held against the ledgers after the round.
	play func(context.Context, *plan) error
}

// diskFaults are all there are. Set when the program begins, since they are played by what looks them up.
var diskFaults []diskFault

func init() {
	diskFaults = slices.Concat(segmentFaults, journalFaults, readFaults, powerFaults,
		[]diskFault{interruptions, stallFault, spaceFault, rotFault})
	scenarios = slices.Concat(scenarios, diskScenarios(), []scenario{biteScenario})
}

func diskFaultOf(name string) *diskFault {
	i := slices.IndexFunc(diskFaults, func(f diskFault) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &diskFaults[i]
}

func diskFaultNames() string {
	var names []string
	for _, f := range diskFaults {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// errorText is how the system, and with it the broker's log, calls an error of the disk.
const errorText = "input/output error"

// failOnce arms a rule, waits until it has hit something, and disarms it. It returns what was hit.
func (p *plan) failOnce(format string, words ...any) (diskRule, error) {
	number, err := p.disk.arm(format, words...)
	if err != nil {
		return diskRule{}, err
	}
	hit, err := p.disk.hit(number, ruleWait)
	if _, disarm := p.disk.disarm(); disarm != nil {
		return hit, errors.Join(err, disarm)
	}
	return hit, err
}

// surfaced waits until the broker's log, from a mark on, tells of what was injected.
func (p *plan) surfaced(mark logMark, text string) error {
	for end := time.Now().Add(ruleWait); ; time.Sleep(10 * time.Millisecond) {
		lines, err := mark.lines()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the log says nothing of %q", text)
		}
	}
}

// powerLostNow is the loss of power straight after something else, one time in two: what the broker thinks it has
// recovered has to be on the disk.
func (p *plan) powerLostNow() error {
	if p.random.IntN(2) == 0 {
		return nil
	}
	if err := p.losePower(); err != nil {
		return err
	}
	return p.start()
}
